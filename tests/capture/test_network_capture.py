"""Captures of real traffic: the very frames that crossed the wire, on both sides, and books that balance."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zmq

from hopline import (
    ActorError,
    CaptureLevel,
    CaptureSettings,
    Domain,
    DomainSecurity,
    Message,
    Network,
    Node,
    NodeSettings,
    WireFormat,
    new_key,
    to_message,
)
from hopline.node.introspection import NodeCapture, RequestCapture
from hopline.security import NoSecurity, Security
from hopline.wire import encode
from tests.network.processes import free_ports
from tests.node.running import on_loop, until

from .reading import Row, events_of, imbalance, message_of, rows_of
from .test_node_capture import Ask, First, Middle, Second, Told

FORMATS = [WireFormat.V5, WireFormat.V6]
QUICK = NodeSettings(discovery_timeout=0.3)


@asynccontextmanager
async def two_nodes(
    directory: Path,
    wire_format: WireFormat = WireFormat.V5,
    level: CaptureLevel = CaptureLevel.FULL,
    security: Security | None = None,
) -> AsyncIterator[tuple[Node, Node]]:
    """Start two nodes that record: one has the first actor, and is the rendezvous; the other has the second."""
    (port,) = free_ports(1)

    def network(*, embedded: bool = False) -> Network:
        return Network(
            rendezvous=[f"tcp://127.0.0.1:{port}"],
            embedded=embedded,
            wire_format=wire_format,
            security=security or NoSecurity(),
        )

    capture = CaptureSettings(directory=str(directory), level=level)
    async with (
        Node(First(), identity=b"one", network=network(embedded=True), capture=capture, settings=QUICK) as one,
        Node(Second(), identity=b"two", network=network(), capture=capture, settings=QUICK) as two,
    ):
        for node, other in ((one, two), (two, one)):
            await until(lambda: any(known.actors for known in node.known_nodes))  # noqa: B023
            await until(lambda: any(known.identity == other.identity and known.hubs for known in node.known_nodes))  # noqa: B023
        yield one, two
        assert one.stats().is_balanced
        assert two.stats().is_balanced


def crossings(rows: list[Row], event: str) -> list[tuple[str, str | None, list[bytes]]]:
    """Give what crossed from which node to which."""
    way = {"sent": ("node", "peer"), "received": ("peer", "node")}[event]
    return sorted((row[way[0]], row[way[1]] or "", row["frames"]) for row in rows if row["event"] == event)


@pytest.mark.parametrize("wire_format", FORMATS)
@on_loop
async def test_both_sides_of_a_hop_recorded_the_same_frames_and_the_books_balance(
    wire_format: WireFormat, tmp_path: Path
) -> None:
    async with two_nodes(tmp_path, wire_format) as (one, two):
        answers = await asyncio.gather(*(two.hub.send(Ask(number), callback=Told) for number in range(50)))
        assert [answer.number for answer in answers] == list(range(50))
        await two.hub.send(Ask(1))
        await one.hub.broadcast(Middle(77))
        with pytest.raises(ActorError):
            await two.hub.send(Ask(-1), callback=Told)
        await until(lambda: two.stats().handled >= 52)
    rows = rows_of(tmp_path)
    for name in ("one", "two"):
        assert imbalance(rows_of(tmp_path, name)) == 0
    messages = [message_of(row) for row in rows]  # every one of them can be read
    assert {message.wire_format for message in messages} == {wire_format}
    assert crossings(rows, "sent") == crossings(rows, "received")
    assert {"submitted", "sent", "received", "delivered", "handled", "resolved"} <= {row["event"] for row in rows}
    hops = {(row["event"], message_of(row).hops) for row in rows if not message_of(row).identity.startswith(b"KINO.")}
    assert {("submitted", 0), ("sent", 1), ("received", 1)} <= hops
    assert {hop for event, hop in hops if event == "submitted"} == {0}


@on_loop
async def test_level_wire_has_what_crossed_it_and_the_endings_and_nothing_else(tmp_path: Path) -> None:
    async with two_nodes(tmp_path, level=CaptureLevel.WIRE) as (one, two):
        assert not one.router.is_observed
        assert await two.hub.send(Ask(1), callback=Told) == Told(1)
    rows = rows_of(tmp_path)
    assert set(events_of(rows, b"Ask")) == {"sent", "received"}
    assert {row["event"] for row in rows} <= {"sent", "received", "expired", "unroutable", "rejected", "failed"}
    assert crossings(rows, "sent") == crossings(rows, "received")


def throw(uri: str, *messages: list[bytes]) -> None:
    """Send frames to a node as whoever likes to."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 2_000
        socket.connect(uri)
        for frames in messages:
            socket.send_multipart(frames)


