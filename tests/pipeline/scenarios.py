"""What happens to requests: one flow each, by name. Times are microseconds; node `a` asks, unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hopline.capture.records import Event, Level
from tests.pipeline.rows import Row, message
from tests.pipeline.traffic import EXCEPTION, RECEIPT, Job, Traffic

LATER = 10_000_000  # the capture of `a` goes on until then
SCENARIOS: dict[str, Callable[[Traffic], None]] = {}


def scenario(told: Callable[[Traffic], None]) -> Callable[[Traffic], None]:
    SCENARIOS[told.__name__] = told
    return told


def rows() -> list[Row]:
    """Give the records of all of them."""
    # What has no flow is never stitched, but tells that `a` is still there.
    zero = "00000000-0000-0000-0000-000000000000"
    found = [message("sent", "a", at=LATER + at, peer="b", message_id=3, correlation_id=zero) for at in range(50)]
    for name, told in SCENARIOS.items():
        traffic = Traffic(name)
        told(traffic)
        found += traffic.rows
    return found


@scenario
def on_one_node(t: Traffic) -> None:
    order = t.ask("a", "ORDER", 0, ["PRICE"], ttl_us=1_000)
    job = t.deliver(order, "a", "pricer", 20)
    price = t.result(job, "PRICE", 70)
    t.handled(job, 80)
    t.home(price, "a", 100)


@scenario
def across_two_nodes(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, ["PRICE"]), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    price = t.go(t.result(job, "PRICE", 90), "b", "a", 100, 150)
    t.handled(job, 110)
    t.home(price, "a", 160)


def chain(t: Traffic) -> None:
    """Let four actors on three nodes work on it one after the other: b, c, c, b."""
    order = t.go(t.ask("a", "ORDER", 0, ["SHIPPED"]), "a", "b", 10, 30)
    price = t.deliver(order, "b", "pricer", 50)
    priced = t.go(t.result(price, "PRICED", 60), "b", "c", 70, 90)
    t.handled(price, 65)
    reserve = t.deliver(priced, "c", "stock", 100)
    reserved = t.result(reserve, "RESERVED", 130)
    t.handled(reserve, 131)
    charge = t.deliver(reserved, "c", "bank", 150)
    charged = t.go(t.result(charge, "CHARGED", 180), "c", "b", 190, 210)
    t.handled(charge, 185)
    ship = t.deliver(charged, "b", "shipper", 220)
    shipped = t.go(t.result(ship, "SHIPPED", 300), "b", "a", 310, 350)
    t.handled(ship, 305)
    t.home(shipped, "a", 360)


@scenario
def four_actors_on_three_nodes(t: Traffic) -> None:
    chain(t)


@scenario
def clocks_that_differ(t: Traffic) -> None:
    t.skew = {"b": -5_000, "c": 7_000}
    chain(t)


@scenario
def recorded_on_the_wire(t: Traffic) -> None:
    t.default_level = Level.WIRE
    t.skew = {"b": -5_000, "c": 7_000}
    chain(t)


@scenario
def recorded_here_more_and_there_less(t: Traffic) -> None:
    t.level = {"b": Level.WIRE}
    chain(t)


@scenario
def in_the_first_format(t: Traffic) -> None:
    t.wire_format = "FIRST"
    chain(t)


@scenario
def in_the_first_format_on_the_wire(t: Traffic) -> None:
    t.wire_format, t.default_level = "FIRST", Level.WIRE
    chain(t)


@scenario
def untraced_on_the_wire(t: Traffic) -> None:
    t.wire_format, t.default_level, t.traced = "FIRST", Level.WIRE, False
    chain(t)


@scenario
def fan_out(t: Traffic) -> None:
    order = t.ask("a", "ORDER", 0, ["DONE"])
    split = t.deliver(order, "a", "splitter", 10)
    left, right = t.result(split, "LEFT", 20), t.result(split, "RIGHT", 21)
    t.handled(split, 22)
    slow, fast = t.deliver(left, "a", "slow", 30), t.deliver(right, "a", "fast", 31)
    note = t.result(fast, "NOTE", 40)
    t.handled(fast, 41)
    t.deliver(note, "a", "log", 50)
    done = t.result(slow, "DONE", 90)
    t.handled(slow, 91)
    t.home(done, "a", 100)


@scenario
def answered_by_an_exception(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, ["PRICE"]), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    report = t.go(t.result(job, EXCEPTION, 60, service=True), "b", "a", 70, 90)
    t.handled(job, 61, reason="ValueError")
    t.home(report, "a", 95)


@scenario
def answered_late(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, ["PRICE"], ttl_us=100), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    price = t.go(t.result(job, "PRICE", 120), "b", "a", 130, 150)
    t.handled(job, 125)
    t.record(Event.DELIVERED, "a", price, 151, local_receiver="hub-a")


@scenario
def taken_although_its_time_was_over(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, ["PRICE"], ttl_us=100), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    price = t.go(t.result(job, "PRICE", 120), "b", "a", 130, 150)
    t.handled(job, 125)
    t.record(Event.DELIVERED, "a", price, 151, local_receiver="hub-a")
    t.record(Event.RESOLVED, "a", price, 152, local_receiver="hub-a")


@scenario
def an_exception_that_is_late(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, ["PRICE"], ttl_us=100), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    t.go(t.result(job, EXCEPTION, 120, service=True), "b", "a", 130, 150)


@scenario
def expired_in_a_mailbox(t: Traffic) -> None:
    order = t.go(t.ask("z", "ORDER", 0, ["PRICE"], ttl_us=100), "z", "b", 10, 30)
    t.end(Event.EXPIRED, order, "b", 140)


@scenario
def expired_in_silence(t: Traffic) -> None:
    t.go(t.ask("a", "ORDER", 0, ["PRICE"], ttl_us=100), "a", "b", 10, 30)


@scenario
def never_answered(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, ["PRICE"]), "a", "b", 10, 30)
    t.handled(t.deliver(order, "b", "pricer", 50), 60)


@scenario
def nobody_watched_long_enough(t: Traffic) -> None:
    t.go(t.ask("z", "ORDER", 100, ["PRICE"], ttl_us=1_000), "z", "b", 110, 130)


@scenario
def orphan(t: Traffic) -> None:
    chain(t)
    t.rows = [row for row in t.rows if row["node"] != "a"]


@scenario
def orphan_that_came_home(t: Traffic) -> None:
    chain(t)
    t.rows = [row for row in t.rows if row["node"] == "a" and row["identity"] == "SHIPPED"]


@scenario
def orphan_with_a_receipt(t: Traffic) -> None:
    receipt(t)
    t.rows = [row for row in t.rows if row["node"] != "a"]


@scenario
def told_one_way(t: Traffic) -> None:
    note = t.go(t.tell("a", "NOTE", 0), "a", "b", 10, 30)
    job = t.deliver(note, "b", "log", 50)
    t.handled(job, 80)


@scenario
def told_one_way_on_the_wire(t: Traffic) -> None:
    t.default_level = Level.WIRE
    t.go(t.tell("a", "NOTE", 0), "a", "b", 10, 30)


@scenario
def told_to_nobody(t: Traffic) -> None:
    note = t.tell("a", "NOTE", 0)
    t.end(Event.UNROUTABLE, note, "a", 5)


@scenario
def asked_of_nobody(t: Traffic) -> None:
    order = t.ask("z", "ORDER", 0, ["PRICE"])
    t.end(Event.UNROUTABLE, order, "z", 5)


@scenario
def told_and_expired(t: Traffic) -> None:
    note = t.tell("a", "NOTE", 0, ttl_us=10)
    t.end(Event.EXPIRED, note, "a", 15)


@scenario
def told_and_lost(t: Traffic) -> None:
    t.send(t.tell("a", "NOTE", 0), "a", "b", 10)


@scenario
def broadcast(t: Traffic) -> None:
    news = t.tell("a", "NEWS", 0, distribution=1)
    for count, node in enumerate(["b", "c"]):
        copy = t.go(news, "a", node, 10 + count, 30 + count)
        for place, actor in enumerate(["x", "y"]):
            t.handled(t.deliver(copy, node, actor, 50 + 10 * place + count), 100 + 10 * place + count)


@scenario
def broadcast_on_the_wire(t: Traffic) -> None:
    t.default_level = Level.WIRE
    broadcast(t)


@scenario
def reported_by_the_router(t: Traffic) -> None:
    order = t.ask("a", "ORDER", 0, ["PRICE"])
    t.end(Event.UNROUTABLE, order, "a", 5)
    report = t.result(Job(order, "a", "", 0), EXCEPTION, 7, caused=False, service=True)
    t.home(report, "a", 10)


def receipt(t: Traffic) -> None:
    parcel = t.go(t.ask("a", "PARCEL", 0, [RECEIPT]), "a", "b", 10, 30)
    points = {"callbacks": parcel.header["callbacks"][:1], "service": True}
    job = t.deliver(parcel, "b", "porter", 50)
    confirmed = t.go(t.result(job, RECEIPT, 40, caused=False, **points), "b", "a", 45, 70)
    t.handled(job, 400)
    t.home(confirmed, "a", 80)


@scenario
def confirmed_by_a_receipt(t: Traffic) -> None:
    receipt(t)


@scenario
def a_receipt_is_no_answer(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, [RECEIPT, "PRICE"]), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    t.go(t.result(job, RECEIPT, 40, caused=False, service=True), "b", "a", 45, 70)
    t.go(t.result(job, "PRICE", 100), "b", "a", 110, 130)


@scenario
def answered_late_after_a_receipt(t: Traffic) -> None:
    order = t.go(t.ask("a", "ORDER", 0, [RECEIPT, "PRICE"], ttl_us=100), "a", "b", 10, 30)
    job = t.deliver(order, "b", "pricer", 50)
    t.home(t.go(t.result(job, RECEIPT, 40, caused=False, service=True), "b", "a", 45, 70), "a", 75)
    t.home(t.go(t.result(job, "PRICE", 100), "b", "a", 110, 150), "a", 160, is_taken=False)


@scenario
def arrived_twice(t: Traffic) -> None:
    order = t.send(t.ask("a", "ORDER", 0, ["PRICE"]), "a", "b", 10)
    for at in (30, 35):
        t.receive(order, "b", "a", at)
    job = t.deliver(order, "b", "pricer", 50)
    again = t.deliver(order, "b", "pricer", 55)
    price = t.go(t.result(job, "PRICE", 52), "b", "a", 53, 60)
    t.handled(job, 54)
    other = t.result(again, "PRICE", 57)
    other.header |= {"message_id": price.header["message_id"], "fingerprint": price.header["fingerprint"] - 1}
    t.rows[-1] |= {"message_id": price.header["message_id"]}
    t.go(other, "b", "a", 58, 65)
    t.home(price, "a", 61)


@scenario
def asked_inside_a_handler(t: Traffic) -> None:
    order = t.ask("a", "ORDER", 500, ["PRICE"])
    t.rows[-1]["cause"] = 499  # a record of another flow
    job = t.deliver(order, "a", "pricer", 520)
    t.home(t.result(job, "PRICE", 570), "a", 600)


@scenario
def told_inside_a_handler(t: Traffic) -> None:
    note = t.tell("a", "NOTE", 500)
    t.rows[-1]["cause"] = 499  # a record of another flow
    job = t.deliver(t.go(note, "a", "b", 510, 530), "b", "log", 550)
    t.handled(job, 580)


@scenario
def forged_and_replayed(t: Traffic) -> None:
    across_two_nodes(t)
    order = t.rows[2]
    assert order["event"] == Event.RECEIVED
    forged = {"message_id": 9, "fingerprint": 9}
    for at, verdict, changes in ((200, "replayed", {}), (300, "bad_signature", forged)):
        refused = {name: value for name, value in order.items() if name not in ("event", "node", "ts", "date", "seq")}
        refused |= changes
        t.rows.append(message("received", "b", at=at, **refused | {"verdict": verdict}))
        t.rows.append(message("rejected", "b", at=at + 1, **refused))


@scenario
def rejected_without_an_offence(t: Traffic) -> None:
    note = t.send(t.tell("a", "NOTE", 0), "a", "b", 10)
    t.receive(note, "b", "a", 30, verdict="unsigned")
    t.end(Event.REJECTED, note, "b", 31)


@scenario
def only_forged(t: Traffic) -> None:
    note = t.message("NOTE", hops=1)
    t.receive(note, "b", "a", 30, verdict="bad_signature")
    t.end(Event.REJECTED, note, "b", 31)


@scenario
def taken_off_the_wire_by_another_tool(t: Traffic) -> None:
    chain(t)
    for row in t.rows:
        row |= dict.fromkeys(("node", "event", "peer", "local_receiver", "cause"))
        row["seq"] = None


@scenario
def huge(t: Traffic) -> None:
    order = t.ask("a", "ORDER", 0, ["DONE"])
    job = t.deliver(order, "a", "splitter", 10)
    for count in range(600):
        part = t.deliver(t.result(job, "PART", 20 + count), "a", "worker", 1_000 + 2 * count)
        t.handled(part, 1_001 + 2 * count)
    t.home(t.result(job, "DONE", 5_000), "a", 5_010)


def attempt(t: Traffic, number: int, at: int, answer: str, took: int = 90, **columns: Any) -> None:
    """Ask another node, for the first time or again, and let its answer come home after so long."""
    asked = t.ask("a", "ORDER", at, ["PRICE"], key=number, attempt=number, **columns)
    order = t.go(asked, "a", "b", at + 10, at + 30)
    job = t.deliver(order, "b", "pricer", at + 40)
    answered = t.result(job, answer, at + took - 30)
    t.handled(job, at + took - 29)
    t.home(t.go(answered, "b", "a", at + took - 20, at + took), "a", at + took + 5, is_taken=took < 200)


@scenario
def answered_at_the_third_attempt(t: Traffic) -> None:
    attempt(t, 1, 0, EXCEPTION)
    attempt(t, 2, 150, EXCEPTION)
    attempt(t, 3, 300, "PRICE")


@scenario
def answered_late_and_at_the_second_attempt(t: Traffic) -> None:
    attempt(t, 1, 0, "PRICE", took=500, ttl_us=200)
    attempt(t, 2, 300, "PRICE", ttl_us=200)


@scenario
def asked_of_nobody_and_in_vain(t: Traffic) -> None:
    order = t.ask("a", "ORDER", 0, ["PRICE"], key=1, ttl_us=1_000)
    t.end(Event.UNROUTABLE, order, "a", 5)
    again = t.ask("a", "ORDER", 300, ["PRICE"], key=2, attempt=2, ttl_us=700)
    t.go(again, "a", "b", 310, 330)


@scenario
def expired_and_answered_by_an_exception(t: Traffic) -> None:
    t.go(t.ask("a", "ORDER", 0, ["PRICE"], key=1, ttl_us=200), "a", "b", 10, 30)
    attempt(t, 2, 300, EXCEPTION, ttl_us=200)


@scenario
def asked_again_on_the_wire(t: Traffic) -> None:
    t.default_level = Level.WIRE
    attempt(t, 1, 0, EXCEPTION)
    attempt(t, 2, 300, "PRICE")
