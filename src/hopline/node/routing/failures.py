"""The end of deliveries that reach no receiver: each is counted, reported to observers, and reported to its sender."""

from __future__ import annotations

from collections.abc import Callable

from hopline.actors import exception_result
from hopline.message import EXCEPTION, RECEIPT, DeliveryError, ExceptionReport, Message
from hopline.observers.counters import MessageCounters
from hopline.observers.observer import Observers
from hopline.routing import Delivery, Outcome
from hopline.transport import Frames

REPORTS = frozenset({EXCEPTION.identity, RECEIPT.identity})
"""The identities of messages that report on others. The failure of a report is never reported."""


class Failures:
    """Ends deliveries of one node that reach no receiver.

    Args:
        counters: Where outcomes are counted.
        observers: The observers of the node.
        submit: Submits a failure report, with the number of the record of the message that it is about.
    """

    def __init__(
        self,
        counters: MessageCounters,
        observers: Observers,
        submit: Callable[[Message, int | None], None],
    ) -> None:
        self._counters = counters
        self._observers = observers
        self._submit = submit

    def end(self, delivery: Delivery, outcome: Outcome, reason: str, *, notify: bool = True) -> None:
        """Count a delivery that reached no receiver, and notify its sender if that waits for an answer."""
        message = delivery.message
        record = self.count(delivery, outcome, reason)
        is_report = message.identity in REPORTS
        if notify and not is_report and EXCEPTION in message.callback_point:
            text = f"{message.identifier}: {reason}"
            type_name = DeliveryError.REPORTED_AS + outcome
            report = exception_result(message, ExceptionReport(text, type_name))
            self._submit(report, record)

    def count(
        self,
        delivery: Delivery,
        outcome: Outcome,
        reason: str,
        frames: Frames | None = None,
    ) -> int | None:
        """Count the end of a delivery without notifying its sender.

        Args:
            delivery: The delivery.
            outcome: How it ended.
            reason: Why, for people.
            frames: The frames that were rejected, if it ended on arrival.

        Returns:
            The number of the record of its end, if there is one.
        """
        self._counters.failures[outcome] += 1
        observe = self._observers.ended
        return None if observe is None else observe(delivery, outcome, reason, frames)
