"""The floor: tasks that read one asyncio.Queue and write another, with nothing around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from benchmarks.runtime.contender import TEXT, Answer, check, work
from benchmarks.runtime.memory import bytes_each

Requests = asyncio.Queue[tuple[int, str]]
Answers = asyncio.Queue[Answer]


async def _worker(requests: Requests, answers: Answers) -> None:
    while True:
        number, text = await requests.get()
        answers.put_nowait(work(number, text))


@asynccontextmanager
async def started(workers: int) -> AsyncIterator[tuple[list[Requests], Answers]]:
    """Start workers with a queue each; their answers come in one."""
    answers: Answers = asyncio.Queue()
    queues: list[Requests] = [asyncio.Queue() for _ in range(workers)]
    tasks = [asyncio.create_task(_worker(requests, answers)) for requests in queues]
    try:
        yield queues, answers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class BareQueues:
    """What asyncio itself costs: no addresses, no correlation, no errors, no way to stop but to cancel."""

    name = "bare queues"
    idle_actors = 10_000

    async def sequential(self, requests: int) -> list[float]:
        """Put a request, get the answer."""
        seconds, received = [], []
        async with started(1) as ([queue], answers):
            for number in range(requests):
                asked = perf_counter()
                queue.put_nowait((number, TEXT))
                answer = await answers.get()
                seconds.append(perf_counter() - asked)
                received.append(answer)
        check(received, range(requests))
        return seconds

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Put the first requests, then one more for every answer."""
        received = []
        async with started(1) as ([queue], answers):
            asked = perf_counter()
            for number in range(in_flight):
                queue.put_nowait((number, TEXT))
            for number in range(in_flight, requests):
                received.append(await answers.get())
                queue.put_nowait((number, TEXT))
            for _ in range(in_flight):
                received.append(await answers.get())  # noqa: PERF401
            seconds = perf_counter() - asked
        check(received, range(requests))
        return seconds

    async def fan_out(self, actors: int, rounds: int) -> list[float]:
        """Put the request into every queue, get as many answers."""
        seconds = []
        async with started(actors) as (queues, answers):
            for number in range(rounds):
                asked = perf_counter()
                for queue in queues:
                    queue.put_nowait((number, TEXT))
                received = [await answers.get() for _ in queues]
                seconds.append(perf_counter() - asked)
                check(received, [number] * actors)
        return seconds

    def idle_memory(self, actors: int) -> float:
        """Count a task and its queue."""
        return bytes_each(started, actors)
