"""What the parts of a node pass to one another: deliveries, through ports, over the exchange that routes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

import msgspec

from hopline.message import Message, MessageIdentifier
from hopline.routing.outcome import Outcome

NO_DEADLINE = float("inf")
TICKS_PER_SECOND = 10_000_000


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message during its stay on this node, with its timing and what observers attached to it.

    The last three fields belong to observers. Nothing else may depend on them, and they are None when nobody observes.
    """

    message: Message
    identifier: MessageIdentifier  # the message's own, computed once
    since: float  # when its stay began, by the node's clock
    deadline: float = NO_DEADLINE
    content: object = None  # the payload that the body was encoded from, if decoding the body would return its equal
    origin: object = None  # the telemetry span that sent it
    submitter: object = None  # the actor or hub that submitted it, and why, as capture records it
    record: int | None = None  # number of the latest capture record about it


def delivery_of(message: Message, now: float, record: int | None = None) -> Delivery:
    """Return the delivery of a message whose stay on this node begins now."""
    ttl_ticks = message.ttl_ticks
    deadline = now + ttl_ticks / TICKS_PER_SECOND if ttl_ticks else NO_DEADLINE
    if record is None:
        return Delivery(message, message.identifier, now, deadline)
    return Delivery(message, message.identifier, now, deadline, record=record)


def remaining_ticks(delivery: Delivery, now: float) -> int:
    """Return the remaining lifetime of a message in the wire's unit.

    Zero means unlimited, so a limited lifetime is never rounded down to it.
    """
    if delivery.deadline == NO_DEADLINE:
        return delivery.message.ttl_ticks
    ticks = int((delivery.deadline - now) * TICKS_PER_SECOND)
    return ticks if ticks > 0 else 1


Label: TypeAlias = "tuple[str | None, str | None]"  # display names: of an actor's class, and of its handler


class Port(Protocol):
    """The entry of a local receiver: an actor host or a message hub."""

    @property
    def identity(self) -> bytes:
        """The receiver's identity."""
        ...

    @property
    def confirms_receipts(self) -> bool:
        """Whether a receipt is due as soon as this port has accepted a message that asks for one."""
        ...

    def offer(self, delivery: Delivery) -> bool:
        """Accept a delivery, or return False if the receiver is full."""
        ...

    def label(self, identifier: MessageIdentifier) -> Label:
        """Return the display names of the receiver and of its handler for a message, where it has them."""
        ...


class HubPort(Port, Protocol):
    """The port of a hub, which receives answers."""

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Accept an answer as a value, without a message.

        Args:
            key: The callback key of the request.
            identifier: The kind of message that the answer would be.
            value: The payload.

        Returns:
            Whether a caller with this key waits for exactly this kind of answer. If not, nothing happened.
        """
        ...


class QueuedDelivery(Protocol):
    """A delivery that waits until its receiver has room."""

    @property
    def is_withdrawn(self) -> bool:
        """Whether the wait was cancelled before the delivery was handed over."""
        ...

    async def wait(self) -> None:
        """Wait until the delivery was handed over or has ended. Cancelling withdraws it."""
        ...


class Handling(Protocol):
    """What observers keep during the run of one handler."""

    def detach(self) -> None:
        """End the synchronous part of the handler: undo what was made current for it."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Report that the handler finished, with its error if it failed."""
        ...


class Exchange(Protocol):
    """The services of a node that its hubs and actor hosts use."""

    @property
    def is_observed(self) -> bool:
        """Whether an observer needs to see every message, so that no shortcut may be taken."""
        ...

    @property
    def observes_handlers(self) -> bool:
        """Whether an observer follows handlers."""
        ...

    def clock(self) -> float:
        """Return the node's monotonic time in seconds."""
        ...

    def submit(self, delivery: Delivery) -> bool:
        """Route a message of this node, or return False, without any effect, if its receiver is full."""
        ...

    def wait_for_room(self, delivery: Delivery, within: float = NO_DEADLINE) -> QueuedDelivery:
        """Queue a delivery that `submit` refused, for at most `within` seconds."""
        ...

    def deliver_in_process(self, request: Message, identifier: MessageIdentifier, value: object) -> bool:
        """Pass an answer to the local hub that waits for it, or return False if it has to be sent as a message."""
        ...

    def room_made(self, receiver: bytes, handled: Iterable[MessageIdentifier]) -> None:
        """Report that a receiver that was full has room again."""
        ...

    def abandoned(self, message: Message, reason: str) -> None:
        """Count a message that was created and never routed."""
        ...

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        """Report that a receiver starts on a delivery. Return it as observers want to see it from now on."""
        ...

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Report that a promise or stream of a hub accepted a delivery."""
        ...

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str) -> None:
        """Report that a delivery ended without reaching a receiver, and notify its sender if it waits for an answer."""
        ...

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> Handling | None:
        """Report that a handler starts, in the handler's own context. Return None if no observer follows it."""
        ...

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """Report that the handler of a delivery failed."""
        ...

    def handled(self, error: BaseException | None) -> None:
        """Count a handler that finished."""
        ...
