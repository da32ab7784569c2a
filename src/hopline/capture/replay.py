"""The requests in a recording: what came from outside, ready to be sent again.

A request is a message that began a flow and has no cause. A handler that asks others begins flows too, but its requests
have a cause: they are sent by the handler itself when what it handled is sent again, and once more would be twice.

Where a node recorded everything, its `submitted` records tell both. Where only the wire was recorded, the first message
that the first node of a flow sent stands for the request; no cause is known there, unless the node that began the flow
did record it. A flow is told by its correlation id, and a `submitted` record with a cause belongs to a flow that began
on that very node if no other node is in its routing: results keep the routing of what they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hopline.capture.events import Event
from hopline.capture.records import shown
from hopline.message import (
    EXCEPTION,
    RECEIPT,
    Distribution,
    LocalError,
    Message,
    MessageIdentifier,
    new_flow_id,
)
from hopline.wire import RemoteError, decode

_COLUMNS = ("ts", "seq", "node", "event", "cause", "frames")
_TELLING = [Event.SUBMITTED.value, Event.SENT.value, Event.RECEIVED.value, Event.REJECTED.value]
_OWN = (b"KINO.", b"HOPLINE.")
_NO_FLOWS = (b"", bytes(16), b"00000000-0000-0000-0000-000000000000")
_OWN_CALLBACKS = (EXCEPTION, RECEIPT)


class Request(msgspec.Struct, frozen=True, gc=False):
    """A message that began a flow: when, in microseconds since 1970, and by whom it was sent."""

    ts: int
    node: str
    message: Message

    @property
    def callbacks(self) -> tuple[MessageIdentifier, ...]:
        """What its sender waited for, but for what the protocol itself answers."""
        return tuple(one for one in self.message.callback_point if one not in _OWN_CALLBACKS)

    @property
    def wants_receipt(self) -> bool:
        """Whether its sender waited for nothing but to know that it was taken."""
        return RECEIPT in self.message.callback_point and not self.callbacks

    def anew(self) -> Message:
        """Give the message as if it was never sent: in a flow of its own, for whoever handles it, unsigned."""
        return self.message.clone(
            correlation_id=new_flow_id(),
            hops=0,
            routing=(),
            receiver_identity=b"",
            receiver_node_identity=b"",
            callback_point=(),
            callback_key=0,
            callback_receiver_identity=b"",
            callback_receiver_node_identity=b"",
            socket_identity=b"",
            signature=b"",
            domain="",
            wire_format=None,
        )


class Selection(msgspec.Struct):
    """The requests of a recording, in the order of their time, and what was looked at to find them."""

    requests: list[Request] = msgspec.field(default_factory=list)
    records: int = 0  # that were looked at
    unreadable: int = 0  # of these, malformed
    caused: int = 0  # requests that handlers sent, and will send again themselves


Place: TypeAlias = "tuple[int, int, Request, bytes]"  # when, its number, and its frames in one piece
Flow: TypeAlias = tuple[str, bytes]


class _Found(msgspec.Struct):
    """What was found in the records, before it is known which of it began a flow."""

    submitted: list[Place] = msgspec.field(default_factory=list)
    sent: list[Place] = msgspec.field(default_factory=list)
    received: list[Place] = msgspec.field(default_factory=list)
    begun: set[Flow] = msgspec.field(default_factory=set)  # that are known from where they were submitted
    caused: set[Flow] = msgspec.field(default_factory=set)  # that seem to have begun inside a handler
    nodes: set[str] = msgspec.field(default_factory=set)  # that recorded
    rejected: set[bytes] = msgspec.field(default_factory=set)  # frames that nobody should send again


def requests_in(
    segments: Sequence[Path], wanted: Callable[[Message], bool], looked_at: Callable[[int], None] = lambda _: None
) -> Selection:
    """Find the requests: submitted without a cause; else sent by the first node of a flow; else received from it.

    `looked_at` is told of every batch of records, how many they are. The requests are kept in memory.
    """
    selection, found = Selection(), _Found()
    for record in _records(segments, looked_at):
        selection.records += 1
        frames, event = record["frames"], record["event"]
        found.nodes.add(record["node"])
        if event == Event.REJECTED:
            found.rejected.add(b"".join(frames))
            continue
        try:
            message = decode([b"", *frames])
        except (RemoteError, LocalError):
            selection.unreadable += 1
            continue
        if message.identity.startswith(_OWN):
            continue
        place = record["ts"], record["seq"], Request(record["ts"], record["node"], message), b"".join(frames)
        if event == Event.SUBMITTED and record["cause"] is not None:
            if not (message.hops or message.routing):
                found.caused.add(_flow(place[2]))
        elif event == Event.SUBMITTED:
            found.begun.add(_flow(place[2]))
            if wanted(message):
                found.submitted.append(place)
        elif _is_first_hop(message) and wanted(message):
            (found.sent if event == Event.SENT else found.received).append(place)
    selection.requests = [place[2] for place in sorted(_chosen(found), key=_order)]
    selection.caused = len(found.caused - found.begun)
    return selection


def _order(place: Place) -> tuple[int, int]:
    return place[0], place[1]


def _is_first_hop(message: Message) -> bool:
    """Tell whether the first node sent it, on behalf of its own hub as far as one can tell."""
    routing = message.routing
    if message.hops > 1 or len(routing) != 1:
        return False
    return not message.callback_point or message.callback_receiver_node_identity in (b"", routing[0].identity)


def _chosen(found: _Found) -> Iterator[Place]:
    """Choose what began flows without a cause, each once, from where it is best known."""
    yield from found.submitted
    seen = found.begun | found.caused
    copied: dict[str, Message] = {}  # the last message without a flow, by its node
    for places in (found.sent, found.received):
        for place in sorted(places, key=_order):
            flow, message = _flow(place[2]), place[2].message
            if flow in seen or place[3] in found.rejected:
                continue
            if not flow[0]:
                seen.add(flow)
            elif _is_copy(message, copied.get(flow[0])) or (
                places is found.received and shown(message.routing[0].identity) in found.nodes
            ):
                continue
            else:
                copied[flow[0]] = message
            yield place


def _flow(request: Request) -> Flow:
    """Name the flow of a request. What has none is told apart by its node only."""
    flow = request.message.correlation_id
    return (request.node, b"") if flow in _NO_FLOWS else ("", flow)


def _is_copy(message: Message, other: Message | None) -> bool:
    """Tell whether this is the copy of a broadcast for another node."""
    return message.distribution == Distribution.BROADCAST and other is not None and message == other


def _records(segments: Sequence[Path], looked_at: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    event = pc.field("event")
    for segment in segments:
        try:
            dataset = ds.dataset(segment, format="parquet")
            names = dataset.schema.names
            missing = [name for name in _COLUMNS if name not in names]
            if missing:
                raise LocalError(str(segment), "a capture with its events", f"no column {', '.join(missing)}")
            for batch in dataset.to_batches(columns=[*_COLUMNS], filter=event.isin(_TELLING)):
                looked_at(batch.num_rows)
                times = batch["ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
                yield from batch.set_column(0, "ts", times).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise LocalError(str(segment), "a segment that can be read", str(error).partition("\n")[0]) from None
