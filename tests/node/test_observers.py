"""The observation seam: what several observers hear of, in which order, and what they cannot break."""

from __future__ import annotations

import logging

import msgspec
import pytest

from hopline import Actor, Message, Node, Outcome, Payload, handler
from hopline.observers.observer import EVENTS, NodeObserver, Observers
from hopline.routing import Delivery, Handling
from hopline.transport import Frames

from .running import on_loop

LOST = Delivery(Message(b"LOST"), Message(b"LOST").identifier, 0.0)


class Question(Payload):
    number: int


class Reply(Payload):
    number: int


class Answering(Actor):
    @handler
    def answer(self, question: Question) -> Reply:
        return Reply(question.number)


class Numbering(NodeObserver):
    """Adds one to the record number of each submission, and numbers the ends."""

    def __init__(self, end: int | None = None) -> None:
        self.end = end
        self.ended_count = 0

    def submitting(self, delivery: Delivery) -> Delivery:
        return msgspec.structs.replace(delivery, record=(delivery.record or 0) + 1)

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> int | None:
        self.ended_count += 1
        return self.end


class Broken(NodeObserver):
    """Fails at every event that it listens to."""

    def submitting(self, delivery: Delivery) -> Delivery:
        raise RuntimeError("submitting")

    def submitted(self, delivery: Delivery) -> None:
        raise RuntimeError("submitted")

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        raise RuntimeError("delivered")

    def handling(self, delivery: Delivery, receiver: bytes, handler: str) -> Handling | None:
        raise RuntimeError("handling")


class Listing(NodeObserver):
    """Lists the events of messages."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def submitting(self, delivery: Delivery) -> Delivery:
        self.events.append(f"submitting {delivery.identifier.identity.decode()}")
        return delivery

    def submitted(self, delivery: Delivery) -> None:
        self.events.append(f"submitted {delivery.identifier.identity.decode()}")

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        self.events.append(f"delivered {delivery.identifier.identity.decode()}")
        return delivery

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        self.events.append(f"resolved {delivery.identifier.identity.decode()}")


def test_an_event_without_listeners_is_none() -> None:
    observers = Observers()
    observers.add(NodeObserver())
    assert not observers.is_observed
    assert {getattr(observers, event) for event in EVENTS} == {None}


def test_an_observer_of_failures_alone_does_not_slow_every_message() -> None:
    class OfFailures(NodeObserver):
        def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> None:
            pass

    observers = Observers()
    observers.add(OfFailures())
    assert observers.ended is not None
    assert not observers.is_observed


def test_observers_pass_a_delivery_on_and_the_first_record_number_counts() -> None:
    observers = Observers()
    without_records, first, second = Numbering(), Numbering(end=7), Numbering(end=8)
    for observer in (without_records, first, second):
        observers.add(observer)
    assert observers.is_observed
    assert observers.submitting is not None
    assert observers.submitting(LOST).record == 3
    assert observers.ended is not None
    assert observers.ended(LOST, Outcome.FAILED, "", None) == 7
    assert [observer.ended_count for observer in (without_records, first, second)] == [1, 1, 1]


def test_followers_are_called_when_an_observer_changes_its_mind() -> None:
    class Switched(NodeObserver):
        is_on = False

        def listeners(self) -> dict[str, object]:  # type: ignore[override]
            return {"delivered": self.delivered} if self.is_on else {}

    observers, switched = Observers(), Switched()
    seen: list[bool] = []
    observers.on_change(lambda: seen.append(observers.is_observed))
    observers.add(switched)
    switched.is_on = True
    observers.refresh()
    assert seen == [False, False, True]


@on_loop
async def test_an_observer_that_fails_loses_no_message_and_hides_none_from_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Node(Answering()) as node:
        observers = node._require_running().observers
        observers.add(Broken())
        listing = Listing()
        observers.add(listing)
        with caplog.at_level(logging.CRITICAL, logger="hopline"):
            assert await node.hub.send(Question(1), callback=Reply) == Reply(1)
    assert listing.events == [
        "submitting Question",
        "submitted Question",
        "delivered Question",
        "submitting Reply",
        "delivered Reply",
        "resolved Reply",
        "submitted Reply",
    ]
    assert node.stats().is_balanced
