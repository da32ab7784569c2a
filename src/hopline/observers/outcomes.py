"""Observers of outcomes: the `on_outcome` hook of applications, and the log of messages that failed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hopline.actors import flow_log
from hopline.message import EXCEPTION, RECEIPT, Message
from hopline.observers.observer import NodeObserver
from hopline.routing import Delivery, MessageOutcome, Outcome
from hopline.transport import Frames

log = flow_log("hopline.router")

# Under a flood of failures the log must not become a flood too.
RECORDS_PER_SECOND = 10

_REPORTS = frozenset({EXCEPTION.identity, RECEIPT.identity})


class OutcomeHook(NodeObserver):
    """Calls a function with every message and its outcome."""

    def __init__(self, hook: Callable[[MessageOutcome], None], clock: Callable[[], float]) -> None:
        self._hook = hook
        self._clock = clock

    def delivered(self, delivery: Delivery, receiver: bytes) -> Delivery:
        """Report a delivery to a receiver of this node."""
        self._call(delivery, delivery.message, Outcome.DELIVERED, receiver=receiver)
        return delivery

    def sent(self, delivery: Delivery, message: Message, peer: bytes, when: float) -> None:  # noqa: ARG002 - the event's signature
        """Report a message that left for another node."""
        self._call(delivery, message, Outcome.SENT, peer=peer)

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> None:  # noqa: ARG002 - the event's signature
        """Report a message that reached no receiver."""
        self._call(delivery, delivery.message, outcome, reason=reason)

    def _call(
        self,
        delivery: Delivery,
        message: Message,
        outcome: Outcome,
        *,
        receiver: bytes = b"",
        peer: bytes = b"",
        reason: str = "",
    ) -> None:
        waited = self._clock() - delivery.since
        try:
            self._hook(MessageOutcome(outcome, message, receiver, peer, reason, waited))
        except Exception:
            log.exception("on_outcome failed", flow=message)


class FailureLog(NodeObserver):
    """Logs messages that reached no receiver, at most `RECORDS_PER_SECOND` of them.

    A receipt or failure report that reaches nobody is logged at level DEBUG: the message that it is about was logged.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._second = 0
        self._logged = 0  # in this second
        self._suppressed = 0  # in this second

    def ended(self, delivery: Delivery, outcome: Outcome, reason: str, frames: Frames | None) -> None:  # noqa: ARG002 - the event's signature
        """Log the failure of a message, unless there were too many within a second."""
        message = delivery.message
        if message.identity in _REPORTS and outcome is not Outcome.REJECTED:
            log.debug("%s ended as %s: %s", message.identifier, outcome, reason, flow=message)
        elif log.isEnabledFor(logging.WARNING) and self._may_log():
            log.warning("%s ended as %s: %s", message.identifier, outcome, reason, flow=message)

    def _may_log(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._start_second(second)
        if self._logged >= RECORDS_PER_SECOND:
            self._suppressed += 1
            return False
        self._logged += 1
        return True

    def _start_second(self, second: int) -> None:
        if self._suppressed:
            log.warning("%d more delivery failures were not logged", self._suppressed)
        self._second = second
        self._logged = 0
        self._suppressed = 0
