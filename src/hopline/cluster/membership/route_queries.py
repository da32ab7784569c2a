"""Which questions are open: none is asked too often, and none only once, because a question may be lost."""

from __future__ import annotations

from typing import Generic, TypeVar

Subject = TypeVar("Subject")

REPEATS = 2  # how often a question is repeated after the last call to `begin`


class _Query:
    __slots__ = ("next_at", "repeats_left")

    def __init__(self, next_at: float) -> None:
        self.next_at = next_at
        self.repeats_left = REPEATS


class RouteQueries(Generic[Subject]):
    """Remembers what was asked and when.

    Args:
        period: Seconds between two questions about the same subject.
        capacity: The number of subjects that are remembered; questions about others are not asked.
    """

    def __init__(self, period: float, capacity: int) -> None:
        self._period = period
        self._capacity = capacity
        self._queries: dict[Subject, _Query] = {}

    def begin(self, subject: Subject, now: float) -> bool:
        """Return whether to ask now. A question that is already open is repeated by `due` instead."""
        query = self._queries.get(subject)
        if query is not None:
            query.repeats_left = REPEATS
            return False
        if len(self._queries) >= self._capacity:
            return False
        self._queries[subject] = _Query(now + self._period)
        return True

    def due(self, now: float) -> list[Subject]:
        """Return the subjects to ask about again, and forget those that were repeated often enough."""
        due = [subject for subject, query in self._queries.items() if query.next_at <= now]
        repeated = []
        for subject in due:
            query = self._queries[subject]
            if query.repeats_left:
                query.repeats_left -= 1
                query.next_at = now + self._period
                repeated.append(subject)
            else:
                del self._queries[subject]
        return repeated
