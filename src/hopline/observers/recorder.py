"""The traffic recorder: an observer that writes what happens to a node's messages to its capture.

Theory of operation. Each event appends the frames or the message to a buffer in memory; a thread encodes and writes.
The capture level decides which events the recorder listens to: none at `off`; what crosses the wire and what fails at
`wire`; everything at `full`. So a level costs a node only what it records.

Records are numbered, and a record may name another one as its cause. The numbers travel with the deliveries
(`Delivery.record`): a receipt is caused by the record of the message that it confirms, `resolved` by `delivered`, and
so on. What a handler sends is caused by the delivery that it handles: `handling` notes that in a context variable,
which the handler's tasks and threads inherit, and `submitting` reads it.

A message may be refused after its routing began, and routing may write further records. Hence `submitting` takes the
number of the record, and `submitted` uses it or `refused` gives it up, in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from hopline.capture.event_buffer import EventBuffer
from hopline.capture.events import Event, Level
from hopline.capture.packing import Packer, Receiver
from hopline.capture.settings import CaptureSettings
from hopline.message import ExceptionReport, Message, MessageIdentifier, MissingExtraError, WireFormat
from hopline.observers.observer import Listener, NodeObserver, Observers
from hopline.routing import Delivery, Label, Outcome
from hopline.transport import Frames
from hopline.wire import Limits

if TYPE_CHECKING:
    from hopline.capture.writer_thread import CaptureWriter

LabelOf: TypeAlias = Callable[[bytes, MessageIdentifier], Label]  # of a receiver, for a kind of message

_replace = msgspec.structs.replace
_WIRE_EVENTS = frozenset({"sent", "returned", "received", "ended", "frames_sent", "frames_received", "control_ended"})


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a node's capture."""

    level: Level
    directory: str
    records: int  # written since the node started
    dropped: int  # records lost because memory or disk was full
    segments: int  # segments closed
    segment_bytes: int  # their size
    problem: str = ""  # why nothing can be written at the moment


class Submitter(msgspec.Struct, frozen=True):
    """The source of a message that was submitted on this node."""

    cause: int | None = None  # number of the record of what led to it
    receiver: Receiver | None = None  # the actor or hub of this node that submitted it, if that is known


