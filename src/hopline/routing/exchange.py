"""What the parts of a node hand to one another: deliveries, through ports, over the exchange that routes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

import msgspec

from hopline.message import Message, MessageIdentifier
from hopline.routing.outcome import Outcome

NO_DEADLINE = float("inf")
TICKS_PER_SECOND = 10_000_000


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message on this node: its kind, since when, until when, and what its sender's telemetry noted of it."""

    message: Message
    identifier: MessageIdentifier  # the message's own, made once and then at hand for all who ask
    since: float
    deadline: float = NO_DEADLINE
    origin: object = None
    content: object = None  # the payload that the body was written from, where nobody could tell it from one read anew


def delivery_of(message: Message, now: float) -> Delivery:
    """Make the delivery of a message whose stay on this node begins now."""
    ttl_ticks = message.ttl_ticks
    deadline = now + ttl_ticks / TICKS_PER_SECOND if ttl_ticks else NO_DEADLINE
    return Delivery(message, message.identifier, now, deadline)


def remaining_ticks(delivery: Delivery, now: float) -> int:
    """Give the lifetime that is left of a message, in the wire's unit; zero is no limit, and never "nearly none"."""
    if delivery.deadline == NO_DEADLINE:
        return delivery.message.ttl_ticks
    ticks = int((delivery.deadline - now) * TICKS_PER_SECOND)
    return ticks if ticks > 0 else 1


Label: TypeAlias = "tuple[str | None, str | None]"  # names for people: of an actor's class, and of its handler


class Port(Protocol):
    """Where a local receiver takes its messages."""

    @property
    def identity(self) -> bytes:
        """Who it is."""
        ...

    @property
    def confirms_receipts(self) -> bool:
        """Whether taking a message is what a sender who wants a receipt waits for."""
        ...

    def offer(self, delivery: Delivery) -> bool:
        """Take a delivery, or say that there is no room."""
        ...

    def label(self, identifier: MessageIdentifier) -> Label:
        """Return the names of the receiver and of its handler for a kind of message, as far as it has such."""
        ...


class HubPort(Port, Protocol):
    """The port of a hub, where answers come home."""

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Take an answer that is a value, if it is just what the one with this key waits for."""
        ...


class Place(Protocol):
    """A place in the queue for room at a receiver."""

    @property
    def is_withdrawn(self) -> bool:
        """Whether the message was taken back, because the one who waited was cancelled."""
        ...

    async def wait(self) -> None:
        """Wait until the message was handed over, or its time was over. One who is cancelled takes it back."""
        ...


class Exchange(Protocol):
    """What hubs and actor hosts need of their node."""

    @property
    def is_watched(self) -> bool:
        """Tell whether somebody wants to see every message."""
        ...

    def clock(self) -> float:
        """Tell the node's time in seconds; it never goes back."""
        ...

    def submit(self, delivery: Delivery) -> bool:
        """Take a message that was made here for routing, or say that there is no room, and nothing happened."""
        ...

    def wait_for_room(self, delivery: Delivery, within: float = NO_DEADLINE) -> Place:
        """Give a delivery that was not taken a place to wait at, for so many seconds."""
        ...

    def bring_home(self, request: Message, identifier: MessageIdentifier, value: object) -> bool:
        """Give the answer to a request to whoever waits for it here, or say that it has to be sent as a message."""
        ...

    def room_made(self, receiver: bytes, handled: Iterable[MessageIdentifier]) -> None:
        """Note that a receiver that was full has room again."""
        ...

    def abandoned(self, message: Message, reason: str) -> None:
        """Count a message that was made and never routed."""
        ...

    def delivered(self, delivery: Delivery, receiver: bytes) -> None:
        """Note that a delivery was put before its receiver."""
        ...

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Note that a promise took what was just delivered."""
        ...

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str) -> None:
        """Note how a delivery ended that reached nobody, and tell its sender."""
        ...

    def handled(self, error: BaseException | None) -> None:
        """Note that a handler is done, and how it went."""
        ...
