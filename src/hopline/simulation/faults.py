"""The faults of a simulation."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from hopline.cluster.messages.service import REGISTER_ROUTE, registration, service_message
from hopline.message import MessageIdentifier, payload_type
from hopline.routing import Route
from hopline.simulation.actors import Ask, Middle, News, Note, Poke, Start
from hopline.simulation.invariants import NodeInvariants
from hopline.simulation.machine import Machine
from hopline.simulation.network import Host, NetworkConditions, VirtualNetwork
from hopline.simulation.server import SimulatedServer


class Faults:
    """Injects crashes, partitions, bad conditions, clock jumps, pauses, removed actors and false routes."""

    def __init__(
        self,
        network: VirtualNetwork,
        machines: list[Machine],
        servers: list[SimulatedServer],
        invariants: NodeInvariants,
        random: Random,
        log: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._network = network
        self._machines = machines
        self._servers = servers
        machine_hosts = [machine.host for machine in machines]
        server_hosts = [server.host for server in servers]
        self._hosts: list[Host] = machine_hosts + server_hosts
        self._invariants = invariants
        self._random = random
        self._log = log

    async def inject(self, until: float) -> None:
        """Inject one fault after the other until a time."""
        while self._network.loop.time() < until:
            await asyncio.sleep(self._random.expovariate(2))
            choice = self._random.random()
            if choice < 0.5:
                await self._harm_machine()
            elif choice < 0.75:
                await self._harm_server()
            else:
                partition = self._random.choice((self._cut, self._isolate))
                self._count(partition.__name__, "")
                await partition()

    async def _harm_machine(self) -> None:
        faults: tuple[Callable[[Machine], Awaitable[None]], ...] = (
            self._change_conditions,
            self._crash,
            self._restart,
            self._jump_clock,
            self._swap_actor,
            self._forget_node,
            self._announce_false_route,
            self._pause,
        )
        machine = self._random.choice(self._machines)
        fault = self._random.choice(faults)
        if machine.is_up and not machine.is_paused:
            self._count(fault.__name__, machine.name)
            await fault(machine)

    async def _harm_server(self) -> None:
        faults: tuple[Callable[[SimulatedServer], Awaitable[None]], ...] = (
            self._crash_servers,
            self._crash_other_servers,
            self._hold_up_server,
            self._change_clock_offset,
        )
        server = self._random.choice(self._servers)
        fault = self._random.choice(faults)
        if server.is_up:
            self._count(fault.__name__, server.name)
            await fault(server)

    def _count(self, fault: str, subject: str) -> None:
        self.counts[fault.strip("_")] += 1
        self._log(f"{subject} {fault}")

    async def end(self) -> None:
        """Undo all faults."""
        self._network.conditions = NetworkConditions()
        self._network.mend()
        for server in self._servers:
            if server.host.is_held_up:
                self._network.let_go(server.host)
            if not server.is_up:
                await self.start_server(server)
        for machine in self._machines:
            if machine.is_paused:
                machine.resume()
            if not machine.is_up:
                await self.start(machine)

    async def start(self, machine: Machine) -> None:
        """Start a machine."""
        await machine.start()
        identity = machine.identity.decode()
        self._log(f"{machine.name} up as {identity} at {machine.node.uri}")

    async def start_server(self, server: SimulatedServer) -> None:
        """Start a server."""
        await server.start()
        self._log(f"{server.name} up")

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    async def _sleep_any_of(self, *seconds: float) -> None:
        await asyncio.sleep(self._random.choice(seconds))

    # -- the network ---------------------------------------------------------------------------------------------------

    async def _change_conditions(self, _: Machine) -> None:
        random = self._random
        self._network.conditions = NetworkConditions(
            drop=random.choice((0.0, 0.1, 0.5)),
            duplicate=random.choice((0.0, 0.1, 0.5)),
            latency=random.choice((0.0, 0.001, 0.1)),
            jitter=random.choice((0.0, 0.01, 1.0)),
        )

    async def _cut(self) -> None:
        """Cut two hosts off from each other for a while."""
        if len(self._hosts) < 2:
            return
        host, other = self._random.sample(self._hosts, 2)
        self._log(f"{host.name} and {other.name} cannot reach each other")
        await self._cut_for_a_while([(host, other)])

    async def _isolate(self) -> None:
        """Cut one host, or half of them, off from all others for a while."""
        half = len(self._hosts) // 2
        count = self._random.choice((1, half))
        isolated = self._random.sample(self._hosts, count)
        others = [host for host in self._hosts if host not in isolated]
        pairs = list(itertools.product(isolated, others))
        names = " and ".join(host.name for host in isolated)
        self._log(f"{names} cannot reach the others")
        await self._cut_for_a_while(pairs)

    async def _cut_for_a_while(self, pairs: list[tuple[Host, Host]]) -> None:
        for host, other in pairs:
            self._network.cut(host, other)
        await self._sleep_any_of(0.1, 1.0, 4.0)
        for host, other in pairs:
            self._network.mend(host, other)

    # -- servers -------------------------------------------------------------------------------------------------------

    async def _crash_servers(self, server: SimulatedServer) -> None:
        """Crash a server, and perhaps others with it, as when the power fails."""
        others = [other for other in self._servers if other is not server]
        affected = [other for other in others if self._happens(0.4)]
        await self._crash_together([server, *affected])

    async def _crash_other_servers(self, server: SimulatedServer) -> None:
        """Cut a server off from the others and crash those, so that they have forgotten its lease."""
        others = [other for other in self._servers if other is not server]
        for other in others:
            self._network.cut(server.host, other.host)
        await self._crash_together(others)
        await self._sleep_any_of(1.0, 3.0)
        for other in others:
            self._network.mend(server.host, other.host)

    async def _crash_together(self, servers: list[SimulatedServer]) -> None:
        crashing = [server for server in servers if server.is_up]
        for server in crashing:
            await server.crash(is_noticed=self._happens(0.5))
        await self._sleep_any_of(0.0, 0.1, 1.0, 3.0)
        for server in crashing:
            if not server.is_up:
                await self.start_server(server)

    async def _hold_up_server(self, server: SimulatedServer) -> None:
        self._network.hold_up(server.host)
        await self._sleep_any_of(0.1, 1.0, 3.0)
        self._network.let_go(server.host)

    async def _change_clock_offset(self, server: SimulatedServer) -> None:
        server.change_clock_offset()

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def _crash(self, machine: Machine) -> None:
        await machine.crash(is_noticed=self._happens(0.5))
        await self._sleep_any_of(0.0, 0.3, 2.0, 5.0)
        machine.replace_node(
            has_new_address=self._happens(0.3),
            has_new_identity=self._happens(0.5),
        )
        await self.start(machine)

    async def _restart(self, machine: Machine) -> None:
        await machine.shut_down()
        await self.start(machine)

    async def _pause(self, machine: Machine) -> None:
        machine.pause()
        await self._sleep_any_of(0.2, 2.0, 4.0)
        if self._happens(0.5):
            machine.resume_clock()
            await asyncio.sleep(0.2)
        machine.resume()

    async def _jump_clock(self, machine: Machine) -> None:
        seconds = self._random.choice((0.01, 1.0, 60.0))
        machine.jump_clock(seconds)

    async def _swap_actor(self, machine: Machine) -> None:
        """Remove an actor, and sometimes add it again."""
        if not machine.node.actors:
            return
        actor = self._random.choice(machine.node.actors)
        self._invariants.actor_removed(actor.identity)
        drain_time = self._random.choice((0.0, 0.3))
        await machine.node.remove(actor, drain_time)
        if self._happens(0.7):
            await self._sleep_any_of(0.0, 0.5)
            self._invariants.actor_added(actor.identity)
            machine.node.add(actor)

    async def _forget_node(self, machine: Machine) -> None:
        """Let a machine remove a node that still runs."""
        other = self._random.choice(self._machines)
        machine.membership.remove_node(other.identity)

    async def _announce_false_route(self, machine: Machine) -> None:
        """Announce to two machines that the other handles a message, or to one a node that does not exist."""
        other = self._random.choice(self._machines)
        if other is machine or not other.is_up:
            return
        payload = self._random.choice((Ask, Start, Middle, Note, News, Poke))
        kind = payload_type(payload).identifier
        if self._happens(0.3):
            ghost = b"ghost of " + other.identity
            now = self._network.loop.time()
            self._invariants.node_stopped(ghost, now, other.cluster.heartbeat_interval)
            _announce(machine, other, ghost, kind)
        else:
            _announce(machine, other, other.identity, kind)
            _announce(other, machine, machine.identity, kind)


def _announce(receiver: Machine, subject: Machine, node: bytes, kind: MessageIdentifier) -> None:
    """Announce to a machine that a node at the address of another one handles a message."""
    address = subject.membership.me
    interval = subject.cluster.heartbeat_interval
    route = Route(b"\x01rumour", kind)
    content = registration(address.uri, node, address.health_uri, interval, [route])
    receiver.membership.receive(service_message(REGISTER_ROUTE, content))
