"""What a node records of its own messages: every event in its order, with its cause, and books that balance."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    CaptureLevel,
    CaptureSettings,
    Context,
    DeliveryError,
    Node,
    NodeSettings,
    NoRoomError,
    Payload,
    handler,
)
from tests.node.links import Network
from tests.node.running import on_loop, started, until

from .reading import events_of, imbalance, message_of, rows_of


class Ask(Payload):
    number: int


class Middle(Payload):
    number: int


class Told(Payload):
    number: int


class Unheard(Payload):
    pass


class First(Actor):
    @handler
    def ask(self, ask: Ask) -> Middle:
        if ask.number < 0:
            raise ValueError("negative")
        return Middle(ask.number)


class Second(Actor):
    @handler
    async def middle(self, middle: Middle) -> Told:
        await asyncio.sleep(0.01)
        return Told(middle.number)


class Blocking(Actor):
    @handler(blocking=True)
    def middle(self, middle: Middle) -> Iterator[Told]:
        yield Told(middle.number)


class Slow(Actor):
    concurrency = 1
    mailbox_capacity = 1

    def __init__(self) -> None:
        self.go = asyncio.Event()

    @handler
    async def ask(self, ask: Ask) -> Told:
        await self.go.wait()
        return Told(ask.number)


def full(directory: Path, **settings: Any) -> CaptureSettings:
    return CaptureSettings(directory=str(directory), **{"level": CaptureLevel.FULL} | settings)


def short(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["event"], message_of(row).identity.decode()) for row in rows]


@on_loop
async def test_a_request_is_seen_from_hub_to_hub_and_each_record_names_its_cause(tmp_path: Path) -> None:
    async with started(First(), Second(), identity=b"node", capture=full(tmp_path)) as node:
        assert await node.hub.send(Ask(1), callback=Told) == Told(1)
        hub = node.hub.identity.decode()
    rows = rows_of(tmp_path)
    assert short(rows) == [
        ("submitted", "Ask"),
        ("delivered", "Ask"),
        ("submitted", "Middle"),
        ("handled", "Ask"),
        ("delivered", "Middle"),
        ("submitted", "Told"),
        ("delivered", "Told"),
        ("resolved", "Told"),
        ("handled", "Middle"),
    ]
    by_event = dict(zip(short(rows), rows, strict=True))
    assert by_event["submitted", "Ask"]["cause"] is None
    assert by_event["submitted", "Middle"]["cause"] == by_event["delivered", "Ask"]["seq"]
    assert by_event["submitted", "Told"]["cause"] == by_event["delivered", "Middle"]["seq"]
    assert by_event["handled", "Middle"]["cause"] == by_event["delivered", "Middle"]["seq"]
    assert by_event["resolved", "Told"]["receiver"] == hub
    assert by_event["handled", "Middle"]["duration_us"] >= 9_000
    assert 0 <= by_event["delivered", "Middle"]["duration_us"] < 5_000_000
    assert {row["node"] for row in rows} == {"node"}
    assert len({message_of(row).correlation_id for row in rows}) == 1
    assert all(before["ts"] <= after["ts"] for before, after in pairwise(rows))
    assert imbalance(rows) == 0


@on_loop
async def test_a_handler_in_a_thread_causes_what_it_sends(tmp_path: Path) -> None:
    async with started(First(), Blocking(), capture=full(tmp_path)) as node:
        await node.hub.send(Ask(1), callback=Told)
    rows = rows_of(tmp_path)
    delivered, told = (
        next(row for row in rows if (row["event"], message_of(row).identity) == wanted)
        for wanted in (("delivered", b"Middle"), ("submitted", b"Told"))
    )
    assert told["cause"] == delivered["seq"]


class Derived(Second):
    """Has the handler of another class."""


@on_loop
async def test_records_name_the_class_of_an_actor_and_its_handler_beside_its_identity(tmp_path: Path) -> None:
    first, derived = First(), Derived()
    async with started(first, derived, capture=full(tmp_path)) as node:
        await node.hub.send(Ask(1), callback=Told)
        hub = node.hub.identity.decode()
    names = {
        key: (row["receiver"], row["receiver_name"], row["handler"])
        for row in rows_of(tmp_path)
        for key in short([row])
    }
    one, other = (first.identity.decode(), "First", "ask"), (derived.identity.decode(), "Derived", "middle")
    assert names == {
        ("submitted", "Ask"): (hub, None, None),
        ("delivered", "Ask"): one,
        ("submitted", "Middle"): one,
        ("handled", "Ask"): one,
        ("delivered", "Middle"): other,
        ("submitted", "Told"): other,
        ("delivered", "Told"): (hub, None, None),
        ("resolved", "Told"): (hub, None, None),
        ("handled", "Middle"): other,
    }


class Asking(Actor):
    """Sends a message of its own before it answers, in one of the ways that there are."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.node: Node | None = None

    @handler
    async def ask(self, ask: Ask, context: Context) -> Told:
        middle = Middle(ask.number)
        assert self.node is not None
        match self.way:
            case "hub":
                await context.hub.send(middle, callback=Told)
            case "ask":
                await context.ask(middle, Told)
            case "node":
                await self.node.hub.send(middle, callback=Told)
            case "task":
                await asyncio.create_task(self.node.new_hub().send(middle, callback=Told))
            case "promise":
                await context.hub.try_send(middle, callback=Told)
            case "one way":
                await context.hub.send_one_way(middle)
            case "broadcast":
                await context.hub.broadcast(middle)
            case "stream":
                async for _ in context.hub.stream(middle, callback=Told, limit=1):
                    break
        return Told(ask.number)