@on_loop
async def test_what_cannot_be_read_is_recorded_as_it_came_and_then_rejected(tmp_path: Path) -> None:
    garbage = [[b"", b"nonsense"], [b"one frame"], [b"", b"", b"\5\0"], [b""]]
    async with two_nodes(tmp_path, level=CaptureLevel.WIRE) as (one, _):
        await asyncio.to_thread(throw, one.uri, *garbage)
        await until(lambda: one.stats().outcomes["rejected"] == len(garbage))  # type: ignore[index]
    rows = [row for row in rows_of(tmp_path, "one") if row["frames"] in garbage]
    assert [row["event"] for row in rows] == ["received", "rejected"] * len(garbage)
    assert [row["frames"] for row in rows] == [frames for frames in garbage for _ in range(2)]
    assert all(row["peer"] is None for row in rows)
    assert all(row["reason"] for row in rows if row["event"] == "rejected")


def secured() -> DomainSecurity:
    return DomainSecurity([Domain("orders", new_key(), ["Ask", "Middle", "Told"])], clock=time.time)


@on_loop
async def test_a_forged_message_is_received_and_rejected_with_its_reason(tmp_path: Path) -> None:
    security = secured()
    forged = to_message(Ask(1)).clone(domain="orders", signature=bytes(32), hops=1)
    frames = encode(forged, WireFormat.V5)[1:]
    async with two_nodes(tmp_path, security=security) as (one, two):
        assert await two.hub.send(Ask(1), callback=Told) == Told(1)
        await asyncio.to_thread(throw, one.uri, frames)
        await until(lambda: one.stats().outcomes["rejected"] == 1)  # type: ignore[index]
    rows = rows_of(tmp_path, "one")
    received, rejected = (row for row in rows if row["frames"] == frames)
    assert (received["event"], rejected["event"]) == ("received", "rejected")
    assert "signature" in rejected["reason"]
    assert imbalance(rows) == imbalance(rows_of(tmp_path, "two")) == 0
    signed = [message_of(row) for row in rows if row["event"] == "sent" and message_of(row).identity == b"Middle"]
    assert all(message.signature and message.domain for message in signed)


@on_loop
async def test_a_message_that_never_left_is_not_sent_but_ends(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (one, _):
        nowhere = b"nowhere"
        port = free_ports(1)[0]
        one.router.directory.learn(nowhere, f"tcp://127.0.0.1:{port}", b"\1actor", to_message(Told(1)).identifier)
        await one.hub.send_one_way(Message.create(b"Told", b"lost"))
        await until(lambda: one.stats().waiting)
        assert one.stats().outcomes["sent"] == 0  # type: ignore[index]
        one.router.directory.forget_node(nowhere)
    rows = rows_of(tmp_path, "one")
    fate = [row["event"] for row in rows if message_of(row).body == b"lost"]
    assert fate[0] == "submitted"
    assert len(fate) == 2
    assert fate[1] in ("failed", "unroutable", "expired")
    assert imbalance(rows) == 0


@on_loop
async def test_another_node_may_ask_for_the_level_and_set_it_but_not_where_it_goes(tmp_path: Path) -> None:
    async with two_nodes(tmp_path, level=CaptureLevel.OFF) as (one, two):
        ask = to_message(RequestCapture(CaptureLevel.FULL)).with_receiver_node(one.identity)
        answer = await two.hub.send(ask, callback=NodeCapture)
        assert answer.report is not None
        assert (answer.report.level, answer.report.directory) == (CaptureLevel.FULL, str(tmp_path))
        assert one.capture_level is CaptureLevel.FULL
        assert two.capture_level is CaptureLevel.OFF
        how = to_message(RequestCapture()).with_receiver_node(one.identity)
        answer = await two.hub.send(how, callback=NodeCapture)
        assert answer.report is not None
        assert answer.report.level is CaptureLevel.FULL
    assert {row["node"] for row in rows_of(tmp_path)} == {"one"}


@on_loop
async def test_who_has_no_key_switches_nothing(tmp_path: Path) -> None:
    security = secured()
    question = to_message(RequestCapture(CaptureLevel.FULL)).with_receiver_node(b"one").clone(hops=1)
    async with two_nodes(tmp_path, level=CaptureLevel.OFF, security=security) as (one, _):
        await asyncio.to_thread(throw, one.uri, encode(question, WireFormat.V5)[1:])
        await until(lambda: one.stats().outcomes["rejected"] == 1)  # type: ignore[index]
        assert one.capture_level is CaptureLevel.OFF


@on_loop
async def test_large_bodies_are_recorded_whole(tmp_path: Path) -> None:
    async with two_nodes(tmp_path, WireFormat.V6, CaptureLevel.WIRE) as (one, _):
        body = bytes(range(256)) * 20_000
        for _ in range(5):
            await one.hub.send_one_way(Message.create(b"Middle", body))
        await until(lambda: one.stats().outcomes["sent"] >= 5)  # type: ignore[index]
    sent = [message_of(row) for row in rows_of(tmp_path, "one") if row["event"] == "sent"]
    assert [zlib.crc32(one.body) for one in sent if one.identity == b"Middle"] == [zlib.crc32(body)] * 5
