"""One simulated world, made from a seed: machines, callers, faults, and someone who watches."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from hopline.cluster import LeaseSettings
from hopline.message import Message
from hopline.simulation.callers import Callers
from hopline.simulation.cluster_watch import ClusterWatch
from hopline.simulation.faults import Faults
from hopline.simulation.loop import VirtualLoop, quiet_logs
from hopline.simulation.machine import Machine
from hopline.simulation.network import Host, Network, Traffic
from hopline.simulation.server import Server, SynodShape
from hopline.simulation.watch import Watch

BUSY_SECONDS = 8.0  # virtual time with callers and faults
CALM_SECONDS = 18.0  # virtual time after which everybody must agree again
QUIET_SECONDS = 7.0  # virtual time for everything to end
CALLERS_A_MACHINE = 2
FAULTS_AT_ONCE = 2
LOOK = 0.05  # virtual time between looks at everything


class Report(msgspec.Struct, frozen=True):
    """What happened in a simulated world. The same seed gives the same report, fingerprint included."""

    seed: int
    machines: int
    servers: int
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
        self._look_at = 0.0
        self._history = hashlib.sha256()
        shape = chance("shape")
        hop_limit = shape.choice((1, 2, 4))
        self._watch = Watch(hop_limit)
        self._network = Network(loop, chance("network"), link_capacity=shape.choice((1, 5, 1000)))
        self._network.on_sent = self._sent
        self._network.on_arrived = self._arrived
        lease = LeaseSettings(max_lease=shape.choice((1.5, 3.0)), clock_drift=shape.choice((0.0, 0.1, 0.3)))
        synod = SynodShape(shape.choices((1, 3, 5), (3, 6, 1))[0], lease)
        self._servers = [
            Server(number, synod, self._network, chance(f"server {number}")) for number in range(synod.count)
        ]
        self._machines = [
            Machine(
                f"m{number}",
                self._network,
                self._watch,
                shape,
                hop_limit,
                synod.addresses,
                has_hook=number != UNWATCHED,
            )
            for number in range(shape.randint(1, 5))
        ]
        self._by_host = {machine.host: machine for machine in self._machines}
        self._cluster_watch = ClusterWatch(loop, self._machines, self._servers, self._watch)
        self._network.on_news = self._cluster_watch.heard
        self._callers = Callers(self._machines, chance("work"), self.note)
        self._faults = Faults(self._network, self._machines, self._servers, self._watch, chance("faults"), self.note)

    def note(self, what: str) -> None:
        """Write history: it is what replays are compared by."""
        line = f"{self._loop.time():.6f} {what}"
        self._history.update(line.encode() + b"\n")
        if self._trace is not None:
            self._trace(line)

    async def run(self) -> Report:
        """Live through it all: busy and bad times, then quiet ones, then the end, when nothing may be left."""
        self._loop.set_exception_handler(self._unexpected_error)
        for server in self._servers:
            await self._faults.start_server(server)
        for machine in self._machines:
            await self._faults.start(machine)
        self._loop.check_after_every_step(self._check)
        until = self._loop.time() + BUSY_SECONDS
        async with asyncio.TaskGroup() as group:
            for _ in range(FAULTS_AT_ONCE):
                group.create_task(self._faults.happen(until))
            for machine in self._machines * CALLERS_A_MACHINE:
                group.create_task(self._callers.call_from(machine, until))
        await self._faults.end()
        self.note("all is well")
        await asyncio.sleep(CALM_SECONDS)
        self._cluster_watch.expect_agreement()
        await self._callers.expect_to_be_served()
        await self._callers.expect_room()
        await self._callers.expect_to_be_found()
        await asyncio.sleep(QUIET_SECONDS)
        self._watch.expect_nothing_left(machine.node for machine in self._machines)
        for machine in self._machines:
            await machine.shut_down()
        for server in self._servers:
            await server.crash(is_noticed=True)
        self._loop.check_after_every_step(None)
        self._watch.check()
        self._watch.check_balance(machine.node for machine in self._machines)
        return Report(
            seed=self._seed,
            machines=len(self._machines),
            servers=len(self._servers),
            steps=self._watch.steps,
            calls=dict(sorted(self._callers.fared.items())),
            outcomes={outcome.value: count for outcome, count in sorted(self._watch.endings.items())},
            traffic=self._network.traffic,
            faults=dict(sorted(self._faults.happened.items())),
            fingerprint=self._history.hexdigest(),
        )

    def _check(self) -> None:
        """Check what must hold after a step; less often what, once it is wrong, stays wrong for a while."""
        self._watch.check()
        self._cluster_watch.check()
        if self._loop.time() >= self._look_at:
            self._look_at = self._loop.time() + LOOK
            self._cluster_watch.expect_no_dead()
            self._watch.check_balance(machine.node for machine in self._machines)

    def _sent(self, host: Host, message: Message) -> None:
        machine = self._by_host[host]
        self._watch.sent(machine.identity, message, machine.clock())

    def _arrived(self, host: Host, message: Message) -> None:
        self._by_host[host].received(message)

    def _unexpected_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._watch.note(f"{context['message']}: {context.get('exception')!r}")


def simulate(seed: int, trace: Callable[[str], None] | None = None) -> Report:
    """Live through the world of a seed. Raises `Violation` when something happened that must not."""
    loop = VirtualLoop()
    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(World(seed, loop, trace).run())
        finally:
            loop.check_after_every_step(None)