class AskingInThread(Asking):
    @handler(blocking=True)
    def ask(self, ask: Ask, context: Context) -> Told:  # type: ignore[override]
        return context.wait(context.ask(Middle(ask.number), Told))


@pytest.mark.parametrize("way", ["hub", "ask", "node", "task", "promise", "one way", "broadcast", "stream", "thread"])
@on_loop
async def test_what_a_handler_sends_through_a_hub_is_another_flow_and_has_a_cause(tmp_path: Path, way: str) -> None:
    actor = AskingInThread(way) if way == "thread" else Asking(way)
    async with started(actor, Second(), capture=full(tmp_path)) as node:
        actor.node = node
        await node.hub.send(Ask(1), callback=Told)
        await until(lambda: node.stats().handled == 2)
    rows = rows_of(tmp_path)
    (asked,) = [row for row in rows if short([row]) == [("delivered", "Ask")]]
    (first,) = [row for row in rows if short([row]) == [("submitted", "Ask")]]
    (middle,) = [row for row in rows if short([row]) == [("submitted", "Middle")]]
    assert first["cause"] is None
    assert middle["cause"] == asked["seq"]
    assert message_of(middle).correlation_id != message_of(asked).correlation_id
    assert first["receiver"] == message_of(first).callback_receiver_identity.decode()
    if way not in ("one way", "broadcast"):
        assert middle["receiver"] == message_of(middle).callback_receiver_identity.decode()
    answers = {row["receiver"]: row["cause"] for row in rows if short([row]) == [("submitted", "Told")]}
    assert answers[asked["receiver"]] == asked["seq"]


@on_loop
async def test_what_waits_for_room_keeps_its_cause_and_its_sender(tmp_path: Path) -> None:
    class Flooding(Actor):
        @handler
        async def middle(self, middle: Middle, context: Context) -> Told:
            asking = [asyncio.create_task(context.ask(Ask(number), Told)) for number in range(4)]
            await asyncio.gather(*asking)
            return Told(middle.number)

    actor = Slow()
    async with started(actor, Flooding(), capture=full(tmp_path)) as node:
        asked = asyncio.create_task(node.hub.send(Middle(1), callback=Told))
        await until(lambda: len(node.router.backpressure.queue.all()) == 2)
        actor.go.set()
        await asked
        hub = node.hub.identity.decode()
    rows = rows_of(tmp_path)
    (delivered,) = [row for row in rows if short([row]) == [("delivered", "Middle")]]
    submitted = [row for row in rows if short([row]) == [("submitted", "Ask")]]
    assert [(row["cause"], row["receiver"]) for row in submitted] == [(delivered["seq"], hub)] * 4


