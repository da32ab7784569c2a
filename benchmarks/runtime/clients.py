"""Clients for actors whose answers are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from benchmarks.runtime.contender import TEXT, Answer, check

Ask = Callable[[int, str], Awaitable[Answer]]


async def one_after_the_other(ask: Ask, requests: int) -> list[float]:
    """Time every request by itself."""
    seconds, answers = [], []
    for number in range(requests):
        started = perf_counter()
        answer = await ask(number, TEXT)
        seconds.append(perf_counter() - started)
        answers.append(answer)
    check(answers, range(requests))
    return seconds


async def many_in_flight(ask: Ask, requests: int, in_flight: int) -> float:
    """Time all requests together, asked by so many clients that each wait for their answer before they ask again."""
    numbers = iter(range(requests))
    answers: list[Answer] = []

    async def client() -> None:
        for number in numbers:  # the clients share them: whoever is free takes the next
            answers.append(await ask(number, TEXT))  # noqa: PERF401

    started = perf_counter()
    await asyncio.gather(*[client() for _ in range(in_flight)])
    seconds = perf_counter() - started
    check(answers, range(requests))
    return seconds
