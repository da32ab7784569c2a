"""Which nodes were recently sent all routes, so that a replayed request does not cause another answer."""

from __future__ import annotations

from enum import Enum, auto

_SPACING = 0.5  # seconds in which one node is not sent all routes twice

Requester = tuple[bytes, str, str]
"""A node, its address, and the domain of its request."""


class Verdict(Enum):
    """What to do with a request for all routes."""

    ANSWER = auto()
    ALREADY_GREETED = auto()  # the routes were sent before the request arrived
    TOO_OFTEN = auto()


class RouteRequests:
    """Remembers the latest answers, up to a bound."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._answered_at: dict[Requester, float] = {}
        self._greeted: set[Requester] = set()  # those among them that have not asked yet

    def greet(self, requester: Requester, now: float) -> bool:
        """Return whether to send all routes to a new node without a request: not if its request arrived first."""
        if self._was_answered(requester, now):
            return False
        self._record(requester, now)
        self._greeted.add(requester)
        return True

    def ask(self, requester: Requester, now: float) -> Verdict:
        """Return whether to answer a request; if so, count it as answered."""
        was_greeted = requester in self._greeted
        self._greeted.discard(requester)
        if self._was_answered(requester, now):
            return Verdict.ALREADY_GREETED if was_greeted else Verdict.TOO_OFTEN
        self._record(requester, now)
        return Verdict.ANSWER

    def _was_answered(self, requester: Requester, now: float) -> bool:
        answered_at = self._answered_at.get(requester)
        return answered_at is not None and now - answered_at < _SPACING

    def _record(self, requester: Requester, now: float) -> None:
        answered_at = self._answered_at
        is_new = answered_at.pop(requester, None) is None
        if is_new and len(answered_at) >= self._capacity:
            oldest = next(iter(answered_at))
            del answered_at[oldest]
            self._greeted.discard(oldest)
        answered_at[requester] = now
