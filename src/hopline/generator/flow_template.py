"""A flow as a template: roles that nodes take, messages that travel between them, and each event in its order.

A template is written once, with placeholders for whatever differs from flow to flow, and performed many thousand times.
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

REQUESTER, GATEWAY, ATTACKER, OTHER_ATTACKER, ANY_NODE, EVERY_NODE = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)  # each node, one after the other
HUB = -1
MISSING = -1


class Delay(IntEnum):
    """How long after the step before it something add_step."""

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


class TransitStatus(IntEnum):
    """What became of a sending, or where an arrival comes from."""

    NONE = 0
    ARRIVED = auto()
    LOST = auto()
    UNWATCHED = auto()  # to a node without a capture
    MATCHED = auto()
    DUPLICATE = auto()
    UNSENT = auto()  # no capture has its sending


@dataclass(frozen=True, slots=True)
class MessageSnapshot:
    """The bytes of a message as one or more records show them."""

    frames: list[bytes]
    message_index: int  # number of the message in its flow
    message: Message
    ttl_step: int = -1  # step at which its remaining lifetime is told, where it has one
    signer: str = ""  # the key that signs it: see keys


@dataclass(slots=True)
class Step:
    """One event. Its record is one row of a capture, if the node has one."""

    event: Event
    role: int
    snapshot: int
    after: int  # the step that its time counts from
    delay: Delay
    follows: int  # the step that led to it
    peer: int = MISSING
    receiver: int | None = None  # HUB, or a service
    cause: int = MISSING
    since: int = MISSING  # the step from which its duration counts
    reason: str = ""
    verdict: str = ""
    arrival: TransitStatus = TransitStatus.NONE
    mark: tuple[str, str] = ("", "")  # fault class and kind
    code: str = ""  # reason code of what is no message
    is_offence: bool = False  # left out of the flow that it claims
    is_dropped: bool = False  # happened, and is missing in the capture


@dataclass(frozen=True, slots=True)
class NestedRequest:
    """A flow that a handler begins while it runs."""

    scenario: str
    cause: int  # the delivery that is being handled
    role: int


@dataclass(slots=True)
class ExpectedOutcome:
    """What is true of every flow of a template."""

    outcome: str = "complete"
    callback: str = ""
    answer: Message | None = None
    answered_at: int = MISSING  # the first step that shows the answer to the one who asked
    answers: int = 0
    taken_at: int = MISSING  # the first step that shows that the one who asked took an answer
    is_overtime: bool = False  # the answer comes after the lifetime of the request


@dataclass(slots=True)
class FlowTemplate:
    """One kind of flow, in one format, on its way to be complete."""

    name: str
    roles: tuple[int, ...]
    wire_format: WireFormat
    lifetime: Lifetime = Lifetime.UNLIMITED
    is_traced: bool = False
    domain: str = ""
    correlation: bytes = placeholders.CORRELATION
    expected: ExpectedOutcome = field(default_factory=ExpectedOutcome)
    steps: list[Step] = field(default_factory=list)
    snapshots: list[MessageSnapshot] = field(default_factory=list)
    message_count: int = 0
    repeated: frozenset[int] = frozenset()  # steps that happen once for each item of a huge flow
    requests: list[NestedRequest] = field(default_factory=list)  # of its handlers, in their order

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
        return f'{{"{what}":"{placeholders.ID}","check":"{placeholders.noise(self.message_count, noise)}"}}'.encode()

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
    ) -> MessageInFlight:
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
        return self.submitted(message, by, MISSING, MISSING, Delay.START, receiver)

    def submitted(
        self, message: Message, role: int, after: int, cause: int, delay: Delay, receiver: int | None
    ) -> MessageInFlight:
        """Add a message of its own to the flow."""
        parcel = MessageInFlight(self, message, role, self.message_count)
        self.message_count += 1
        parcel.show()
        follows = after if cause == MISSING else cause
        parcel.add_step(Event.SUBMITTED, delay, after=after, follows=follows, cause=cause, receiver=receiver)
        return parcel


class MessageInFlight:
    """A message on its way: where it is, what it looks like now, and what happened last."""

    def __init__(
        self, template: FlowTemplate, message: Message, role: int, message_index: int, signer: str = ""
    ) -> None:
        self.template = template
        self.message = message
        self.role = role
        self.message_index = message_index
        self.snapshot = MISSING
        self.last = MISSING
        self.sent = MISSING
        self.delivered = MISSING
        self.signer = signer

    def show(self, ttl_step: int = 0) -> None:
        """Take the picture that the next records have."""
        # A capture leaves out the frame in front, which is the socket's.
        frames = encode(self.message, self.template.wire_format)[1:]
        ttl_step = ttl_step if self.message.ttl_ticks else MISSING
        self.template.snapshots.append(MessageSnapshot(frames, self.message_index, self.message, ttl_step, self.signer))
        self.snapshot = len(self.template.snapshots) - 1

    def add_step(
        self, event: Event, delay: Delay, *, after: int | None = None, follows: int | None = None, **what: object
    ) -> Step:
        """Add an event of this message to the template. What happened to it last led to it, unless told otherwise."""
        after = self.last if after is None else after
        follows = after if follows is None else follows
        step = Step(event, self.role, self.snapshot, after, delay, follows, **what)  # type: ignore[arg-type]
        self.template.steps.append(step)
        self.last = len(self.template.steps) - 1
        return step

    def send(self, to: int, *, delay: Delay = Delay.QUEUE, signer: str | None = None) -> Step:
        """Send it to another node: one more hop, this router in the trace if it keeps one, signed if it must be."""
        template, message = self.template, self.message
        routing = message.routing
        if message.trace_options or template.wire_format in (
            WireFormat.V5,
            WireFormat.V6,
        ):  # the older ones only if asked
            routing = (*routing, RoutingEntry(placeholders.URIS[self.role], placeholders.NODES[self.role]))
        self.message = message.clone(hops=message.hops + 1, routing=routing)
        self.sign(template.domain if signer is None else signer)
        self.show(ttl_step=len(template.steps))
        watched = template.captured[to]
        step = self.add_step(
            Event.SENT, delay, peer=to, arrival=TransitStatus.ARRIVED if watched else TransitStatus.UNWATCHED
        )
        self.sent = self.last
        return step

    def sign(self, signer: str, domain: str | None = None) -> None:
        """Label and sign it; without a signer it goes as it is."""
        if signer:
            size = 16 if signer == "ledger" else 32
            label = signer if domain is None else domain
            self.message = self.message.clone(domain=label, signature=placeholders.SIGNATURES[size])
            self.signer = signer

    def receive(self, at: int, *, delay: Delay = Delay.TRANSIT, after: int | None = None, **what: object) -> Step:
        """Let it come in at another node, from the one where it was."""
        was, self.role = self.role, at
        sent = self.template.captured[was]
        defaults: dict[str, object] = {
            "peer": was,
            "verdict": "verified" if self.signer else "unsigned",
            "arrival": TransitStatus.MATCHED if sent else TransitStatus.UNSENT,
        }
        return self.add_step(Event.RECEIVED, delay, after=after, follows=self.sent, **{**defaults, **what})

    def transfer(self, to: int) -> MessageInFlight:
        """Send it, and let it arrive."""
        self.send(to)
        self.receive(to)
        return self

    def deliver(self, receiver: int) -> MessageInFlight:
        """Put it before a local receiver."""
        came = self.last
        self.add_step(Event.DELIVERED, Delay.MAILBOX, receiver=receiver, since=came)
        self.delivered = self.last
        self.receiver = receiver
        return self

    def request(self, scenario: str) -> None:
        """Let its handler begin another flow, and wait for the answer if one is wanted, before it goes on."""
        self.template.requests.append(NestedRequest(scenario, self.delivered, self.role))

    def result(self, identity: bytes, body: bytes, *, delay: Delay = Delay.RUN) -> MessageInFlight:
        """Let its handler return a message: with the flow, the trace and the callback point of this one."""
        return self._outcome(MessageIdentifier(identity), body, delay)

    def exception(self, text: str, type_name: str) -> MessageInFlight:
        """Let its handler, or the router, report a failure to whoever waits."""
        return self._outcome(EXCEPTION, ExceptionReport(text, type_name).to_body(), Delay.RUN)

    def _outcome(self, kind: MessageIdentifier, body: bytes, delay: Delay) -> MessageInFlight:
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
        receiver = self.receiver if self.delivered != MISSING else None
        return self.template.submitted(message, self.role, self.last, self.delivered, delay, receiver)

    def add_receipt(self) -> MessageInFlight:
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
        self.show(ttl_step=self.template.snapshots[self.snapshot].ttl_step)
        return self.template.submitted(confirmation, self.role, came, MISSING, Delay.TAIL, None)

    def finish_handler(
        self, after: MessageInFlight | None = None, reason: str = "", *, delay: Delay = Delay.TAIL
    ) -> None:
        """End its handler: right after what it returned, or after a run of its own."""
        step = after.last if after is not None else self.last
        self.add_step(
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
        return self.add_step(event, delay, reason=reason)

    def deliver_to_hub(self, *, is_awaited: bool = True) -> MessageInFlight:
        """Deliver an answer to the hub that waits for it, or waited too long."""
        came = self.last
        self.deliver(HUB)
        first = came if self.template.steps[came].event is Event.RECEIVED else self.last
        if is_awaited:
            self.add_step(Event.RESOLVED, Delay.TAIL, receiver=HUB, cause=self.delivered)
            if self.template.expected.taken_at == MISSING:
                self.template.expected.taken_at = self.last
        expected = self.template.expected
        expected.answers += 1
        if expected.answer is None:
            expected.answer, expected.answered_at = self.message, first
        return self


ZERO_IDS = {"guid": NO_FLOW, "empty": b"", "bytes": bytes(16)}
SERVICE_NAMES = tuple(service.name.lower() for service in Service)