@on_loop
async def test_a_handler_of_another_node_is_no_cause(tmp_path: Path) -> None:
    """Each node numbers its own records: a hub of another node in the same process begins anew."""
    async with started(Second(), identity=b"other", capture=full(tmp_path)) as other:
        actor = Asking("node")
        async with started(actor, identity=b"node", capture=full(tmp_path)) as node:
            actor.node = other
            await node.hub.send(Ask(1), callback=Told)
    (middle,) = [row for row in rows_of(tmp_path, "other") if short([row]) == [("submitted", "Middle")]]
    assert middle["cause"] is None


@on_loop
async def test_a_handler_that_fails_says_why(tmp_path: Path) -> None:
    async with started(First(), capture=full(tmp_path)) as node:
        with pytest.raises(ActorError):
            await node.hub.send(Ask(-1), callback=Told)
    rows = rows_of(tmp_path)
    (handled,) = [row for row in rows if row["event"] == "handled"]
    assert handled["reason"] == "ValueError: negative"
    (report,) = [row for row in rows if short([row]) == [("submitted", "KINO.EXCEPTION")]]
    assert report["cause"] == handled["cause"]
    assert events_of(rows, b"KINO.EXCEPTION") == ["submitted", "delivered", "resolved"]
    assert imbalance(rows) == 0


@on_loop
async def test_a_receipt_is_caused_by_what_it_confirms_and_a_report_by_the_ending(tmp_path: Path) -> None:
    class Silent(Actor):
        @handler
        def middle(self, middle: Middle) -> None: ...

    async with started(Silent(), capture=full(tmp_path)) as node:
        await node.hub.send(Middle(1))
        with pytest.raises(DeliveryError):
            await node.hub.send(Unheard(), callback=Told)
    rows = rows_of(tmp_path)
    by_event = dict(zip(short(rows), rows, strict=True))
    assert by_event["submitted", "KINO.RCPTCONFIRM"]["cause"] == by_event["submitted", "Middle"]["seq"]
    ending = by_event["unroutable", "Unheard"]
    assert ending["reason"].startswith("nobody handles it")
    assert by_event["submitted", "KINO.EXCEPTION"]["cause"] == ending["seq"]
    assert by_event["submitted", "Unheard"]["seq"] < ending["seq"]
    assert imbalance(rows) == 0


@on_loop
async def test_messages_that_wait_for_room_or_find_none_are_in_the_books(tmp_path: Path) -> None:
    settings = NodeSettings(backpressure_timeout=0.05)
    actor = Slow()
    async with started(actor, settings=settings, capture=full(tmp_path)) as node:
        asked = [asyncio.create_task(node.hub.send(Ask(number), callback=Told)) for number in range(4)]
        await until(lambda: sum(task.done() for task in asked) == 2)  # one runs, one is in the mailbox
        with pytest.raises(NoRoomError):
            node.hub.try_send_one_way(Ask(9))
        waiting = asyncio.create_task(node.hub.send(Ask(5), callback=Told))
        await asyncio.sleep(0)
        actor.go.set()
        answers = await asyncio.gather(*asked, waiting, return_exceptions=True)
        assert [type(one) for one in answers].count(DeliveryError) == 2
    rows = rows_of(tmp_path)
    assert sorted(events_of(rows, b"Ask")) == sorted(
        ["submitted"] * 5 + ["delivered"] * 3 + ["handled"] * 3 + ["overflow"] * 2
    )
    assert imbalance(rows) == 0


@on_loop
async def test_broadcasts_have_an_outcome_for_every_copy(tmp_path: Path) -> None:
    async with started(Second(), Second(), Second(), capture=full(tmp_path)) as node:
        await node.hub.broadcast(Middle(1))
        await until(lambda: node.stats().handled == 3)
    rows = rows_of(tmp_path)
    assert events_of(rows, b"Middle").count("delivered") == 3
    assert imbalance([row for row in rows if message_of(row).identity == b"Middle"]) == -2  # so many further copies


@on_loop
async def test_a_late_answer_is_delivered_and_not_resolved(tmp_path: Path) -> None:
    class Late(Actor):
        @handler
        async def ask(self, ask: Ask) -> Told:
            await asyncio.sleep(0.05)
            return Told(1)

    async with started(Late(), capture=full(tmp_path)) as node:
        with pytest.raises(AnswerTimeoutError):
            await node.hub.send(Ask(1), callback=Told, timeout=0.01)
        await until(lambda: node.stats().unexpected == 1)
    rows = rows_of(tmp_path)
    assert events_of(rows, b"Told") == ["submitted", "delivered"]
    assert imbalance(rows) == 0


