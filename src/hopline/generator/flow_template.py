"""The template of one kind of flow: roles that nodes take, messages that travel between them, and every event in order.

Theory of operation. Millions of generated flows are instances of about a hundred templates. A scenario (see
`scenarios`, `faults` and `undecodable`) builds a `FlowTemplate` once for each wire format by moving a
`MessageInFlight` from node to node; every move appends a `Step`. `flow_batch` then instantiates a template for
thousands of flows at a time with numpy. For this to work:

* A template knows no nodes, only roles: indexes into `FlowTemplate.roles`. Role 0 begins the flow.
* It knows no times: a step happens some `Delay` after an earlier step.
* Its messages contain placeholders for all values that differ from flow to flow. A `MessageSnapshot` keeps the encoded
  frames; steps that show the same bytes share a snapshot.
* What the truth needs that cannot be derived from the steps alone stands in `ExpectedOutcome`.

Steps, snapshots and messages are referred to by index; `MISSING` stands for none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import NamedTuple

from hopline.capture.records import Event
from hopline.generator import placeholders
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

# Roles other than services: which node takes them.
REQUESTER = -1  # a random captured node
GATEWAY = -2  # the node without a capture
ATTACKER, OTHER_ATTACKER = -3, -4
ANY_NODE = -5  # the neighbour of the role before it
EVERY_NODE = -6  # each captured node in turn
UNCAPTURED_ROLES = (GATEWAY, ATTACKER, OTHER_ATTACKER)

HUB = -1
"""The receiver of a step that is a hub; other receivers are services."""
MISSING = -1

LEDGER_DOMAIN = "ledger"
MD5_SIZE, SHA256_SIZE = 16, 32
NO_FLOW_IDS = {"guid": NO_FLOW, "empty": b"", "bytes": bytes(16)}
"""Correlation ids of messages that belong to no flow."""


class Delay(IntEnum):
    """How long after an earlier step a step happens."""

    START = 0
    QUEUE = auto()
    TRANSIT = auto()
    MAILBOX = auto()
    RUN = auto()
    IMMEDIATE = auto()
    OVERTIME = auto()  # longer than the lifetime of the request
    EXPIRY = auto()  # until the lifetime of the request ends
    DUPLICATE = auto()  # until the network repeats a message
    REPLAY = auto()  # until an attacker sends a recorded message again
    ITEM = auto()  # one of the many answers of a huge flow
    AFTER_ITEMS = auto()
    FORWARD = auto()  # a router that sends on at once
    NESTED_REQUESTS = auto()  # until the handler has the answers to its own requests


class Lifetime(IntEnum):
    """The lifetime of a request."""

    UNLIMITED = 0
    LONG = auto()
    SHORT = auto()


class TransitStatus(IntEnum):
    """How a `sent` or `received` step relates to the other end of its hop."""

    NONE = 0
    ARRIVED = auto()  # sent, and received by a captured node
    LOST = auto()  # sent, and never received
    UNWATCHED = auto()  # sent to a node without a capture
    MATCHED = auto()  # received, and its sending is captured
    DUPLICATE = auto()  # received once more than it was sent
    UNSENT = auto()  # received, and no capture has its sending


class FaultMark(NamedTuple):
    """The planted fault that a step's record stands for."""

    fault: str
    kind: str


NO_FAULT = FaultMark("", "")


@dataclass(frozen=True, slots=True)
class MessageSnapshot:
    """The bytes of a message as one or more records show them."""

    frames: list[bytes]
    message_index: int
    message: Message
    ttl_step: int = MISSING  # the step at whose time the remaining lifetime is written, if it has one
    signer: str = ""  # name of the signing key, see `keys`


@dataclass(slots=True)
class Step:
    """One event. It leaves a record if its node has a capture."""

    event: Event
    role: int
    snapshot: int
    after: int  # the step that its time counts from
    delay: Delay
    follows: int  # the step that led to it
    peer: int = MISSING
    receiver: int | None = None  # HUB or a service
    cause: int = MISSING
    duration_from: int = MISSING  # the step that its duration counts from
    reason: str = ""
    verdict: str = ""
    transit: TransitStatus = TransitStatus.NONE
    mark: FaultMark = NO_FAULT
    reject_code: str = ""  # why its frames cannot be decoded
    is_offence: bool = False  # forged or replayed: not part of the flow whose id it carries
    is_dropped: bool = False  # happens, but is missing in the capture


