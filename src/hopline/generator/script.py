"""A flow as a play: roles that nodes take, messages that travel between them, and each event in its order.

A play is written once, with placeholders for whatever differs from flow to flow, and performed many thousand times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto

from hopline.capture.records import Event
from hopline.generator import placeholders
from hopline.generator.topology import Service
from hopline.message import (
    EXCEPTION,
    NO_FLOW,
    RECEIPT,
    Distribution,
    ExceptionReport,
    Message,
    MessageIdentifier,
    RoutingEntry,
    TraceOptions,
    WireFormat,
)
from hopline.wire import encode

ASKER, GATEWAY, ATTACKER, OTHER_ATTACKER, ANYONE, EACH = -1, -2, -3, -4, -5, -6  # each node, one after the other
HUB = -1
NOBODY = -1


class Delay(IntEnum):
    """How long after the step before it something happens."""

    START = 0
    QUEUE = auto()
    TRANSIT = auto()
    MAILBOX = auto()
    RUN = auto()
    TAIL = auto()
    OVERTIME = auto()  # longer than the request lives
    LIFETIME = auto()  # as long as the request lives
    AGAIN = auto()  # a network that repeats itself
    LATER = auto()  # somebody who recorded it and sends it again
    ITEM = auto()  # one after the other, of very many
    ITEMS = auto()  # after all of these
    TURN = auto()  # a router that sends on at once
    ASKED = auto()  # a handler that goes on when all that it asked for is there


class Lifetime(IntEnum):
    """How long a request lives."""

    UNLIMITED = 0
    LONG = auto()
    SHORT = auto()


class Arrival(IntEnum):
    """What became of a sending, or where an arrival comes from."""

    NONE = 0
    ARRIVED = auto()
    LOST = auto()
    UNWATCHED = auto()  # to a node without a capture
    MATCHED = auto()
    DUPLICATE = auto()
    UNSENT = auto()  # no capture has its sending


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes of a message as one or more records show them."""

    frames: list[bytes]
    letter: int  # number of the message in its flow
    message: Message
    aged_at: int = -1  # step at which its remaining lifetime is told, where it has one
    signer: str = ""  # the key that signs it: see keys


@dataclass(slots=True)
class Step:
    """One event. Its record is one row of a capture, if the node has one."""

    event: Event
    role: int
    image: int
    after: int  # the step that its time counts from
    delay: Delay
    follows: int  # the step that led to it
    peer: int = NOBODY
    receiver: int | None = None  # HUB, or a service
    cause: int = NOBODY
    since: int = NOBODY  # the step from which its duration counts
    reason: str = ""
    verdict: str = ""
    arrival: Arrival = Arrival.NONE
    mark: tuple[str, str] = ("", "")  # fault class and kind
    code: str = ""  # reason code of what is no message
    is_offence: bool = False  # left out of the flow that it claims
    is_dropped: bool = False  # happened, and is missing in the capture


@dataclass(frozen=True, slots=True)
class Request:
    """A flow that a handler begins while it runs."""

    scene: str
    cause: int  # the delivery that is being handled
    role: int


@dataclass(slots=True)
class Fate:
    """What is true of every flow of a play."""

    outcome: str = "complete"
    callback: str = ""
    answer: Message | None = None
    answered_at: int = NOBODY  # the first step that shows the answer to the one who asked
    answers: int = 0
    taken_at: int = NOBODY  # the first step that shows that the one who asked took an answer
    is_overtime: bool = False  # the answer comes after the lifetime of the request