@on_loop
async def test_levels_can_be_changed_while_messages_flow_and_fast_lanes_come_back(tmp_path: Path) -> None:
    async with Node(First(), Second(), identity=b"node", capture=full(tmp_path)) as node:
        router = node.router
        await node.hub.send(Ask(1), callback=Told)
        assert router.is_observed
        for level in (CaptureLevel.WIRE, CaptureLevel.OFF):
            node.set_capture_level(level)
            assert node.capture_level is level
            assert not router.is_observed
            await node.hub.send(Ask(2), callback=Told)
            with pytest.raises(ActorError):
                await node.hub.send(Ask(-1), callback=Told)
        await until(lambda: node.report().capture.segments == 1)  # type: ignore[union-attr]
        node.set_capture_level(CaptureLevel.FULL)
        await node.hub.send(Ask(3), callback=Told)
        assert node.stats().is_balanced
    bodies = {message_of(row).body for row in rows_of(tmp_path) if row["event"] == "submitted"}
    assert len(bodies) == 2  # each request with what it led to has its number for a body
    assert node.stats().is_balanced


@on_loop
async def test_a_level_that_changes_under_way_breaks_nothing(tmp_path: Path) -> None:
    async with started(First(), Second(), capture=full(tmp_path)) as node:
        levels = [CaptureLevel.OFF, CaptureLevel.FULL, CaptureLevel.WIRE]
        asked = []
        for number in range(30):
            asked.append(asyncio.create_task(node.hub.send(Ask(number), callback=Told)))
            await asyncio.sleep(0.002)
            node.set_capture_level(levels[number % 3])
        assert [one.number for one in await asyncio.gather(*asked)] == list(range(30))
    assert rows_of(tmp_path)


@on_loop
async def test_nodes_on_links_of_another_kind_record_what_the_links_take(tmp_path: Path) -> None:
    network = Network()
    settings = {"capture": full(tmp_path)}
    async with network.node("one", First(), **settings) as one, network.node("two", Second(), **settings):
        network.introduce()
        assert await one.hub.send(Ask(4), callback=Told) == Told(4)
        await until(lambda: network.nodes[b"two"].stats().handled == 1)
    network.gone |= set(network.nodes)
    rows = rows_of(tmp_path)
    assert [imbalance(rows_of(tmp_path, name)) for name in ("one", "two")] == [0, 0]
    crossed = {
        event: [(row["node"], row["peer"], row["frames"]) for row in rows if row["event"] == event]
        for event in ("sent", "received")
    }
    assert sorted((peer, node, frames) for node, peer, frames in crossed["sent"]) == sorted(crossed["received"])


@on_loop
async def test_a_node_without_a_capture_says_so() -> None:
    async with Node() as node:
        assert node.capture_level is CaptureLevel.OFF
        assert node.report().capture is None
        with pytest.raises(ArgumentError, match="capture"):
            node.set_capture_level(CaptureLevel.WIRE)


@on_loop
async def test_a_node_lives_on_when_nothing_can_be_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    capture = full(tmp_path / "file" / "captures", flush_time=0.01, buffer_bytes=1)
    async with started(First(), Second(), capture=capture) as node:
        for number in range(3):
            assert await node.hub.send(Ask(number), callback=Told) == Told(number)
            await until(lambda: node.report().capture.dropped)  # type: ignore[union-attr]
        report = node.report().capture
        assert report is not None
        assert report.problem
        assert report.records == 0
    lines = [record.getMessage() for record in caplog.records if record.name == "hopline.capture"]
    assert len(lines) == 2
    assert "cannot write" in lines[0]
    assert "dropped" in lines[1]


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import asyncio
import hopline.cli
from hopline import CaptureSettings, MissingExtraError, Node

async def main():
    async with Node():
        pass
    try:
        async with Node(capture=CaptureSettings(directory="captures")):
            pass
    except MissingExtraError as error:
        print(error)

asyncio.run(main())
"""


def test_without_pyarrow_only_asking_for_a_capture_fails() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYARROW], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "capture needs pyarrow: pip install 'hopline[capture]'\n"
