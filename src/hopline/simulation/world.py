"""One simulated world, made from a seed: machines, callers, faults, and someone who watches."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec

from hopline.message import Message
from hopline.simulation.callers import Callers
from hopline.simulation.directory import Directory
from hopline.simulation.faults import Faults
from hopline.simulation.loop import VirtualLoop
from hopline.simulation.machine import Machine
from hopline.simulation.network import Network, Traffic
from hopline.simulation.watch import Watch

BUSY_SECONDS = 8.0  # virtual time with callers and faults
QUIET_SECONDS = 40.0  # virtual time for everything to end
CALLERS_A_MACHINE = 3
FAULTS_AT_ONCE = 2


class Report(msgspec.Struct, frozen=True):
    """What happened in a simulated world. The same seed gives the same report, fingerprint included."""

    seed: int
    machines: int
    steps: int
    calls: dict[str, int]  # how the callers fared
    outcomes: dict[str, int]
    traffic: Traffic
    faults: dict[str, int]
    fingerprint: str


UNWATCHED = 1  # the machine without a hook for outcomes: what nobody looks at goes a shorter way


class World:
    """Everything that happens in one simulation."""

    def __init__(self, seed: int, loop: VirtualLoop, trace: Callable[[str], None] | None = None) -> None:
        def chance(what: str) -> Random:
            return Random(f"{seed}/{what}")  # noqa: S311 - chance, not secrets

        self._seed = seed
        self._loop = loop
        self._trace = trace
        self._history = hashlib.sha256()
        shape = chance("shape")
        hop_limit = shape.choice((1, 2, 4))
        self._watch = Watch(hop_limit)
        self._network = Network(loop, chance("network"), link_capacity=shape.choice((1, 5, 1000)))
        self._network.on_sent = self._sent
        directory = Directory(self._network, chance("gossip"))
        self._machines = directory.machines
        self._machines += [
            Machine(f"m{number}", self._network, self._watch, shape, hop_limit, directory.look_for, number != UNWATCHED)
            for number in range(shape.randint(1, 5))
        ]
        self._by_identity = {machine.identity: machine for machine in self._machines}
        self._callers = Callers(self._machines, chance("work"), self.note)
        self._faults = Faults(self._network, directory, self._watch, chance("faults"), self.note)

    def note(self, what: str) -> None:
        """Write history: it is what replays are compared by."""
        line = f"{self._loop.time():.6f} {what}"
        self._history.update(line.encode() + b"\n")
        if self._trace is not None:
            self._trace(line)

    async def run(self) -> Report:
        """Live through it all: busy and bad times, then quiet ones, then the end, when nothing may be left."""
        self._loop.set_exception_handler(self._unexpected_error)
        for machine in self._machines:
            await self._faults.start(machine)
        self._loop.check_after_every_step(lambda: self._watch.check(machine.node for machine in self._machines))
        async with asyncio.TaskGroup() as group:
            for _ in range(FAULTS_AT_ONCE):
                group.create_task(self._faults.happen(BUSY_SECONDS))
            for machine in self._machines * CALLERS_A_MACHINE:
                group.create_task(self._callers.call_from(machine, BUSY_SECONDS))
        await self._faults.end()
        await asyncio.sleep(QUIET_SECONDS)
        await self._callers.expect_to_be_served()
        await asyncio.sleep(QUIET_SECONDS)
        self._watch.expect_nothing_left(machine.node for machine in self._machines)
        for machine in self._machines:
            await machine.shut_down()
        self._loop.check_after_every_step(None)
        self._watch.check(machine.node for machine in self._machines)
        return Report(
            seed=self._seed,
            machines=len(self._machines),
            steps=self._watch.steps,
            calls=dict(sorted(self._callers.fared.items())),
            outcomes={outcome.value: count for outcome, count in sorted(self._watch.endings.items())},
            traffic=self._network.traffic,
            faults=dict(sorted(self._faults.happened.items())),
            fingerprint=self._history.hexdigest(),
        )

    def _sent(self, node: bytes, message: Message) -> None:
        self._watch.sent(node, message, self._by_identity[node].clock())

    def _unexpected_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._watch.note(f"{context['message']}: {context.get('exception')!r}")


def simulate(seed: int, trace: Callable[[str], None] | None = None) -> Report:
    """Live through the world of a seed. Raises `Violation` when something happened that must not."""
    loop = VirtualLoop()
    with _quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(World(seed, loop, trace).run())
        finally:
            loop.check_after_every_step(None)


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keep the nodes from logging what the simulation does to them."""
    log = logging.getLogger("hopline")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