@dataclass(slots=True)
class Play:
    """One kind of flow, in one format, on its way to be complete."""

    name: str
    roles: tuple[int, ...]
    wire_format: WireFormat
    lifetime: Lifetime = Lifetime.UNLIMITED
    is_traced: bool = False
    domain: str = ""
    correlation: bytes = placeholders.CORRELATION
    fate: Fate = field(default_factory=Fate)
    steps: list[Step] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    letters: int = 0
    repeated: frozenset[int] = frozenset()  # steps that happen once for each item of a huge flow
    requests: list[Request] = field(default_factory=list)  # of its handlers, in their order

    @property
    def is_flow(self) -> bool:
        """Whether its correlation id names a flow."""
        return self.correlation is placeholders.CORRELATION

    @property
    def captured(self) -> list[bool]:
        """Which roles have a capture."""
        return [role not in (GATEWAY, ATTACKER, OTHER_ATTACKER) for role in self.roles]

    # -- messages ------------------------------------------------------------------------------------------------------

    def body(self, what: str, noise: int) -> bytes:
        """Write a body with a number of its own and so many drawn digits, for the next message."""
        return f'{{"{what}":"{placeholders.ID}","check":"{placeholders.noise(self.letters, noise)}"}}'.encode()

    def start(
        self,
        identity: bytes,
        body: bytes,
        callbacks: tuple[MessageIdentifier, ...] = (),
        *,
        by: int = 0,
        receiver: int = HUB,
        distribution: Distribution = Distribution.UNICAST,
        partition: bytes = b"",
    ) -> Parcel:
        """Let somebody give the first message of a flow to the router."""
        message = Message(
            identity,
            partition=b"" if self.wire_format is WireFormat.FIRST else partition,
            bodies=(body,),
            distribution=distribution,
            correlation_id=self.correlation,
            ttl_ticks=placeholders.LIFETIME_TICKS if self.lifetime else 0,
            trace_options=TraceOptions.ROUTING if self.is_traced else TraceOptions.NONE,
        )
        if callbacks:
            message = message.register_callback_point(
                placeholders.NODES[by], placeholders.HUBS[by], callbacks, placeholders.KEY
            )
        return self.submitted(message, by, NOBODY, NOBODY, Delay.START, receiver)

    def submitted(
        self, message: Message, role: int, after: int, cause: int, delay: Delay, receiver: int | None
    ) -> Parcel:
        """Add a message of its own to the flow."""
        parcel = Parcel(self, message, role, self.letters)
        self.letters += 1
        parcel.show()
        follows = after if cause == NOBODY else cause
        parcel.happens(Event.SUBMITTED, delay, after=after, follows=follows, cause=cause, receiver=receiver)
        return parcel


