"""The actors of the simulation: some that behave, and one that does everything wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import Random

import msgspec

from hopline.actors import Actor, handler
from hopline.message import Payload, payload


@payload
class Ask(msgspec.Struct, frozen=True):
    """A question; the answer is the next number."""

    uid: int


@payload
class Told(msgspec.Struct, frozen=True):
    """The answer to it, and where it was found."""

    uid: int
    answer: int
    where: str = ""


class Start(Payload):
    """The first message of a pipeline."""

    uid: int


class Middle(Payload):
    """Its second stage."""

    uid: int


class Finish(Payload):
    """What the one who started it waits for."""

    uid: int


@payload
class News(msgspec.Struct, frozen=True):
    """Something for everyone."""

    uid: int


@payload
class Heard(msgspec.Struct, frozen=True):
    """What everyone says to it."""

    uid: int
    who: str


class Poke(Payload):
    """A message to the one that misbehaves."""

    uid: int
    how: str


class Note(Payload):
    """A message that wants no answer."""

    uid: int


class Trip(Payload):
    """A message that its handler stumbles over."""

    uid: int


class Answerer(Actor):
    """Answers at once."""

    def __init__(self, where: str) -> None:
        self._where = where

    @handler
    def answer(self, ask: Ask) -> Told:
        """Give the next number."""
        return Told(ask.uid, ask.uid + 1, self._where)

    @handler
    def take(self, note: Note) -> None:
        """Take a note."""

    @handler
    def stumble(self, trip: Trip) -> None:
        """Fail, and go on."""
        raise ValueError(f"tripped over {trip.uid}")


class SlowAnswerer(Actor):
    """Takes its time, and does several things at once."""

    def __init__(self, where: str, random: Random) -> None:
        self._where = where
        self._random = random

    @handler
    async def answer(self, ask: Ask) -> Told:
        """Give the next number, later."""
        await asyncio.sleep(self._random.expovariate(4))
        return Told(ask.uid, ask.uid + 1, self._where)


class FirstStage(Actor):
    """Hands the flow on, and knows nothing of where it ends."""

    @handler
    def begin(self, start: Start) -> Middle:
        """Go on to the middle."""
        return Middle(start.uid)


class SecondStage(Actor):
    """Ends the flow, and knows nothing of where it began."""

    @handler
    async def end(self, middle: Middle) -> list[Finish]:
        """Finish it, twice: the first to come wins."""
        await asyncio.sleep(0.01)
        return [Finish(middle.uid), Finish(middle.uid)]


class Listener(Actor):
    """Hears the news."""

    def __init__(self, name: str) -> None:
        self._name = name

    @handler
    def hear(self, news: News) -> Heard:
        """Say who heard them."""
        return Heard(news.uid, self._name)


class Troublemaker(Actor):
    """Raises, hangs, returns nonsense, floods."""

    @handler
    async def misbehave(self, poke: Poke) -> object:
        """Do as told."""
        if poke.how == "raise":
            raise ValueError("as told")
        if poke.how == "hang":
            await asyncio.sleep(1_000_000)
        if poke.how == "cancel":
            raise asyncio.CancelledError
        if poke.how == "flood":
            return self._flood(poke.uid)
        if poke.how == "trickle":
            return self._trickle(poke.uid)
        return {"nonsense": poke.uid}

    def _flood(self, uid: int) -> Iterator[Note | Told]:
        for _ in range(100):
            yield Note(uid)
        yield Told(uid, uid + 1)

    async def _trickle(self, uid: int) -> AsyncIterator[Note | Told]:
        for _ in range(5):
            await asyncio.sleep(0.1)
            yield Note(uid)
        yield Told(uid, uid + 1)


TROUBLE = ("raise", "hang", "cancel", "flood", "trickle", "nonsense")
