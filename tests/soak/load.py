"""The load: what is sent, by whom it is handled, and how a steady rate is kept.

One *step* is a question, its answer and two notes, which makes four messages: half of them belong to requests, half go
one way. Messages are counted where they are submitted. Receipts, failure reports and the protocol's own messages are
not counted, nor are messages counted again on other nodes.

Each node sends messages of a partition of its own, which the other two handle and it does not. So every message of the
load crosses from one node to another, and has a second node to go to when one is gone.

The loop is open: when messages are due does not depend on what became of earlier ones. What a node missed because it
was paused is sent late up to `BACKLOG`; what is older is skipped and counted, because a burst after a pause would be
another experiment.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hopline.actors import Actor, handler
from hopline.actors.handler import HandlerDefinition
from hopline.message import payload

MESSAGES_A_STEP = 4
NOTES_A_STEP = 2
BACKLOG = 1.0  # seconds
TEXT_SIZES = (20, 200, 1_000)  # characters, in turn


@payload("SOAK.QUESTION")
class Question(msgspec.Struct, frozen=True):
    """A request."""

    number: int
    text: str


@payload("SOAK.ANSWER")
class Answer(msgspec.Struct, frozen=True):
    """The answer to a question of the same number."""

    number: int
    text: str


@payload("SOAK.NOTE")
class Note(msgspec.Struct, frozen=True):
    """A message that goes one way."""

    number: int
    text: str


IDENTITIES = ("SOAK.QUESTION", "SOAK.ANSWER", "SOAK.NOTE")


class Worker(Actor):
    """Handles the messages of some partitions.

    Args:
        partitions: The names of the nodes whose messages it handles.
    """

    def __init__(self, partitions: Sequence[str]) -> None:
        self.questions = 0
        self.notes = 0
        self._partitions = [name.encode() for name in partitions]

    def definitions(self) -> list[HandlerDefinition]:
        """Return its handlers, once for each partition."""
        return [each.bound_to(partition) for each in super().definitions() for partition in self._partitions]

    @handler
    def answer(self, question: Question) -> Answer:
        """Answer a question."""
        self.questions += 1
        return Answer(question.number, question.text)

    @handler
    def take(self, note: Note) -> None:
        """Take a note."""
        self.notes += 1


def text_of(number: int) -> str:
    """Return the text of a message, of one of several sizes."""
    return "x" * TEXT_SIZES[number % len(TEXT_SIZES)]


class OpenLoop:
    """Says how many steps are due.

    Args:
        rate: Steps a second.
        start: The time of the first step.
    """

    def __init__(self, rate: float, start: float) -> None:
        self.done = 0  # steps that were due, skipped ones included
        self.skipped = 0
        self._rate = rate
        self._start = start

    def due(self, now: float) -> int:
        """Return how many steps are to be done now; those that are due for longer than `BACKLOG` are skipped."""
        steps = max(0, int((now - self._start) * self._rate) - self.done)
        most = max(1, int(BACKLOG * self._rate))
        self.done += steps
        self.skipped += max(0, steps - most)
        return min(steps, most)
