"""Answers that have not been sent yet, or may not have arrived: when to send each again.

An answer goes directly to the node that asked, and may be lost on the way: its link makes room for another one, the
node is too busy to shake hands in time, or the connection breaks. A request that comes too soon after an answer gets
none. The node that asked cannot know whose answer it lacks, and asks again only after minutes. So the node that answers
remembers each answer for a while, and sends those that were lost again.

This must not become a flood where many answers are lost, or where requests name addresses at which nothing answers:

* An answer is postponed while too many links are connecting (`NetworkPort.may_answer`). So a network that forms at
  once, on machines that are busy with that, does so as fast as links connect, and gives up none of them.
* The pause before each repetition is twice as long as the one before, and random by a half of it, so that answers that
  were lost together are not repeated together. The last of `REPEATS` is followed by none.
* Of those that are due, the latest comes first: a node that really asks does not wait behind a flood of requests.
* A request that was refused because it came too soon is answered once, however many there were.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

FIRST_PAUSE = 2.0  # seconds, and up to a half more, until an answer is sent again
REPEATS = 5
_MEMORY = 60.0  # seconds in which the loss of an answer is noticed


class OwedAnswer(NamedTuple):
    """A node that an answer goes to, its address, and the domain of its request."""

    node: bytes
    uri: str
    domain: str


class _Answer(msgspec.Struct):
    uri: str
    at: float  # when it was sent, or is to be sent
    repeats: int = 0


_Addressee = tuple[bytes, str]  # a node, and the domain of its request


class OwedAnswers:
    """Remembers the latest answers, up to a bound.

    Args:
        capacity: The number of answers that are remembered.
        random: Spreads repetitions over time.
    """

    def __init__(self, capacity: int, random: Random) -> None:
        self._capacity = capacity
        self._random = random
        self._sent: dict[_Addressee, _Answer] = {}  # the earliest first
        self._owed: dict[_Addressee, _Answer] = {}  # in the order in which they were postponed or lost

    def __len__(self) -> int:
        """Return how many answers are to be sent."""
        return len(self._owed)

    def sent(self, answer: OwedAnswer, now: float) -> None:
        """Record that an answer is sent: at a request, to a new node, or again."""
        addressee = (answer.node, answer.domain)
        owed = self._owed.pop(addressee, None)
        repeats = 0 if owed is None else owed.repeats + 1
        self._sent.pop(addressee, None)
        self._make_room()
        self._sent[addressee] = _Answer(answer.uri, now, repeats)

    def postpone(self, answer: OwedAnswer, now: float) -> None:
        """Record that an answer is to be sent as soon as there is room for it."""
        addressee = (answer.node, answer.domain)
        self._sent.pop(addressee, None)
        self._owed.pop(addressee, None)
        self._make_room()
        self._owed[addressee] = _Answer(answer.uri, now, repeats=-1)

    def lost(self, node: bytes, domain: str, now: float) -> None:
        """Note that the latest answer to a node did not arrive, or that the node needs another one."""
        answer = self._sent.pop((node, domain), None)
        if answer is None or answer.repeats >= REPEATS:
            return
        pause = FIRST_PAUSE * 2**answer.repeats * self._random.uniform(1, 1.5)
        answer.at = now + pause
        self._owed[node, domain] = answer

    def forget(self, node: bytes, domain: str) -> None:
        """Send nothing to a node that left."""
        self._sent.pop((node, domain), None)
        self._owed.pop((node, domain), None)

    def due(self, now: float) -> list[OwedAnswer]:
        """Return the answers to send now, the latest first. Those that are sent must be reported to `sent`."""
        self._expire(now)
        return [
            OwedAnswer(node, answer.uri, domain)
            for (node, domain), answer in reversed(self._owed.items())
            if answer.at <= now
        ]

    def _make_room(self) -> None:
        if len(self._sent) + len(self._owed) >= self._capacity:
            answers = self._sent or self._owed
            del answers[next(iter(answers))]

    def _expire(self, now: float) -> None:
        """Forget the answers that were not lost."""
        while self._sent:
            addressee, answer = next(iter(self._sent.items()))
            if now - answer.at <= _MEMORY:
                return
            del self._sent[addressee]
