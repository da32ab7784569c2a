"""The tap: what a node records of its messages, event by event, while its level is not off.

The parts of the node call it only where the level asks for it: `Tap.set_level` is the one place that connects them. A
tap does next to nothing: it leaves the frames or the message with the recorder, and a thread does the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from hopline.actors import HandlerSpan, Services, Telemetry
from hopline.capture.events import Event, Level
from hopline.capture.packing import Packer, Receiver
from hopline.capture.recorder import Recorder
from hopline.capture.settings import CaptureSettings
from hopline.message import ExceptionReport, LocalError, Message, MessageIdentifier, WireFormat
from hopline.routing import Delivery, Label, Outcome
from hopline.transport import Frames, OnSent
from hopline.wire import Limits

if TYPE_CHECKING:
    from hopline.capture.writer import Writer

LabelOf: TypeAlias = Callable[[bytes, MessageIdentifier], Label]  # of a receiver, for a kind of message
OnReceived: TypeAlias = Callable[[Frames, Message, float], None]  # what came, and when by the node's clock


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a node's capture is."""

    level: Level
    directory: str
    records: int  # that were written, since the node started
    dropped: int  # that found no room, in memory or on the disk
    segments: int  # that were closed
    segment_bytes: int  # of these
    problem: str = ""  # why nothing can be written now


class Watched(Protocol):
    """A part of the node that has something to tell, as long as it has a tap."""

    def watch(self, tap: Tap | None, *, everything: bool) -> None:
        """Tell this tap what goes over the wire and what ends, or everything; none: tell nobody."""
        ...


