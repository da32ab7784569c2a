"""The reports to observers of what hubs and actors of this node submit.

A submission is reported in two steps: `submitting` before it is routed, because observers may attach something to the
delivery that routing passes on, and then `submitted` or `refused`. Both steps belong to the context of the submitter.
"""

from __future__ import annotations

from collections.abc import Callable

from hopline.observers.observer import Observers
from hopline.routing import Delivery


class Submissions:
    """Reports the submissions of one node to its observers."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers

    def submitting(self, delivery: Delivery) -> Delivery:
        """Report that a delivery is about to be routed. Return it as observers want to see it from now on."""
        observe = self._observers.submitting
        return delivery if observe is None else observe(delivery)

    def submitted(self, delivery: Delivery) -> None:
        """Report that the node has taken a delivery."""
        if self._observers.submitted is not None:
            self._observers.submitted(delivery)

    def refused(self, delivery: Delivery) -> None:
        """Report that the receiver of a delivery is full, and that it therefore counts as not submitted."""
        if self._observers.refused is not None:
            self._observers.refused(delivery)

    def observe(self, delivery: Delivery, accept: Callable[[Delivery], bool]) -> bool:
        """Accept a submission by a function, and report it. Return whether it was taken."""
        delivery = self.submitting(delivery)
        is_taken = False
        try:
            is_taken = accept(delivery)
        finally:
            if is_taken:
                self.submitted(delivery)
            else:
                self.refused(delivery)
        return is_taken
