"""Pykka: an actor is a thread with an inbox, an answer is a future that blocks whoever gets it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import pykka

from benchmarks.runtime.contender import TEXT, Answer, check, work
from benchmarks.runtime.memory import bytes_each


class Worker(pykka.ThreadingActor):
    """Answers every request."""

    def on_receive(self, message: tuple[int, str]) -> Answer:
        """Answer one."""
        return work(*message)


@asynccontextmanager
async def started(actors: int) -> AsyncIterator[list[Any]]:
    """Start actors, and see their threads end."""
    others = set(threading.enumerate())
    refs = [Worker.start() for _ in range(actors)]
    try:
        yield refs
    finally:
        pykka.get_all([ref.stop(block=False) for ref in refs])
        for thread in set(threading.enumerate()) - others:  # an actor says that it stopped before its thread has
            thread.join()


class Pykka:
    """Threads all the way: blocking the event loop here is fair, as nothing else runs in it."""

    name = "Pykka"
    idle_actors = 1_000  # each is a thread, and many machines refuse ten thousand

    async def sequential(self, requests: int) -> list[float]:
        """Ask and block."""
        seconds, answers = [], []
        async with started(1) as [ref]:
            for number in range(requests):
                asked = perf_counter()
                answer = ref.ask((number, TEXT))
                seconds.append(perf_counter() - asked)
                answers.append(answer)
        check(answers, range(requests))
        return seconds

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Ask for a batch of futures, then get them: faster than to replace each future as it comes in."""
        answers: list[Answer] = []
        async with started(1) as [ref]:
            asked = perf_counter()
            for first in range(0, requests, in_flight):
                batch = range(first, min(first + in_flight, requests))
                answers += pykka.get_all([ref.ask((number, TEXT), block=False) for number in batch])
            seconds = perf_counter() - asked
        check(answers, range(requests))
        return seconds

    async def fan_out(self, actors: int, rounds: int) -> list[float]:
        """Ask every actor for a future, then get them."""
        seconds = []
        async with started(actors) as refs:
            for number in range(rounds):
                asked = perf_counter()
                answers = pykka.get_all([ref.ask((number, TEXT), block=False) for ref in refs])
                seconds.append(perf_counter() - asked)
                check(answers, [number] * actors)
        return seconds

    def idle_memory(self, actors: int) -> float:
        """Count a thread and its inbox."""
        return bytes_each(started, actors)
