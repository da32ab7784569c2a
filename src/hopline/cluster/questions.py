"""Who was told everything that lives here, and when: once a moment is enough, however often a question is replayed."""

from __future__ import annotations

from enum import Enum, auto

_SPACING = 0.5  # seconds in which one node is not told everything twice

Asker = tuple[bytes, str, str]  # a node, where it is, and in which domain it asks


class Verdict(Enum):
    """What to do with a question."""

    ANSWER = auto()
    WAS_GREETED = auto()  # it was told before it could ask
    TOO_OFTEN = auto()


class Questions:
    """Remembers the last answers, up to a bound."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._answered: dict[Asker, float] = {}
        self._greeted: set[Asker] = set()  # those among them who have not asked yet

    def greet(self, asker: Asker, now: float) -> bool:
        """Return whether to tell a newcomer everything without a question: not if its question was faster."""
        if self._was_answered(asker, now):
            return False
        self._note(asker, now)
        self._greeted.add(asker)
        return True

    def _was_answered(self, asker: Asker, now: float) -> bool:
        return now - self._answered.get(asker, -_SPACING) < _SPACING

    def ask(self, asker: Asker, now: float) -> Verdict:
        """Return whether to answer a question, and take it for answered then."""
        was_greeted = asker in self._greeted
        self._greeted.discard(asker)
        if self._was_answered(asker, now):
            return Verdict.WAS_GREETED if was_greeted else Verdict.TOO_OFTEN
        self._note(asker, now)
        return Verdict.ANSWER

    def _note(self, asker: Asker, now: float) -> None:
        answered = self._answered
        if answered.pop(asker, None) is None and len(answered) >= self._capacity:
            oldest = next(iter(answered))
            del answered[oldest]
            self._greeted.discard(oldest)
        answered[asker] = now