class Parcel:
    """A message on its way: where it is, what it looks like now, and what happened last."""

    def __init__(self, play: Play, message: Message, role: int, letter: int, signer: str = "") -> None:
        self.play = play
        self.message = message
        self.role = role
        self.letter = letter
        self.image = NOBODY
        self.last = NOBODY
        self.sent = NOBODY
        self.delivered = NOBODY
        self.signer = signer

    def show(self, aged_at: int = 0) -> None:
        """Take the picture that the next records have."""
        # A capture leaves out the frame in front, which is the socket's.
        frames = encode(self.message, self.play.wire_format)[1:]
        aged_at = aged_at if self.message.ttl_ticks else NOBODY
        self.play.images.append(Image(frames, self.letter, self.message, aged_at, self.signer))
        self.image = len(self.play.images) - 1

    def happens(
        self, event: Event, delay: Delay, *, after: int | None = None, follows: int | None = None, **what: object
    ) -> Step:
        """Add an event of this message to the play. What happened to it last led to it, unless told otherwise."""
        after = self.last if after is None else after
        follows = after if follows is None else follows
        step = Step(event, self.role, self.image, after, delay, follows, **what)  # type: ignore[arg-type]
        self.play.steps.append(step)
        self.last = len(self.play.steps) - 1
        return step

    def leave(self, to: int, *, delay: Delay = Delay.QUEUE, signer: str | None = None) -> Step:
        """Send it to another node: one more hop, this router in the trace if it keeps one, signed if it must be."""
        play, message = self.play, self.message
        routing = message.routing
        if message.trace_options or play.wire_format in (WireFormat.V5, WireFormat.V6):  # the older ones only if asked
            routing = (*routing, RoutingEntry(placeholders.URIS[self.role], placeholders.NODES[self.role]))
        self.message = message.clone(hops=message.hops + 1, routing=routing)
        self.sign(play.domain if signer is None else signer)
        self.show(aged_at=len(play.steps))
        watched = play.captured[to]
        step = self.happens(Event.SENT, delay, peer=to, arrival=Arrival.ARRIVED if watched else Arrival.UNWATCHED)
        self.sent = self.last
        return step

    def sign(self, signer: str, domain: str | None = None) -> None:
        """Label and sign it; without a signer it goes as it is."""
        if signer:
            size = 16 if signer == "ledger" else 32
            label = signer if domain is None else domain
            self.message = self.message.clone(domain=label, signature=placeholders.SIGNATURES[size])
            self.signer = signer

    def arrive(self, at: int, *, delay: Delay = Delay.TRANSIT, after: int | None = None, **what: object) -> Step:
        """Let it come in at another node, from the one where it was."""
        was, self.role = self.role, at
        sent = self.play.captured[was]
        defaults: dict[str, object] = {
            "peer": was,
            "verdict": "verified" if self.signer else "unsigned",
            "arrival": Arrival.MATCHED if sent else Arrival.UNSENT,
        }
        return self.happens(Event.RECEIVED, delay, after=after, follows=self.sent, **{**defaults, **what})

    def travel(self, to: int) -> Parcel:
        """Send it, and let it arrive."""
        self.leave(to)
        self.arrive(to)
        return self

    def deliver(self, receiver: int) -> Parcel:
        """Put it before a local receiver."""
        came = self.last
        self.happens(Event.DELIVERED, Delay.MAILBOX, receiver=receiver, since=came)
        self.delivered = self.last
        self.receiver = receiver
        return self

    def request(self, scene: str) -> None:
        """Let its handler begin another flow, and wait for the answer if one is wanted, before it goes on."""
        self.play.requests.append(Request(scene, self.delivered, self.role))

    def result(self, identity: bytes, body: bytes, *, delay: Delay = Delay.RUN) -> Parcel:
        """Let its handler return a message: with the flow, the trace and the callback point of this one."""
        return self._outcome(MessageIdentifier(identity), body, delay)

    def exception(self, text: str, type_name: str) -> Parcel:
        """Let its handler, or the router, report a failure to whoever waits."""
        return self._outcome(EXCEPTION, ExceptionReport(text, type_name).to_body(), Delay.RUN)

    def _outcome(self, kind: MessageIdentifier, body: bytes, delay: Delay) -> Parcel:
        incoming = self.message
        message = Message(
            kind.identity,
            bodies=(body,),
            correlation_id=incoming.correlation_id,
            trace_options=incoming.trace_options,
            routing=incoming.routing,
        )
        if incoming.callback_point:
            message = message.register_callback_point(
                incoming.callback_receiver_node_identity,
                incoming.callback_receiver_identity,
                incoming.callback_point,
                incoming.callback_key,
            )
        # A router that reports an ending does so by itself: nothing was being handled.
        receiver = self.receiver if self.delivered != NOBODY else None
        return self.play.submitted(message, self.role, self.last, self.delivered, delay, receiver)

    def confirm(self) -> Parcel:
        """Let the router confirm the receipt: the message goes on without the wish, and the receipt goes home."""
        incoming = self.message
        confirmation = Message(
            RECEIPT.identity,
            correlation_id=incoming.correlation_id,
            trace_options=incoming.trace_options,
            routing=incoming.routing,
        ).register_callback_point(
            incoming.callback_receiver_node_identity,
            incoming.callback_receiver_identity,
            (RECEIPT,),
            incoming.callback_key,
        )
        came = self.last
        self.message = incoming.without_callback(RECEIPT)
        self.show(aged_at=self.play.images[self.image].aged_at)
        return self.play.submitted(confirmation, self.role, came, NOBODY, Delay.TAIL, None)

    def handled(self, after: Parcel | None = None, reason: str = "", *, delay: Delay = Delay.TAIL) -> None:
        """End its handler: right after what it returned, or after a run of its own."""
        step = after.last if after is not None else self.last
        self.happens(
            Event.HANDLED,
            delay,
            after=step,
            follows=self.delivered,
            receiver=self.receiver,
            cause=self.delivered,
            since=self.delivered,
            reason=reason,
        )

    def end(self, event: Event, reason: str, *, delay: Delay = Delay.TAIL) -> Step:
        """End it other than by handling."""
        return self.happens(event, delay, reason=reason)

    def come_home(self, *, is_awaited: bool = True) -> Parcel:
        """Deliver an answer to the hub that waits for it, or waited too long."""
        came = self.last
        self.deliver(HUB)
        first = came if self.play.steps[came].event is Event.RECEIVED else self.last
        if is_awaited:
            self.happens(Event.RESOLVED, Delay.TAIL, receiver=HUB, cause=self.delivered)
            if self.play.fate.taken_at == NOBODY:
                self.play.fate.taken_at = self.last
        fate = self.play.fate
        fate.answers += 1
        if fate.answer is None:
            fate.answer, fate.answered_at = self.message, first
        return self


ZERO_IDS = {"guid": NO_FLOW, "empty": b"", "bytes": bytes(16)}
SERVICE_NAMES = tuple(service.name.lower() for service in Service)