class TrafficRecorder(NodeObserver):
    """Records the traffic of one running node, on its event loop.

    Args:
        settings: Where to write, and at which level to start.
        observers: The node's observers, which are refreshed when the level changes.
        label_of: Returns the display names of a local actor and of its handler.
        sees_frames: Whether the node's own network connection reports the frames of messages that are sent. Without
            one, messages are recorded when the router gives them to a link.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        observers: Observers,
        *,
        node: bytes,
        uri: str,
        wire_format: WireFormat,
        limits: Limits,
        clock: Callable[[], float],
        label_of: LabelOf,
        sees_frames: bool,
    ) -> None:
        self.is_full = False
        self._settings = settings
        self._observers = observers
        self._node = node
        self._uri = uri
        self._wire_format = wire_format
        self._limits = limits
        self._clock = clock
        self._label_of = label_of
        self._sees_frames = sees_frames
        self._level = Level.OFF
        self._buffer: EventBuffer
        self._writer: CaptureWriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._submission_times: dict[int, float] = {}  # by the number that was taken for the record
        require_pyarrow()
        from hopline.capture.writer_thread import open_writer  # imported here: slow, and only needed for a capture

        self._open_writer = open_writer

    # -- levels --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to record at the level of the settings."""
        self._observers.add(self)
        self.set_level(self._settings.level)

    @property
    def level(self) -> Level:
        """How much is recorded now."""
        return self._level

    def set_level(self, level: Level) -> None:
        """Record more or less from now on. Level `off` closes the open segment."""
        if level is self._level:
            return
        if level is not Level.OFF and self._writer is None:
            self._open()
        self._level = level
        self.is_full = level is Level.FULL
        self._observers.refresh()
        if level is Level.OFF and self._writer is not None:
            self._buffer.hand_over()
            self._writer.close_segment()
            self._stop_flushing()
        elif self._timer is None:
            self._flush()

    def listeners(self) -> dict[str, Listener]:
        """Return the functions to call, by event, as the level demands."""
        if self._level is Level.OFF:
            return {}
        listeners = super().listeners()
        if self._sees_frames:
            del listeners["sent"]  # the frames are reported when they leave
            del listeners["returned"]  # their frames never left
        if self.is_full:
            return listeners
        listeners = {event: listener for event, listener in listeners.items() if event in _WIRE_EVENTS}
        if self._sees_frames:  # directly, because it runs for every message and the record's number is not needed
            listeners["received"] = self._buffer.received
            listeners["frames_sent"] = self._buffer.sent
        return listeners

    def _open(self) -> None:
        self._writer, next_seq = self._open_writer(self._settings, self._node, self._uri)
        self._buffer = EventBuffer(
            self._writer,
            Packer(self._wire_format, self._limits),
            asyncio.get_running_loop().call_soon,
            self._clock,
            capacity=self._settings.buffer_bytes,
            next_seq=next_seq,
        )

    def _flush(self) -> None:
        self._buffer.hand_over()
        if self._writer is not None:
            self._writer.flush()
        self._timer = asyncio.get_running_loop().call_later(self._settings.flush_time, self._flush)

    def _stop_flushing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Stop recording, and wait until everything is written and the last segment closed."""
        self.set_level(Level.OFF)
        if self._writer is not None:
            await asyncio.to_thread(self._writer.end)

    def report(self) -> CaptureReport:
        """Return the state of the capture."""
        writer = self._writer
        if writer is None:
            return CaptureReport(
                level=self._level, directory=self._settings.directory, records=0, dropped=0, segments=0, segment_bytes=0
            )
        return CaptureReport(
            level=self._level,
            directory=self._settings.directory,
            records=writer.records,
            dropped=writer.dropped + self._buffer.dropped,
            segments=writer.segments,
            segment_bytes=writer.segment_bytes,
            problem=writer.problem,
        )

    # -- the wire ------------------------------------------------------------------------------------------------------

    def frames_sent(self, peer: bytes, frames: Frames, when: float) -> None:
        """Record frames that left for another node."""
        self._buffer.sent(peer, frames, when)

    def sent(self, delivery: Delivery, message: Message, peer: bytes, when: float) -> None:  # noqa: ARG002 - the event's signature
        """Record a message that left through a link whose frames this node does not see."""
        self._buffer.add(Event.SENT, message, peer=peer, when=when)

    def returned(self, delivery: Delivery) -> None:
        """Record that a message, which was recorded as sent, is on this node again."""
        self._buffer.add(Event.SUBMITTED, delivery.message, reason="it came back from a node that is gone")

    def received(self, frames: Frames | None, message: Message, when: float) -> int:
        """Record a message from another node, and return the number of the record."""
        if frames is None:
            routing = message.routing
            peer = routing[-1].identity if routing else None
            return self._buffer.add(Event.RECEIVED, message, peer=peer)
        number = self._buffer.next_seq
        self._buffer.received(frames, message, when)
        return number

    def frames_received(self, frames: Frames, peer: bytes | None) -> None:
        """Record frames that are not routed."""
        self._buffer.add(Event.RECEIVED, frames, peer=peer)

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> int:
        """Record the failure of a message, and return the number of the record."""
        return self._buffer.add(outcome, delivery.message if frames is None else frames, reason=reason)

    # -- control messages ----------------------------------------------------------------------------------------------

    def control_submitted(self, message: Message) -> None:
        """Record a control message that this node has to send."""
        self._buffer.add(Event.SUBMITTED, message)

    def control_delivered(self, message: Message) -> None:
        """Record a control message that this node accepted."""
        self._buffer.add(Event.DELIVERED, message, receiver=Receiver(self._node))

    def control_ended(self, message: Message, outcome: Outcome, reason: str, frames: Frames | None = None) -> None:
        """Record a control message that was rejected, or could not be sent."""
        self._buffer.add(outcome, message if frames is None else frames, reason=reason)

    # -- inside the node -----------------------------------------------------------------------------------------------

    def submitting(self, delivery: Delivery) -> Delivery:
        """Take the number for the record of a submission, and note it and the submitter on the delivery.

        A delivery that waited for room comes with the submitter that was noted when the wait began.
        """
        submitter = delivery.submitter or self._submitter_of(delivery.message)
        now = self._clock()
        number = self._buffer.take_number()
        self._submission_times[number] = now
        return _replace(delivery, submitter=submitter, record=number)

    def submitted(self, delivery: Delivery) -> None:
        """Record a submission, by the number that was taken for it if there is one."""
        message, submitter = delivery.message, delivery.submitter
        if not isinstance(submitter, Submitter):  # the node itself created it, about the message of that record
            self._buffer.add(Event.SUBMITTED, message, cause=delivery.record)
            return
        number = delivery.record
        when = None if number is None else self._submission_times.pop(number, None)
        if when is None:  # its wait for room was given up
            number = None
        self._buffer.add(
            Event.SUBMITTED, message, receiver=submitter.receiver, cause=submitter.cause, when=when, seq=number
        )

    def refused(self, delivery: Delivery) -> None:
        """Release the number of a submission that did not happen."""
        number = delivery.record
        if number is not None and self._submission_times.pop(number, None) is not None:
            self._buffer.give_up_number(number)

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        """Record a delivery and how long it waited, and note the number of the record on it."""
        waited = self._clock() - delivery.since
        labelled = self._labelled(receiver, delivery.identifier)
        number = self._buffer.add(Event.DELIVERED, delivery.message, receiver=labelled, duration=waited)
        return _replace(delivery, record=number)

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Record that a promise or a stream of a hub accepted a message."""
        self._buffer.add(Event.RESOLVED, delivery.message, receiver=Receiver(receiver), cause=delivery.record)

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> _Handling:  # noqa: ARG002 - the label names the handler
        """Note the delivery as the cause of what its handler sends."""
        labelled = self._labelled(receiver, delivery.identifier)
        flow = delivery.message.correlation_id
        _current_cause.set(_CurrentCause(self, flow, Submitter(delivery.record, labelled)))
        return _Handling(self, delivery, labelled, self._clock())

    def handled(self, delivery: Delivery, receiver: Receiver, since: float, error: BaseException | None) -> None:
        """Record that a handler finished, unless the level changed while it ran."""
        if not self.is_full:
            return
        reason = None
        if error is not None:
            report = ExceptionReport.of(error)
            reason = f"{report.type_name}: {report.text}"
        self._buffer.add(
            Event.HANDLED,
            delivery.message,
            receiver=receiver,
            cause=delivery.record,
            duration=self._clock() - since,
            reason=reason,
        )

    def _labelled(self, receiver: bytes, identifier: MessageIdentifier) -> Receiver:
        name, handler = self._label_of(receiver, identifier)
        return Receiver(receiver, name, handler)

    def _submitter_of(self, message: Message) -> Submitter:
        """Return the submitter of a message, by the context in which it is submitted.

        What is submitted in the context of a handler is caused by its delivery: results, requests through any hub of
        this node, and what tasks send that the handler started. A message of another flow comes from a hub, which is
        known only if the message has a callback point.
        """
        cause: int | None = None
        current = _current_cause.get()
        if current is not None and current.recorder is self:
            if current.flow == message.correlation_id:
                return current.submitter
            cause = current.submitter.cause
        is_own_hub = message.callback_point and message.callback_receiver_node_identity == self._node
        return Submitter(cause, Receiver(message.callback_receiver_identity) if is_own_hub else None)


class _CurrentCause(msgspec.Struct, frozen=True):
    """The message that is being handled in this context."""

    recorder: TrafficRecorder
    flow: bytes
    submitter: Submitter  # of the handler's results


_current_cause: ContextVar[_CurrentCause | None] = ContextVar("hopline_current_cause", default=None)


class _Handling:
    __slots__ = ("_delivery", "_receiver", "_recorder", "_since")

    def __init__(self, recorder: TrafficRecorder, delivery: Delivery, receiver: Receiver, since: float) -> None:
        self._recorder = recorder
        self._delivery = delivery
        self._receiver = receiver
        self._since = since

    def detach(self) -> None:
        """Do nothing: every handler has a context of its own, so the cause need not be reset."""

    def end(self, error: BaseException | None) -> None:
        self._recorder.handled(self._delivery, self._receiver, self._since, error)


def require_pyarrow() -> None:
    """Raise `MissingExtraError` unless pyarrow, which writes the segments, is installed."""
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError:
        raise MissingExtraError("capture", "pyarrow", "capture") from None