class Tap:
    """Records for one running node, on its event loop."""

    def __init__(
        self,
        settings: CaptureSettings,
        node: bytes,
        uri: str,
        wire_format: WireFormat,
        limits: Limits,
        clock: Callable[[], float],
        *,
        sees_wire: bool,
    ) -> None:
        self.sees_wire = sees_wire  # what goes over it is told by those who do it
        self.arrival: int | None = None  # the record of the message that is being routed, as it came
        self.is_full = False
        self._settings = settings
        self._node = node
        self._uri = uri
        self._wire_format = wire_format
        self._limits = limits
        self._clock = clock
        self._level = Level.OFF
        self._watched: tuple[Watched, ...] = ()
        self._services: Services | None = None
        self._recorder: Recorder
        self._writer: Writer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_delivered = 0, Receiver(b"")
        self._label_of: LabelOf = _unnamed
        require_pyarrow()
        from hopline.capture.writer import open_writer  # now: it takes a while, which a running node has not

        self._open_writer = open_writer

    # -- levels --------------------------------------------------------------------------------------------------------

    def connect(self, watched: Sequence[Watched], services: Services, label_of: LabelOf) -> None:
        """Get to know the node, and begin as the settings say. `label_of` names its actors and their handlers."""
        self._watched = tuple(watched)
        self._services = services
        self._label_of = label_of
        self.set_level(self._settings.level)

    @property
    def level(self) -> Level:
        """How much is recorded now."""
        return self._level

    def set_level(self, level: Level) -> None:
        """Record more or less from now on. Switched off, the open segment is closed soon."""
        if level is self._level:
            return
        if level is not Level.OFF and self._writer is None:
            self._open()
        self._level = level
        self.is_full = level is Level.FULL
        for one in self._watched:
            one.watch(None if level is Level.OFF else self, everything=self.is_full)
        services = self._services
        if services is not None:
            before = services.telemetry.before if isinstance(services.telemetry, _Handlings) else services.telemetry
            services.telemetry = _Handlings(self, before) if self.is_full else before
        if level is Level.OFF and self._writer is not None:
            self._recorder.hand_over()
            self._writer.close_segment()
            self._stop_flushing()
        elif self._timer is None:
            self._flush()

    def _open(self) -> None:
        self._writer, next_seq = self._open_writer(self._settings, self._node, self._uri)
        self._recorder = Recorder(
            self._writer,
            Packer(self._wire_format, self._limits),
            asyncio.get_running_loop().call_soon,
            self._clock,
            capacity=self._settings.buffer_bytes,
            next_seq=next_seq,
        )

    def _flush(self) -> None:
        self._recorder.hand_over()
        if self._writer is not None:
            self._writer.flush()
        self._timer = asyncio.get_running_loop().call_later(self._settings.flush_time, self._flush)

    def _stop_flushing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Record nothing more, and wait until everything is written and the last segment closed."""
        self.set_level(Level.OFF)
        if self._writer is not None:
            await asyncio.to_thread(self._writer.end)

    def report(self) -> CaptureReport:
        """Tell how it is."""
        writer = self._writer
        return CaptureReport(
            level=self._level,
            directory=self._settings.directory,
            records=0 if writer is None else writer.records,
            dropped=0 if writer is None else writer.dropped + self._recorder.dropped,
            segments=0 if writer is None else writer.segments,
            segment_bytes=0 if writer is None else writer.segment_bytes,
            problem="" if writer is None else writer.problem,
        )

    def now(self) -> float:
        """Tell the node's time."""
        return self._clock()

    # -- on the wire ---------------------------------------------------------------------------------------------------

    @property
    def on_sent(self) -> OnSent:
        """Who is to be told what leaves for other nodes, frame by frame."""
        return self._recorder.sent

    @property
    def on_received(self) -> OnReceived:
        """Who is to be told what arrives from other nodes, and can be read."""
        return self._received if self.is_full else self._recorder.received

    def _received(self, frames: Frames, message: Message, when: float) -> None:
        self.arrival = self._recorder.next_seq
        self._recorder.received(frames, message, when)

    def received_from(self, peer: bytes | None, frames: Frames) -> None:
        """Record frames that cannot be read, or do not say where they come from."""
        self._recorder.add(Event.RECEIVED, frames, peer=peer)

    def sent_message(self, message: Message, peer: bytes, when: float) -> None:
        """Record a message that left by a way that is not of this node's own making; `when` it was about to leave."""
        self._recorder.add(Event.SENT, message, peer=peer, when=when)

    def received_message(self, message: Message) -> None:
        """Record a message that came by such a way."""
        routing = message.routing
        peer = routing[-1].identity if routing else None
        self.arrival = self._recorder.add(Event.RECEIVED, message, peer=peer)

    def ended(self, message: Message, outcome: Outcome, reason: str, frames: Frames | None = None) -> int:
        """Record how a message ended that reached nobody, and give the number of the record."""
        return self._recorder.add(outcome, message if frames is None else frames, reason=reason)

    # -- what nodes tell one another of routes, which no router sees ---------------------------------------------------

    def tells(self, message: Message) -> None:
        """Record what this node has to say to another."""
        if self.is_full:
            self._recorder.add(Event.SUBMITTED, message)

    def took_control(self, message: Message, frames: Frames, refused: str | None) -> None:
        """Record that this node heard what another said, or why it would not."""
        if refused is not None:
            self.ended(message, Outcome.REJECTED, refused, frames)
        elif self.is_full:
            self._recorder.add(Event.DELIVERED, message, receiver=Receiver(self._node))
        self.arrival = None

    # -- inside --------------------------------------------------------------------------------------------------------

    def submitting(
        self, delivery: Delivery, submit: Callable[[Delivery], bool], submitter: Submitter | None = None
    ) -> bool:
        """Record a message that is submitted, before what becomes of it, if it is taken at all.

        Its submitter is whoever runs now, unless it waited for room: then the submitter was noted when that began.
        """
        recorder, message = self._recorder, delivery.message
        now = self._clock()
        if submitter is None:
            submitter = self.submitter_of(message)
        place = recorder.reserve()
        before, self.arrival = self.arrival, recorder.next_seq - 1
        is_taken = False
        try:
            is_taken = submit(delivery)
        finally:
            self.arrival = before
            if is_taken:
                recorder.fill(place, Event.SUBMITTED, now, message, submitter.cause, submitter.receiver)
            else:
                recorder.release(place)
        return is_taken

    def submitted(self, message: Message, submitter: Submitter, reason: str | None = None) -> None:
        """Record a message that the node itself made, took back, or gave up before it could be routed."""
        self._recorder.add(Event.SUBMITTED, message, receiver=submitter.receiver, cause=submitter.cause, reason=reason)

    def submitter_of(self, message: Message) -> Submitter:
        """Return who submits a message now, and the record of the delivery that is being handled meanwhile.

        Whatever runs in the context of a handler is caused by its delivery: results, requests through any hub of this
        node, and what tasks send that the handler started. A message of another flow comes from a hub; which one only
        its callback tells.
        """
        handled = _handled.get()
        if handled is not None and handled.tap is self:
            if handled.flow == message.correlation_id:
                return handled.submitter
            cause: int | None = handled.submitter.cause
        else:
            cause = None
        is_own_hub = message.callback_point and message.callback_receiver_node_identity == self._node
        return Submitter(cause, Receiver(message.callback_receiver_identity) if is_own_hub else None)

    def delivered(self, delivery: Delivery, receiver: bytes) -> None:
        """Record that a message was put before its receiver, and how long it waited for that."""
        waited = self._clock() - delivery.since
        who = Receiver(receiver, *self._label_of(receiver, delivery.identifier))
        seq = self._recorder.add(Event.DELIVERED, delivery.message, receiver=who, duration=waited)
        self._last_delivered = seq, who

    def resolved(self, message: Message, receiver: bytes) -> None:
        """Record that a promise or a stream of a hub took a message, which was just delivered."""
        self._recorder.add(Event.RESOLVED, message, receiver=Receiver(receiver), cause=self._last_delivered[0])

    def begin_handling(self, delivery: Delivery) -> tuple[int, Receiver]:
        """Note that the message that was just delivered is being handled; give its record and its receiver."""
        seq, receiver = self._last_delivered
        _handled.set(_Handled(self, delivery.message.correlation_id, Submitter(seq, receiver)))
        return seq, receiver

    def handled(
        self, message: Message, receiver: Receiver, seq: int, seconds: float, error: BaseException | None
    ) -> None:
        """Record that a handler ended."""
        reason = None
        if error is not None:
            told = ExceptionReport.of(error)
            reason = f"{told.type_name}: {told.text}"
        self._recorder.add(Event.HANDLED, message, receiver=receiver, cause=seq, duration=seconds, reason=reason)


