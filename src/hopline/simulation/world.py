"""One simulated world, made from a seed: machines, servers, callers, faults and invariants.

A run has four phases: callers and faults at the same time; then no faults, until all nodes must agree again; then
checked calls; then nothing, until nothing may be left. The invariants are checked after every step of the event loop.

Everything is derived from the seed, and time is virtual, so a run can be replayed exactly. Its fingerprint is the hash
of everything that was logged.
"""

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
from hopline.simulation.cluster_invariants import ClusterInvariants
from hopline.simulation.faults import Faults
from hopline.simulation.invariants import NodeInvariants
from hopline.simulation.loop import VirtualLoop, quiet_logs
from hopline.simulation.machine import Machine
from hopline.simulation.network import DeliveryCounts, Host, VirtualNetwork
from hopline.simulation.server import SimulatedServer, SynodShape

BUSY_SECONDS = 8.0  # of virtual time with callers and faults
CALM_SECONDS = 18.0  # after the faults, until all nodes must agree again
QUIET_SECONDS = 7.0  # after the last call, until nothing may be left
CALLERS_A_MACHINE = 2
FAULTS_AT_ONCE = 2
CHECK_SECONDS = 0.05  # between checks of invariants that stay violated for a while


class Report(msgspec.Struct, frozen=True):
    """What happened in a simulated world. The same seed gives the same report, including the fingerprint."""

    seed: int
    machines: int
    servers: int
    steps: int
    calls: dict[str, int]  # by result
    outcomes: dict[str, int]
    traffic: DeliveryCounts
    faults: dict[str, int]
    fingerprint: str


WITHOUT_HOOK = 1  # the machine whose outcomes are not observed: it takes shorter paths


class World:
    """One simulation."""

    def __init__(self, seed: int, loop: VirtualLoop, trace: Callable[[str], None] | None = None) -> None:
        def random_for(purpose: str) -> Random:
            return Random(f"{seed}/{purpose}")  # noqa: S311 - not for secrets

        self._seed = seed
        self._loop = loop
        self._trace = trace
        self._check_at = 0.0
        self._history = hashlib.sha256()
        shape = random_for("shape")
        hop_limit = shape.choice((1, 2, 4))
        self._invariants = NodeInvariants(hop_limit)
        link_capacity = shape.choice((1, 5, 1000))
        self._network = VirtualNetwork(loop, random_for("network"), link_capacity)
        self._network.on_sent = self._sent
        self._network.on_arrived = self._arrived
        lease = LeaseSettings(
            max_lease=shape.choice((1.5, 3.0)),
            clock_drift=shape.choice((0.0, 0.1, 0.3)),
        )
        (server_count,) = shape.choices((1, 3, 5), weights=(3, 6, 1))
        synod = SynodShape(server_count, lease)
        self._servers = []
        for number in range(server_count):
            random = random_for(f"server {number}")
            server = SimulatedServer(number, synod, self._network, random)
            self._servers.append(server)
        self._machines = []
        for number in range(shape.randint(1, 5)):
            machine = Machine(
                f"m{number}",
                self._network,
                self._invariants,
                shape,
                hop_limit,
                synod.addresses,
                has_hook=number != WITHOUT_HOOK,
            )
            self._machines.append(machine)
        self._by_host = {machine.host: machine for machine in self._machines}
        self._cluster_invariants = ClusterInvariants(
            loop,
            self._machines,
            self._servers,
            self._invariants,
        )
        self._network.on_control_message = self._cluster_invariants.on_control_message
        self._callers = Callers(self._machines, random_for("work"), self.log)
        self._faults = Faults(
            self._network,
            self._machines,
            self._servers,
            self._invariants,
            random_for("faults"),
            self.log,
        )

    def log(self, event: str) -> None:
        """Add an event to the history, by which replays are compared."""
        now = self._loop.time()
        line = f"{now:.6f} {event}"
        self._history.update(line.encode() + b"\n")
        if self._trace is not None:
            self._trace(line)

    async def run(self) -> Report:
        """Run all phases.

        Raises:
            Violation: An invariant does not hold.
        """
        self._loop.set_exception_handler(self._unexpected_error)
        for server in self._servers:
            await self._faults.start_server(server)
        for machine in self._machines:
            await self._faults.start(machine)
        self._loop.check_after_every_step(self._check)
        until = self._loop.time() + BUSY_SECONDS
        async with asyncio.TaskGroup() as group:
            for _ in range(FAULTS_AT_ONCE):
                group.create_task(self._faults.inject(until))
            for machine in self._machines * CALLERS_A_MACHINE:
                group.create_task(self._callers.call_from(machine, until))
        await self._faults.end()
        self.log("no more faults")
        await asyncio.sleep(CALM_SECONDS)
        self._cluster_invariants.check_agreement()
        await self._callers.check_calls()
        await self._callers.check_backpressure()
        await self._callers.check_discovery()
        await asyncio.sleep(QUIET_SECONDS)
        self._invariants.check_idle(machine.node for machine in self._machines)
        for machine in self._machines:
            await machine.shut_down()
        for server in self._servers:
            await server.crash(is_noticed=True)
        self._loop.check_after_every_step(None)
        self._invariants.check()
        self._check_balance()
        return self._report()

    def _report(self) -> Report:
        calls = self._callers.results
        outcomes = self._invariants.outcomes
        faults = self._faults.counts
        return Report(
            seed=self._seed,
            machines=len(self._machines),
            servers=len(self._servers),
            steps=self._invariants.steps,
            calls=dict(sorted(calls.items())),
            outcomes={outcome.value: outcomes[outcome] for outcome in sorted(outcomes)},
            traffic=self._network.traffic,
            faults=dict(sorted(faults.items())),
            fingerprint=self._history.hexdigest(),
        )

    def _check(self) -> None:
        """Check the invariants after a step; less often those that stay violated for a while."""
        self._invariants.check()
        self._cluster_invariants.check_leader()
        now = self._loop.time()
        if now >= self._check_at:
            self._check_at = now + CHECK_SECONDS
            self._cluster_invariants.check_dead_removed()
            self._check_balance()

    def _check_balance(self) -> None:
        self._invariants.check_balance(machine.node for machine in self._machines)

    def _sent(self, host: Host, message: Message) -> None:
        machine = self._by_host[host]
        self._invariants.sent(machine.identity, message, machine.clock())

    def _arrived(self, host: Host, message: Message) -> None:
        self._by_host[host].received(message)

    def _unexpected_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        text = context["message"]
        error = context.get("exception")
        self._invariants.report(f"{text}: {error!r}")


def simulate(seed: int, trace: Callable[[str], None] | None = None) -> Report:
    """Simulate the world of a seed.

    Args:
        seed: The seed.
        trace: Called with every line of the history.

    Raises:
        Violation: An invariant does not hold.
    """
    loop = VirtualLoop()
    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            world = World(seed, loop, trace)
            return runner.run(world.run())
        finally:
            loop.check_after_every_step(None)
