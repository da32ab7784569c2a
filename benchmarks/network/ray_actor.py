"""Ray: one actor in a worker process of a local cluster, called from the driver."""

from __future__ import annotations

import contextlib
import os
from time import perf_counter
from typing import Any

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of GPUs that are not there
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray

from benchmarks.network.contender import Addresses, Channel, Options, check
from benchmarks.network.measuring import carry_out_orders

OBJECT_STORE = 200 * 1024 * 1024
AT_ONCE = 100  # answers that are fetched together, which costs less than one by one


class Echo:
    """Answers every request with its body, and counts the notes."""

    def __init__(self) -> None:
        self._notes = 0

    def answer(self, body: bytes) -> bytes:
        """Answer one."""
        return body

    def note(self, body: bytes) -> None:  # noqa: ARG002
        """Count one."""
        self._notes += 1

    def count(self) -> int:
        """Tell how many came since this was asked last."""
        count, self._notes = self._notes, 0
        return count


def client(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - Ray starts the others
    """Be the driver."""
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=OBJECT_STORE,
    )
    try:
        actor = ray.remote(Echo).remote()
        ray.get(actor.count.remote())
        channel.send("")
        with contextlib.suppress(EOFError):
            carry_out_orders(channel, RayClient(actor))
    finally:
        ray.shutdown()


class RayClient:
    """Calls whose results are references, fetched when they are wanted."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def sequential(self, body: bytes, seconds: float) -> list[float]:
        """Call and fetch."""
        answer = self._actor.answer
        latencies = []
        asked = perf_counter()
        until = asked + seconds
        while asked < until:
            told = ray.get(answer.remote(body))
            latencies.append(perf_counter() - asked)
            check(len(told), len(body), "bytes came back")
            asked = perf_counter()
        return latencies

    def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Keep a window of references, and replace the oldest together."""
        answer = self._actor.answer
        started = perf_counter()
        until = started + seconds
        window = [answer.remote(body) for _ in range(in_flight)]
        answered = 0
        while window:
            oldest, window = window[:AT_ONCE], window[AT_ONCE:]
            told = ray.get(oldest)
            check(sum(map(len, told)), len(body) * len(oldest), "bytes came back")
            answered += len(told)
            if perf_counter() < until:
                window += [answer.remote(body) for _ in oldest]
        return answered, perf_counter() - started

    def one_way(self, body: bytes, seconds: float) -> tuple[int, float]:
        """Drop the references; calls of one driver run in order."""
        note, count = self._actor.note, self._actor.count
        ray.get(count.remote())
        started = perf_counter()
        until = started + seconds
        sent = 0
        while perf_counter() < until:
            note.remote(body)
            sent += 1
        check(ray.get(count.remote()), sent, "messages arrived")
        return sent, perf_counter() - started
