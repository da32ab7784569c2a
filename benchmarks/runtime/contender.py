"""What a contender can be asked to do, and the work that all of them do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

TEXT = "ping"

Answer = tuple[int, str]


class Contender(Protocol):
    """One way to ask actors that live in the same process.

    Every method starts its own actors before its clock starts and stops them after it, and checks the answers while
    the clock stands still. An actor handles one request at a time.
    """

    name: str
    idle_actors: int  # how many of them the memory is measured with

    async def sequential(self, requests: int) -> list[float]:
        """Ask one actor, each time after the answer before: the seconds of every request."""

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Ask one actor with so many requests under way at a time: the seconds of all together."""

    async def fan_out(self, actors: int, rounds: int) -> list[float]:
        """Ask all actors the same and gather their answers: the seconds of every round."""

    def idle_memory(self, actors: int) -> float:
        """Start actors in a fresh process and ask them nothing: the bytes that each takes."""


def work(number: int, text: str) -> Answer:
    """Answer a request; so little that only the way there and back counts."""
    return number + 1, text.upper()


def check(answers: Iterable[Answer], numbers: Iterable[int]) -> None:
    """Insist on exactly one right answer to every request, in whatever order they came."""
    if sorted(answers) != sorted(work(number, TEXT) for number in numbers):
        raise AssertionError("answers are wrong, missing or too many")