@dataclass(frozen=True, slots=True)
class NestedRequest:
    """A flow that a handler begins while it runs."""

    scenario: str
    cause: int  # the delivery being handled
    role: int


@dataclass(slots=True)
class ExpectedOutcome:
    """What the truth says about every flow of a template."""

    outcome: str = "complete"
    callback: str = ""
    answer: Message | None = None
    answered_at: int = MISSING  # the first step that shows the answer at the requester
    answers: int = 0
    resolved_at: int = MISSING  # the first step that shows that the requester took an answer
    is_overtime: bool = False  # the answer comes after the lifetime of the request


@dataclass(slots=True)
class FlowTemplate:
    """One kind of flow in one wire format."""

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
    requests: list[NestedRequest] = field(default_factory=list)  # in the order in which handlers make them

    @property
    def is_flow(self) -> bool:
        """Whether its correlation id names a flow."""
        return self.correlation is placeholders.CORRELATION

    @property
    def captured(self) -> list[bool]:
        """Whether there is a capture, role by role."""
        return [role not in UNCAPTURED_ROLES for role in self.roles]

    @property
    def records_routers(self) -> bool:
        """Whether the format records every router that a message passes, traced or not."""
        return self.wire_format in (WireFormat.V5, WireFormat.V6)

    def snapshot_of(self, step: int) -> MessageSnapshot:
        """Return the message as a step shows it."""
        return self.snapshots[self.steps[step].snapshot]

    def body(self, name: str, digits: int) -> bytes:
        """Return a body for the next message, with so many random digits in it."""
        noise = placeholders.noise(self.message_count, digits)
        return f'{{"{name}":"{placeholders.BUSINESS_ID}","check":"{noise}"}}'.encode()

    def start(
        self,
        identity: bytes,
        body: bytes,
        callbacks: tuple[MessageIdentifier, ...] = (),
        *,
        receiver: int = HUB,
        distribution: Distribution = Distribution.UNICAST,
        partition: bytes = b"",
    ) -> MessageInFlight:
        """Submit the first message of the flow, at role 0.

        Args:
            identity: The message's identity.
            body: Its body, see `body`.
            callbacks: The answers that the requester waits for; none for a one-way message.
            receiver: What submits it, `HUB` or a service.
            distribution: Unicast or broadcast.
            partition: Its partition, which the first format cannot carry.
        """
        has_partitions = self.wire_format is not WireFormat.FIRST
        message = Message(
            identity,
            partition=partition if has_partitions else b"",
            bodies=(body,),
            distribution=distribution,
            correlation_id=self.correlation,
            ttl_ticks=placeholders.LIFETIME_TICKS if self.lifetime else 0,
            trace_options=TraceOptions.ROUTING if self.is_traced else TraceOptions.NONE,
        )
        if callbacks:
            message = message.register_callback_point(
                placeholders.NODES[0],
                placeholders.HUBS[0],
                callbacks,
                placeholders.CALLBACK_KEY,
            )
        return self.submit(
            message,
            role=0,
            after=MISSING,
            delay=Delay.START,
            receiver=receiver,
        )

    def submit(
        self,
        message: Message,
        *,
        role: int,
        after: int,
        delay: Delay,
        receiver: int | None,
        cause: int = MISSING,
    ) -> MessageInFlight:
        """Submit a new message of the flow."""
        submitted = self.new_message(message, role)
        submitted.take_snapshot()
        submitted.add_step(
            Event.SUBMITTED,
            delay,
            after=after,
            follows=after if cause == MISSING else cause,
            cause=cause,
            receiver=receiver,
        )
        return submitted

    def new_message(self, message: Message, role: int) -> MessageInFlight:
        """Return a new message of the flow at a role, before anything happened to it."""
        in_flight = MessageInFlight(self, message, role, self.message_count)
        self.message_count += 1
        return in_flight


