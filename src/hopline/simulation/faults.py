"""What goes wrong in a simulation."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from hopline.message import payload_type
from hopline.simulation.actors import Ask, Middle, News, Note, Poke, Start
from hopline.simulation.directory import Directory
from hopline.simulation.machine import Machine
from hopline.simulation.network import Network, Weather
from hopline.simulation.watch import Watch


class Faults:
    """Crashes, cuts, bad weather, leaping clocks, actors that go and rumours that are not true."""

    def __init__(
        self, network: Network, directory: Directory, watch: Watch, random: Random, note: Callable[[str], None]
    ) -> None:
        self.happened: Counter[str] = Counter()
        self._network = network
        self._directory = directory
        self._machines = directory.machines
        self._watch = watch
        self._random = random
        self._note_down = note

    async def happen(self, until: float) -> None:
        """Let one thing after the other go wrong, until a time."""
        faults = (
            self._change_weather,
            self._crash,
            self._restart_in_order,
            self._cut,
            self._jump,
            self._swap_actor,
            self._forget_someone,
            self._spread_rumour,
        )
        while self._network.loop.time() < until:
            await asyncio.sleep(self._random.expovariate(2))
            fault, machine = self._random.choice(faults), self._random.choice(self._machines)
            if machine.is_up:
                self.happened[fault.__name__.strip("_")] += 1
                self._note_down(f"{machine.name} {fault.__name__}")
                await fault(machine)

    async def end(self) -> None:
        """Make everything well again."""
        self._directory.is_reliable = True
        self._network.weather = Weather()
        self._network.mend()
        for machine in self._machines:
            if not machine.is_up:
                await self.start(machine)
        await asyncio.sleep(1.0)  # for what was still to be noticed
        for machine in self._machines:  # what is not true is forgotten, and everyone told what is
            for other in self._machines:
                self._directory.give_up(machine, other)
        for machine in self._machines:
            self._directory.announce(machine)

    async def start(self, machine: Machine) -> None:
        """Let a machine come up, and tell the others."""
        await machine.start()
        self._note_down(f"{machine.name} up")
        self._directory.announce(machine)

    async def _change_weather(self, _: Machine) -> None:
        random = self._random
        self._network.weather = Weather(
            drop=random.choice((0.0, 0.1, 0.5)),
            duplicate=random.choice((0.0, 0.1, 0.5)),
            latency=random.choice((0.0, 0.001, 0.1)),
            jitter=random.choice((0.0, 0.01, 1.0)),
        )

    async def _crash(self, machine: Machine) -> None:
        await machine.crash()
        self._noticed_by_others(machine)
        await asyncio.sleep(self._random.choice((0.0, 0.3, 2.0)))
        await self.start(machine)

    async def _restart_in_order(self, machine: Machine) -> None:
        await machine.shut_down()
        self._noticed_by_others(machine)
        await self.start(machine)

    def _noticed_by_others(self, machine: Machine) -> None:
        for other in self._machines:
            if other is not machine:
                delay = self._random.choice((0.0, 0.5))
                self._network.loop.call_later(delay, self._directory.give_up, other, machine)

    async def _cut(self, machine: Machine) -> None:
        other = self._random.choice(self._machines)
        if other is machine:
            return
        self._network.cut(machine.identity, other.identity)
        await asyncio.sleep(self._random.choice((0.1, 1.0)))
        if self._random.random() < 0.5:
            self._directory.give_up(machine, other)
            self._directory.give_up(other, machine)
        self._network.mend()
        self._directory.announce(machine)
        self._directory.announce(other)

    async def _jump(self, machine: Machine) -> None:
        machine.jump(self._random.choice((0.01, 1.0, 60.0)))

    async def _swap_actor(self, machine: Machine) -> None:
        """Remove an actor, and sometimes give it back."""
        if not machine.node.actors:
            return
        actor = self._random.choice(machine.node.actors)
        routes = [route for route in machine.node.router.advertised() if route.receiver == actor.identity]
        self._watch.removed(actor.identity)
        await machine.node.remove(actor, self._random.choice((0.0, 0.3)))
        self._directory.withdraw(machine, routes)
        if self._random.random() < 0.7:
            await asyncio.sleep(self._random.choice((0.0, 0.5)))
            self._watch.added(actor.identity)
            machine.node.add(actor)
            self._directory.announce(machine)

    async def _forget_someone(self, machine: Machine) -> None:
        """Let a machine believe that another is gone, which is not."""
        self._directory.give_up(machine, self._random.choice(self._machines))

    async def _spread_rumour(self, machine: Machine) -> None:
        """Let a machine believe that another handles what it does not: its messages wander."""
        other = self._random.choice(self._machines)
        if other is not machine:
            kind = payload_type(self._random.choice((Ask, Start, Middle, Note, News, Poke))).identifier
            machine.node.router.learn(other.identity, other.node.uri, b"\x01rumour", kind)
