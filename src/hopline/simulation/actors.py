"""The actors of the simulation: some that work, and one that fails in every way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import Random

import msgspec

from hopline.actors import Actor, handler
from hopline.message import Payload, payload


@payload
class Ask(msgspec.Struct, frozen=True):
    """A request; the reply is the next number."""

    uid: int


@payload
class Answer(msgspec.Struct, frozen=True):
    """The reply to `Ask`, with the name of the machine that handled it."""

    uid: int
    answer: int
    where: str = ""


class Start(Payload):
    """The first message of a pipeline."""

    uid: int


class Middle(Payload):
    """The second message of a pipeline."""

    uid: int


class Finish(Payload):
    """The last message of a pipeline, which its caller waits for."""

    uid: int


@payload
class News(msgspec.Struct, frozen=True):
    """A broadcast."""

    uid: int


@payload
class Acknowledgement(msgspec.Struct, frozen=True):
    """The reply of each receiver to a broadcast."""

    uid: int
    receiver: str


class Poke(Payload):
    """A message to the actor that misbehaves."""

    uid: int
    how: str


class Note(Payload):
    """A message without a reply."""

    uid: int


class Trip(Payload):
    """A message whose handler fails."""

    uid: int


class Answerer(Actor):
    """Replies at once."""

    def __init__(self, where: str) -> None:
        self._where = where

    @handler
    def answer(self, ask: Ask) -> Answer:
        """Return the next number."""
        return Answer(ask.uid, ask.uid + 1, self._where)

    @handler
    def accept(self, note: Note) -> None:
        """Do nothing."""

    @handler
    def fail(self, trip: Trip) -> None:
        """Raise an exception."""
        raise ValueError(f"tripped over {trip.uid}")


class SlowAnswerer(Actor):
    """Replies after a random time, to several requests concurrently."""

    def __init__(self, where: str, random: Random) -> None:
        self._where = where
        self._random = random

    @handler
    async def answer(self, ask: Ask) -> Answer:
        """Return the next number after a while."""
        await asyncio.sleep(self._random.expovariate(4))
        return Answer(ask.uid, ask.uid + 1, self._where)


class FirstStage(Actor):
    """The first stage of a pipeline: it does not know who replies to the caller."""

    @handler
    def begin(self, start: Start) -> Middle:
        """Pass the flow on to the second stage."""
        return Middle(start.uid)


class SecondStage(Actor):
    """The second stage of a pipeline: it does not know the caller."""

    @handler
    async def end(self, middle: Middle) -> list[Finish]:
        """Reply twice: the first reply that arrives counts."""
        await asyncio.sleep(0.01)
        return [Finish(middle.uid), Finish(middle.uid)]


class Listener(Actor):
    """Receives broadcasts."""

    def __init__(self, name: str) -> None:
        self._name = name

    @handler
    def acknowledge(self, news: News) -> Acknowledgement:
        """Return an acknowledgement."""
        return Acknowledgement(news.uid, self._name)


class Troublemaker(Actor):
    """Raises, hangs, cancels itself, floods the network, or returns a value that cannot be sent."""

    @handler
    async def misbehave(self, poke: Poke) -> object:
        """Misbehave in the way that the message asks for."""
        if poke.how == "raise":
            raise ValueError("as requested")
        if poke.how == "hang":
            await asyncio.sleep(1_000_000)
        if poke.how == "cancel":
            raise asyncio.CancelledError
        if poke.how == "flood":
            return self._flood(poke.uid)
        if poke.how == "trickle":
            return self._trickle(poke.uid)
        return {"nonsense": poke.uid}

    def _flood(self, uid: int) -> Iterator[Note | Answer]:
        for _ in range(100):
            yield Note(uid)
        yield Answer(uid, uid + 1)

    async def _trickle(self, uid: int) -> AsyncIterator[Note | Answer]:
        for _ in range(5):
            await asyncio.sleep(0.1)
            yield Note(uid)
        yield Answer(uid, uid + 1)


TROUBLE = ("raise", "hang", "cancel", "flood", "trickle", "nonsense")
