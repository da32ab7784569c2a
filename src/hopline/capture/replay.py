"""Find the requests in a capture: the messages that came from outside and can be sent again.

Theory of operation
-------------------
A request is a message that began a flow and has no cause. A handler that sends requests of its own begins flows too,
but these have a cause: the handler sends them again when the message that it handled is replayed, so replaying them as
well would double them.

Which messages began a flow is known from different records, the best first:

1. `submitted` without a cause, where the node recorded at level full.
2. `sent` by the first node of a flow, where only the wire was recorded. Causes are unknown there, unless the node that
   began the flow recorded them.
3. `received` from the first node of a flow, where that node did not record at all.

A flow is identified by its correlation id. A `submitted` record with a cause belongs to a flow that began on that very
node if no other node is in its routing, because results keep the routing of what they answer. Messages without a
correlation id are told apart by their node only, and copies of one broadcast by comparing them.
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
    ArgumentError,
    Distribution,
    LocalError,
    Message,
    MessageIdentifier,
    new_flow_id,
)
from hopline.wire import RemoteError, decode

_COLUMNS = ("ts", "seq", "node", "event", "cause", "frames")
_RELEVANT_EVENTS = [Event.SUBMITTED.value, Event.SENT.value, Event.RECEIVED.value, Event.REJECTED.value]
_PROTOCOL_PREFIXES = (b"KINO.", b"HOPLINE.")  # of the identities of service messages
_NO_FLOWS = (b"", bytes(16), b"00000000-0000-0000-0000-000000000000")
_PROTOCOL_CALLBACKS = (EXCEPTION, RECEIPT)


class Request(msgspec.Struct, frozen=True, gc=False):
    """A message that began a flow, when, in microseconds since 1970, and the node that recorded it."""

    ts: int
    node: str
    message: Message

    @property
    def callbacks(self) -> tuple[MessageIdentifier, ...]:
        """The answers that its sender waited for, without those of the protocol itself."""
        return tuple(answer for answer in self.message.callback_point if answer not in _PROTOCOL_CALLBACKS)

    @property
    def wants_receipt(self) -> bool:
        """Whether its sender waited for nothing but the receipt."""
        return RECEIPT in self.message.callback_point and not self.callbacks

    def anew(self) -> Message:
        """Return the message as if it had never been sent: in a new flow, for any receiver, unsigned."""
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
    """The requests of a capture in the order of their times, and what was read to find them."""

    requests: list[Request] = msgspec.field(default_factory=list)
    records: int = 0  # read
    unreadable: int = 0  # of these, malformed
    caused: int = 0  # requests of handlers, which will send them again themselves


Flow: TypeAlias = tuple[str, bytes]  # a node and no id, or no node and an id


class _Candidate(msgspec.Struct, frozen=True, gc=False):
    """A record that may be the first one of a flow."""

    seq: int
    request: Request
    content: bytes  # all frames

    @property
    def order(self) -> tuple[int, int]:
        return self.request.ts, self.seq

    @property
    def flow(self) -> Flow:
        flow_id = self.request.message.correlation_id
        return (self.request.node, b"") if flow_id in _NO_FLOWS else ("", flow_id)


class _Candidates(msgspec.Struct):
    """All candidates of a capture, before it is known which of them began a flow."""

    submitted: list[_Candidate] = msgspec.field(default_factory=list)
    sent: list[_Candidate] = msgspec.field(default_factory=list)
    received: list[_Candidate] = msgspec.field(default_factory=list)
    begun: set[Flow] = msgspec.field(default_factory=set)  # with a `submitted` record without a cause
    caused: set[Flow] = msgspec.field(default_factory=set)  # with a `submitted` record that has one
    nodes: set[str] = msgspec.field(default_factory=set)  # that recorded
    rejected: set[bytes] = msgspec.field(default_factory=set)  # the frames of messages that must not be sent again

    def add(self, event: str, candidate: _Candidate, *, has_cause: bool, is_selected: bool) -> None:
        """Add a record that has a readable message."""
        message = candidate.request.message
        if event == Event.SUBMITTED and has_cause:
            if not message.hops and not message.routing:
                self.caused.add(candidate.flow)
        elif event == Event.SUBMITTED:
            self.begun.add(candidate.flow)
            if is_selected:
                self.submitted.append(candidate)
        elif is_selected and _is_first_hop(message):
            on_this_side = self.sent if event == Event.SENT else self.received
            on_this_side.append(candidate)

    def first_of_flows(self) -> Iterator[_Candidate]:
        """Yield the first message of each flow without a cause, from the best record of it."""
        yield from self.submitted
        seen = self.begun | self.caused
        last_without_flow: dict[str, Message] = {}  # by node
        for candidates in (self.sent, self.received):
            for candidate in sorted(candidates, key=_order):
                if candidate.flow in seen or candidate.content in self.rejected:
                    continue
                node, flow_id = candidate.flow
                message = candidate.request.message
                if flow_id:
                    seen.add(candidate.flow)
                else:
                    is_copy = _is_copy(message, last_without_flow.get(node))
                    if is_copy or (candidates is self.received and self._was_recorded_by_sender(message)):
                        continue
                    last_without_flow[node] = message
                yield candidate

    def _was_recorded_by_sender(self, message: Message) -> bool:
        return shown(message.routing[0].identity) in self.nodes


def requests_in(
    segments: Sequence[Path],
    is_selected: Callable[[Message], bool],
    on_progress: Callable[[int], None] = lambda _: None,
) -> Selection:
    """Find the requests in segments. They are kept in memory.

    Args:
        segments: The files.
        is_selected: Returns whether a message is to be replayed.
        on_progress: Called with the number of records of every batch that is read.

    Raises:
        ArgumentError: A file cannot be read, or is no capture with events.
    """
    selection = Selection()
    candidates = _Candidates()
    for record in _records(segments, on_progress):
        selection.records += 1
        node, event, frames = record["node"], record["event"], record["frames"]
        candidates.nodes.add(node)
        content = b"".join(frames)
        if event == Event.REJECTED:
            candidates.rejected.add(content)
            continue
        try:
            message = decode([b"", *frames])
        except (RemoteError, LocalError):
            selection.unreadable += 1
            continue
        if message.identity.startswith(_PROTOCOL_PREFIXES):
            continue
        candidate = _Candidate(record["seq"], Request(record["ts"], node, message), content)
        has_cause = record["cause"] is not None
        candidates.add(event, candidate, has_cause=has_cause, is_selected=is_selected(message))
    first = sorted(candidates.first_of_flows(), key=_order)
    selection.requests = [candidate.request for candidate in first]
    selection.caused = len(candidates.caused - candidates.begun)
    return selection


def _order(candidate: _Candidate) -> tuple[int, int]:
    return candidate.order


def _is_first_hop(message: Message) -> bool:
    """Return whether the first node of a flow sent a message, and for a hub of its own as far as can be seen."""
    routing = message.routing
    if message.hops > 1 or len(routing) != 1:
        return False
    return not message.callback_point or message.callback_receiver_node_identity in (b"", routing[0].identity)


def _is_copy(message: Message, other: Message | None) -> bool:
    """Return whether a message is the copy of a broadcast for another node."""
    return message.distribution == Distribution.BROADCAST and other is not None and message == other


def _records(segments: Sequence[Path], on_progress: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    is_relevant = pc.field("event").isin(_RELEVANT_EVENTS)
    for segment in segments:
        try:
            dataset = ds.dataset(segment, format="parquet")
            missing = [name for name in _COLUMNS if name not in dataset.schema.names]
            if missing:
                raise ArgumentError(str(segment), "a capture with its events", f"no column {', '.join(missing)}")
            for batch in dataset.to_batches(columns=[*_COLUMNS], filter=is_relevant):
                on_progress(batch.num_rows)
                times = batch["ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
                yield from batch.set_column(0, "ts", times).to_pylist()
        except (OSError, pa.ArrowException) as error:
            problem, _, _ = str(error).partition("\n")
            raise ArgumentError(str(segment), "a segment that can be read", problem) from None
