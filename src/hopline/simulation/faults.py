"""What goes wrong in a simulation."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from hopline.cluster.service import REGISTER_ROUTE, registration, service_message
from hopline.message import MessageIdentifier, payload_type
from hopline.routing import Route
from hopline.simulation.actors import Ask, Middle, News, Note, Poke, Start
from hopline.simulation.machine import Machine
from hopline.simulation.network import Host, Network, Weather
from hopline.simulation.server import Server
from hopline.simulation.watch import Watch


class Faults:
    """Crashes, cuts, bad weather, clocks that leap or wander, pauses, actors that go and rumours that are not true."""

    def __init__(
        self,
        network: Network,
        machines: list[Machine],
        servers: list[Server],
        watch: Watch,
        random: Random,
        note: Callable[[str], None],
    ) -> None:
        self.happened: Counter[str] = Counter()
        self._network = network
        self._machines = machines
        self._servers = servers
        self._hosts: list[Host] = [*(one.host for one in machines), *(one.host for one in servers)]
        self._watch = watch
        self._random = random
        self._note_down = note

    async def happen(self, until: float) -> None:
        """Let one thing after the other go wrong, until a time."""
        to_nodes: tuple[Callable[[Machine], Awaitable[None]], ...] = (
            self._change_weather,
            self._crash,
            self._restart_in_order,
            self._jump,
            self._swap_actor,
            self._forget_someone,
            self._spread_rumour,
            self._pause,
        )
        to_servers: tuple[Callable[[Server], Awaitable[None]], ...] = (
            self._crash_servers,
            self._crash_servers_behind,
            self._hold_server_up,
            self._let_clock_wander,
        )
        while self._network.loop.time() < until:
            await asyncio.sleep(self._random.expovariate(2))
            which = self._random.random()
            if which < 0.5:
                machine = self._random.choice(self._machines)
                fault = self._random.choice(to_nodes)
                if machine.is_up and not machine.is_paused:
                    self._note(fault.__name__, machine.name)
                    await fault(machine)
            elif which < 0.75:
                server = self._random.choice(self._servers)
                harm = self._random.choice(to_servers)
                if server.is_up:
                    self._note(harm.__name__, server.name)
                    await harm(server)
            else:
                cut = self._random.choice((self._cut, self._isolate))
                self._note(cut.__name__, "")
                await cut()

    def _note(self, fault: str, whom: str) -> None:
        self.happened[fault.strip("_")] += 1
        self._note_down(f"{whom} {fault}")

    async def end(self) -> None:
        """Make everything well again."""
        self._network.weather = Weather()
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
        """Let a machine come up."""
        await machine.start()
        self._note_down(f"{machine.name} up as {machine.identity.decode()} at {machine.node.uri}")

    async def start_server(self, server: Server) -> None:
        """Let a server come up."""
        await server.start()
        self._note_down(f"{server.name} up")

    # -- the network ---------------------------------------------------------------------------------------------------

    async def _change_weather(self, _: Machine) -> None:
        random = self._random
        self._network.weather = Weather(
            drop=random.choice((0.0, 0.1, 0.5)),
            duplicate=random.choice((0.0, 0.1, 0.5)),
            latency=random.choice((0.0, 0.001, 0.1)),
            jitter=random.choice((0.0, 0.01, 1.0)),
        )

    async def _cut(self) -> None:
        """Cut the way between two hosts for a while."""
        if len(self._hosts) > 1:
            one, other = self._random.sample(self._hosts, 2)
            self._note_down(f"{one.name} and {other.name} cannot reach each other")
            self._network.cut(one, other)
            await asyncio.sleep(self._random.choice((0.1, 1.0, 4.0)))
            self._network.mend(one, other)

    async def _isolate(self) -> None:
        """Cut some hosts off from all others for a while: neither side is alone, or only one host is."""
        inside = self._random.sample(self._hosts, self._random.choice((1, len(self._hosts) // 2)))
        cuts = [(one, other) for one in inside for other in self._hosts if other not in inside]
        self._note_down(f"{' and '.join(host.name for host in inside)} cannot reach the others")
        for cut in cuts:
            self._network.cut(*cut)
        await asyncio.sleep(self._random.choice((0.1, 1.0, 4.0)))
        for cut in cuts:
            self._network.mend(*cut)

    # -- servers -------------------------------------------------------------------------------------------------------

    async def _crash_servers(self, server: Server) -> None:
        """Let a server crash, and perhaps others with it, as when the power fails."""
        others = [other for other in self._servers if other is not server]
        await self._crash_together([server, *(other for other in others if self._random.random() < 0.4)])

    async def _crash_servers_behind(self, server: Server) -> None:
        """Cut a server off from the others, which crash and have forgotten everything when they come back."""
        others = [other for other in self._servers if other is not server]
        for other in others:
            self._network.cut(server.host, other.host)
        await self._crash_together(others)
        await asyncio.sleep(self._random.choice((1.0, 3.0)))
        for other in others:
            self._network.mend(server.host, other.host)

    async def _crash_together(self, servers: list[Server]) -> None:
        crashing = [server for server in servers if server.is_up]
        for server in crashing:
            await server.crash(is_noticed=self._random.random() < 0.5)
        await asyncio.sleep(self._random.choice((0.0, 0.1, 1.0, 3.0)))
        for server in crashing:
            if not server.is_up:
                await self.start_server(server)

    async def _hold_server_up(self, server: Server) -> None:
        self._network.hold_up(server.host)
        await asyncio.sleep(self._random.choice((0.1, 1.0, 3.0)))
        self._network.let_go(server.host)

    async def _let_clock_wander(self, server: Server) -> None:
        server.wander()

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def _crash(self, machine: Machine) -> None:
        await machine.crash(is_noticed=self._random.random() < 0.5)
        await asyncio.sleep(self._random.choice((0.0, 0.3, 2.0, 5.0)))
        machine.be_reborn(elsewhere=self._random.random() < 0.3, as_another=self._random.random() < 0.5)
        await self.start(machine)

    async def _restart_in_order(self, machine: Machine) -> None:
        await machine.shut_down()
        await self.start(machine)

    async def _pause(self, machine: Machine) -> None:
        machine.pause()
        await asyncio.sleep(self._random.choice((0.2, 2.0, 4.0)))
        if self._random.random() < 0.5:
            machine.go_on_thinking()
            await asyncio.sleep(0.2)
        machine.resume()

    async def _jump(self, machine: Machine) -> None:
        machine.jump(self._random.choice((0.01, 1.0, 60.0)))

    async def _swap_actor(self, machine: Machine) -> None:
        """Remove an actor, and sometimes give it back."""
        if not machine.node.actors:
            return
        actor = self._random.choice(machine.node.actors)
        self._watch.removed(actor.identity)
        await machine.node.remove(actor, self._random.choice((0.0, 0.3)))
        if self._random.random() < 0.7:
            await asyncio.sleep(self._random.choice((0.0, 0.5)))
            self._watch.added(actor.identity)
            machine.node.add(actor)

    async def _forget_someone(self, machine: Machine) -> None:
        """Let a machine believe that another is gone, which is not."""
        machine.membership.lost(self._random.choice(self._machines).identity)

    async def _spread_rumour(self, machine: Machine) -> None:
        """Let two machines be told that the other handles what it does not, or one of a node that is not there."""
        other = self._random.choice(self._machines)
        if other is machine or not other.is_up:
            return
        kind = payload_type(self._random.choice((Ask, Start, Middle, Note, News, Poke))).identifier
        if self._random.random() < 0.3:
            ghost = b"ghost of " + other.identity
            self._watch.went_down(ghost, self._network.loop.time(), other.cluster.heartbeat_interval)
            _tell(machine, other, ghost, kind)
        else:
            _tell(machine, other, other.identity, kind)
            _tell(other, machine, machine.identity, kind)


def _tell(listener: Machine, subject: Machine, node: bytes, kind: MessageIdentifier) -> None:
    """Tell a machine that a node at another one's address handles a message."""
    me, interval = subject.membership.me, subject.cluster.heartbeat_interval
    content = registration(me.uri, node, me.health_uri, interval, [Route(b"\x01rumour", kind)])
    listener.membership.take(service_message(REGISTER_ROUTE, content))