def _unnamed(_: bytes, __: MessageIdentifier) -> Label:
    return None, None


def require_pyarrow() -> None:
    """Say clearly what is missing, where nothing can be written without it."""
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError:
        raise LocalError("capture", "pyarrow to be installed: pip install 'hopline[capture]'", "no pyarrow") from None


class Submitter(msgspec.Struct, frozen=True):
    """Who submitted a message, and why."""

    cause: int | None = None  # number of the record of what led to it
    receiver: Receiver | None = None  # the actor or hub of this node that submitted it, where that is known


class _Handled(msgspec.Struct, frozen=True):
    """The message that is being handled, for those that are sent meanwhile."""

    tap: Tap
    flow: bytes
    submitter: Submitter  # of its results


_handled: ContextVar[_Handled | None] = ContextVar("hopline_handled", default=None)


class _Handlings:
    """Hears of every handling as telemetry does, and passes it on to the telemetry that there is."""

    def __init__(self, tap: Tap, before: Telemetry | None) -> None:
        self.tap = tap
        self.before = before

    def begin(self, delivery: Delivery, handler: str) -> HandlerSpan:
        """Note that a handler begins; its context is its own, so nothing has to be undone."""
        return _Handling(self.tap, delivery, None if self.before is None else self.before.begin(delivery, handler))


class _Handling:
    __slots__ = ("_before", "_delivery", "_receiver", "_seq", "_since", "_tap")

    def __init__(self, tap: Tap, delivery: Delivery, before: HandlerSpan | None) -> None:
        self._tap = tap
        self._delivery = delivery
        self._before = before
        self._since = tap.now()
        self._seq, self._receiver = tap.begin_handling(delivery)

    def detach(self) -> None:
        if self._before is not None:
            self._before.detach()

    def end(self, error: BaseException | None) -> None:
        tap = self._tap
        if tap.is_full:  # and was not switched off meanwhile
            seconds = tap.now() - self._since
            tap.handled(self._delivery.message, self._receiver, self._seq, seconds, error)
        if self._before is not None:
            self._before.end(error)
