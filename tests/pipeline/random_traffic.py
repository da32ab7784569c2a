"""Flows at random, and captures of them that are not what they should be."""

from __future__ import annotations

from random import Random
from typing import Any

from hopline.capture.records import Event, Level
from tests.pipeline.rows import Row
from tests.pipeline.traffic import EXCEPTION, RECEIPT, Job, Sent, Traffic

NODES = ("a", "b", "c")
KINDS = ("PRICED", "RESERVED", "CHARGED")


def captures(seed: int, flows: int) -> list[Row]:
    """Record that many flows."""
    random = Random(seed)
    rows = []
    for number in range(flows):
        for traffic in _flow(random, f"flow-{number}", start=1_000 * number):
            rows += _damaged(random, traffic.rows)
    random.shuffle(rows)
    return rows


def _flow(random: Random, name: str, start: int) -> list[Traffic]:
    t = Traffic(
        name,
        level={node: random.choice([Level.FULL, Level.FULL, Level.WIRE]) for node in NODES},
        skew=dict.fromkeys(NODES, 0) | {"b": random.choice([0, 300, -300])},
        wire_format=random.choice(["V5", "V6", "FIRST"]),
        traced=random.random() < 0.8,
    )
    now = [start]
    node = random.choice(NODES)
    ttl = random.choice([0, 0, 100, 10_000])
    asks = random.random() < 0.8
    wanted = random.choice([["DONE"], ["DONE"], [RECEIPT], [RECEIPT, "DONE"]])
    first = t.ask(node, "ORDER", start, wanted, ttl_us=ttl) if asks else t.tell(node, "NOTE", start, ttl_us=ttl)
    if t.rows and random.random() < 0.2:
        t.rows[-1]["cause"] = random.choice([start - 500, start + 1])  # most likely a record of another flow, or lost
    nested: list[Traffic] = []
    _live(random, t, now, first, node, home=node, steps=random.randint(0, 5), nested=nested)
    if asks:
        _ask_again(t, now, first, node, nested)
    return [t, *nested]


def _ask_again(t: Traffic, now: list[int], first: Sent, node: str, nested: list[Traffic], **columns: Any) -> None:
    """Let further attempts follow a request, perhaps; each is submitted with these columns of its record."""
    random = Random(t.flow)
    if t.wire_format == "FIRST" or random.random() < 0.6:
        return
    wanted = [one["identity"] for one in first.header["callbacks"][:-1]]
    for attempt in random.choice([(2,), (2, 3)]):
        before = len(t.rows)
        again = {"ttl_us": first.header["ttl_us"], "attempt": attempt}
        request = t.ask(node, first.identity, _later(random, now), wanted, key=attempt, **again)
        for row in t.rows[before:]:
            row |= columns
        _live(random, t, now, request, node, home=node, steps=random.randint(0, 2), nested=nested)


def _sent_by_handler(random: Random, job: Job, t: Traffic, now: list[int], nested: list[Traffic]) -> None:
    """Let a handler ask for something, or tell it, in a flow of its own, and perhaps for something else meanwhile."""
    for _ in range(random.choice([1, 1, 2])):
        child = Traffic(f"{t.flow}.{len(nested)}", t.level, t.default_level, t.skew, t.wire_format, t.traced)
        nested.append(child)
        at, ttl = _later(random, now), random.choice([0, 0, 40, 10_000])
        asks = random.random() < 0.8
        first = (
            child.ask(job.node, "PART", at, ["DONE"], ttl_us=ttl)
            if asks
            else child.tell(job.node, "NOTE", at, ttl_us=ttl)
        )
        for row in child.rows:
            row["cause"] = job.seq
            row["local_receiver"] = random.choice([row["local_receiver"], row["local_receiver"], "x", None])
        then = list(now)
        _live(random, child, then, first, job.node, home=job.node, steps=random.randint(0, 2), nested=nested)
        if asks:
            _ask_again(child, then, first, job.node, nested, cause=job.seq)
        now[0] = random.choice([now[0], then[0]])
    now[0] = max(now[0], then[0])


def _later(random: Random, now: list[int]) -> int:
    now[0] += random.randint(3, 40)  # never at the same time: a record's number is its time
    return now[0]


def _live(
    random: Random,
    t: Traffic,
    now: list[int],
    what: Sent,
    node: str,
    home: str,
    steps: int,
    nested: list[Traffic],
) -> None:
    """Let a message go somewhere, be handled there, and have results."""
    is_answer = bool(what.header.get("receiver"))
    target = home if is_answer else random.choice(NODES)
    if target != node:
        what = t.send(what, node, target, _later(random, now))
        if random.random() < 0.1:
            return
        for _ in range(random.choice([1, 1, 1, 2])):
            t.receive(what, target, node, _later(random, now))
    if is_answer:
        t.home(what, target, _later(random, now), is_taken=random.random() < 0.7)
        now[0] += 2
        return
    if random.random() < 0.1:
        t.end(random.choice([Event.EXPIRED, Event.UNROUTABLE, Event.FAILED]), what, target, _later(random, now))
        if random.random() < 0.5:
            report = t.result(Job(what, target, "router", 0), EXCEPTION, _later(random, now), caused=False)
            _live(random, t, now, report, target, home, 0, nested)
        return
    if random.random() < 0.2 and RECEIPT in str(what.header.get("callbacks")):
        receipt = t.result(Job(what, target, "router", 0), RECEIPT, _later(random, now), caused=False)
        _live(random, t, now, receipt, target, home, 0, nested)
    for actor in random.choice([["x"], ["x"], ["x", "y"]]):
        job = t.deliver(what, target, actor, _later(random, now))
        if random.random() < 0.15 and len(nested) < 5:
            _sent_by_handler(random, job, t, now, nested)
        results = (
            [random.choice(KINDS) for _ in range(random.choice([0, 1, 1, 2]))]
            if steps
            else [random.choice(["DONE", "DONE", EXCEPTION])]
        )
        made = [t.result(job, identity, _later(random, now)) for identity in results]
        if random.random() < 0.9:
            t.handled(job, _later(random, now))
        for one in made:
            if steps or one.header.get("receiver"):
                _live(random, t, now, one, target, home, max(0, steps - 2), nested)


def _damaged(random: Random, rows: list[Row]) -> list[Row]:
    """Lose some records, and add what attackers would."""
    loss = random.choice([0, 0, 0.1, 0.4])
    kept = [row for row in rows if random.random() >= loss]
    for row in [row for row in kept if row["event"] == "received" and random.random() < 0.05]:
        again = row | {"seq": row["seq"] + 500_000_000, "verdict": "replayed"}
        kept += [again, again | {"event": "rejected", "seq": again["seq"] + 1, "verdict": None}]
    return kept