class MessageInFlight:
    """A message while a template is built: where it is, what it looks like, and the last step that happened to it."""

    def __init__(self, flow: FlowTemplate, message: Message, role: int, message_index: int) -> None:
        self.flow = flow
        self.message = message
        self.role = role
        self.message_index = message_index
        self.signer = ""
        self.receiver = MISSING
        self.snapshot = MISSING
        self.last_step = MISSING
        self.sent_step = MISSING
        self.delivered_step = MISSING

    def take_snapshot(self, ttl_step: int = 0) -> None:
        """Encode the message as the next steps show it."""
        frames = encode(self.message, self.flow.wire_format)
        captured_frames = frames[1:]  # a capture leaves out the socket's identity in front
        snapshot = MessageSnapshot(
            captured_frames,
            self.message_index,
            self.message,
            ttl_step=ttl_step if self.message.ttl_ticks else MISSING,
            signer=self.signer,
        )
        self.snapshot = len(self.flow.snapshots)
        self.flow.snapshots.append(snapshot)

    def add_step(
        self,
        event: Event,
        delay: Delay,
        *,
        after: int | None = None,
        follows: int | None = None,
        **details: object,
    ) -> Step:
        """Append a step for this message. It comes after, and follows from, its last step unless given otherwise."""
        if after is None:
            after = self.last_step
        if follows is None:
            follows = after
        step = Step(event, self.role, self.snapshot, after, delay, follows, **details)  # type: ignore[arg-type]
        self.last_step = len(self.flow.steps)
        self.flow.steps.append(step)
        return step

    # -- between nodes -------------------------------------------------------------------------------------------------

    def send(self, to: int, *, delay: Delay = Delay.QUEUE, signer: str | None = None) -> Step:
        """Send it to another role: one more hop, signed with the key of the flow's domain unless given otherwise."""
        flow, message = self.flow, self.message
        routing = message.routing
        if message.trace_options or flow.records_routers:
            router = RoutingEntry(placeholders.URIS[self.role], placeholders.NODES[self.role])
            routing = (*routing, router)
        self.message = message.clone(hops=message.hops + 1, routing=routing)
        self.sign(flow.domain if signer is None else signer)
        self.take_snapshot(ttl_step=len(flow.steps))
        is_watched = flow.captured[to]
        transit = TransitStatus.ARRIVED if is_watched else TransitStatus.UNWATCHED
        step = self.add_step(Event.SENT, delay, peer=to, transit=transit)
        self.sent_step = self.last_step
        return step

    def sign(self, signer: str, domain: str | None = None) -> None:
        """Sign it with a key and label it with a domain, the key's own by default. No signer: leave it as it is."""
        if not signer:
            return
        size = MD5_SIZE if signer == LEDGER_DOMAIN else SHA256_SIZE
        signature = placeholders.SIGNATURES[size]
        label = signer if domain is None else domain
        self.message = self.message.clone(domain=label, signature=signature)
        self.signer = signer

    def receive(
        self,
        role: int,
        *,
        delay: Delay = Delay.TRANSIT,
        after: int | None = None,
        **details: object,
    ) -> Step:
        """Receive it at a role, from the one where it was."""
        sender = self.role
        self.role = role
        is_sending_captured = self.flow.captured[sender]
        defaults: dict[str, object] = {
            "peer": sender,
            "verdict": "verified" if self.signer else "unsigned",
            "transit": TransitStatus.MATCHED if is_sending_captured else TransitStatus.UNSENT,
        }
        all_details = {**defaults, **details}
        return self.add_step(
            Event.RECEIVED,
            delay,
            after=after,
            follows=self.sent_step,
            **all_details,
        )

    def transfer(self, to: int) -> MessageInFlight:
        """Send it to another role and receive it there."""
        self.send(to)
        self.receive(to)
        return self

    # -- inside a node -------------------------------------------------------------------------------------------------

    def deliver(self, receiver: int) -> MessageInFlight:
        """Deliver it to a local receiver."""
        arrival = self.last_step
        self.add_step(Event.DELIVERED, Delay.MAILBOX, receiver=receiver, duration_from=arrival)
        self.delivered_step = self.last_step
        self.receiver = receiver
        return self

    def begin_nested_flow(self, scenario: str) -> None:
        """Have its handler begin another flow and, if that is a request, wait for the answer."""
        request = NestedRequest(scenario, self.delivered_step, self.role)
        self.flow.requests.append(request)

    def result(self, identity: bytes, body: bytes, *, delay: Delay = Delay.RUN) -> MessageInFlight:
        """Submit a message that its handler returns, with the flow, trace and callback point of this one."""
        return self._result(MessageIdentifier(identity), body, delay)

    def exception_report(self, text: str, type_name: str) -> MessageInFlight:
        """Submit the report of a failure, by its handler or by the router."""
        body = ExceptionReport(text, type_name).to_body()
        return self._result(EXCEPTION, body, Delay.RUN)

    def _result(self, identifier: MessageIdentifier, body: bytes, delay: Delay) -> MessageInFlight:
        result = self._follow_up(identifier, body)
        if self.message.callback_point:
            result = self._with_callback_point(result, self.message.callback_point)
        # A router that reports a failure does so by itself: no receiver was handling anything.
        is_handled = self.delivered_step != MISSING
        return self.flow.submit(
            result,
            role=self.role,
            after=self.last_step,
            cause=self.delivered_step,
            delay=delay,
            receiver=self.receiver if is_handled else None,
        )

    def confirm_receipt(self) -> MessageInFlight:
        """Have the router submit a receipt; the message goes on without asking for one."""
        receipt = self._with_callback_point(self._follow_up(RECEIPT), (RECEIPT,))
        arrival = self.last_step
        self.message = self.message.without_callback(RECEIPT)
        self.take_snapshot(ttl_step=self.flow.snapshots[self.snapshot].ttl_step)
        return self.flow.submit(
            receipt,
            role=self.role,
            after=arrival,
            delay=Delay.IMMEDIATE,
            receiver=None,
        )

    def _follow_up(self, identifier: MessageIdentifier, body: bytes = b"") -> Message:
        return Message(
            identifier.identity,
            bodies=(body,),
            correlation_id=self.message.correlation_id,
            trace_options=self.message.trace_options,
            routing=self.message.routing,
        )

    def _with_callback_point(self, message: Message, callbacks: tuple[MessageIdentifier, ...]) -> Message:
        return message.register_callback_point(
            self.message.callback_receiver_node_identity,
            self.message.callback_receiver_identity,
            callbacks,
            self.message.callback_key,
        )

    def finish_handler(
        self,
        result: MessageInFlight | None = None,
        reason: str = "",
        *,
        delay: Delay = Delay.IMMEDIATE,
    ) -> None:
        """End its handler: right after the result that it returned or, without one, some time after the last step."""
        self.add_step(
            Event.HANDLED,
            delay,
            after=self.last_step if result is None else result.last_step,
            follows=self.delivered_step,
            receiver=self.receiver,
            cause=self.delivered_step,
            duration_from=self.delivered_step,
            reason=reason,
        )

    def end(self, event: Event, reason: str, *, delay: Delay = Delay.IMMEDIATE) -> Step:
        """End it other than by handling."""
        return self.add_step(event, delay, reason=reason)

    def deliver_to_hub(self, *, is_awaited: bool = True) -> MessageInFlight:
        """Deliver an answer to the hub that asked, which takes it unless it has stopped waiting."""
        expected = self.flow.expected
        arrival = self.last_step
        was_received = self.flow.steps[arrival].event is Event.RECEIVED
        self.deliver(HUB)
        first_shown = arrival if was_received else self.last_step
        if is_awaited:
            self.add_step(Event.RESOLVED, Delay.IMMEDIATE, receiver=HUB, cause=self.delivered_step)
            if expected.resolved_at == MISSING:
                expected.resolved_at = self.last_step
        expected.answers += 1
        if expected.answer is None:
            expected.answer = self.message
            expected.answered_at = first_shown
        return self
