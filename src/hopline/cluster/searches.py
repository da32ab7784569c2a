"""What is being looked for: so that nothing is asked too often, and nothing only once, for a question may be lost."""

from __future__ import annotations

from typing import Generic, TypeVar

What = TypeVar("What")

REPEATS = 2  # how often a question is asked again when nobody asks anew


class _Search:
    __slots__ = ("left", "next_at")

    def __init__(self, next_at: float) -> None:
        self.next_at = next_at
        self.left = REPEATS


class Searches(Generic[What]):
    """Remembers what was asked and when, up to a bound."""

    def __init__(self, period: float, capacity: int) -> None:
        self._period = period
        self._capacity = capacity
        self._searches: dict[What, _Search] = {}

    def begin(self, what: What, now: float) -> bool:
        """Tell whether to ask for this now; if it was asked a moment ago, it will be asked again in time."""
        known = self._searches.get(what)
        if known is not None:
            known.left = REPEATS
            return False
        if len(self._searches) >= self._capacity:
            return False
        self._searches[what] = _Search(now + self._period)
        return True

    def due(self, now: float) -> list[What]:
        """Give what is to be asked again, and forget what was asked often enough."""
        due = [what for what, search in self._searches.items() if search.next_at <= now]
        again = []
        for what in due:
            search = self._searches[what]
            if search.left:
                search.left -= 1
                search.next_at = now + self._period
                again.append(what)
            else:
                del self._searches[what]
        return again
