"""How machines learn what lives where: gossip that comes late, or never."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from random import Random

from hopline.message import Message
from hopline.node import Sought, sought
from hopline.routing import Route
from hopline.simulation.machine import Machine
from hopline.simulation.network import Network

SEARCH_PERIOD = 0.2  # the time in which the same search is not repeated


class Directory:
    """Spreads what the machines advertise, and what they notice of one another."""

    def __init__(self, network: Network, random: Random) -> None:
        self.machines: list[Machine] = []
        self.is_reliable = False
        self._network = network
        self._random = random
        self._searches: dict[tuple[bytes, Sought], float] = {}

    def _later(self, action: Callable[[], None]) -> None:
        """Do something that gossip does: soon, or never."""
        if self.is_reliable or self._random.random() > 0.1:
            self._network.loop.call_later(self._random.expovariate(50), action)

    def announce(self, machine: Machine, to: Iterable[Machine] | None = None) -> None:
        """Tell others, or everyone, what lives on a machine."""
        if not machine.is_up:
            return
        routes = machine.node.router.advertised()
        for other in self.machines if to is None else to:
            if other is not machine and not self._network.is_cut(machine.identity, other.identity):
                self._later(functools.partial(_learn, other, machine, routes))

    def withdraw(self, machine: Machine, routes: list[Route]) -> None:
        """Tell everyone what lives on a machine no longer."""
        for other in self.machines:
            if other is not machine:
                self._later(functools.partial(_unlearn, other, machine, routes))

    def look_for(self, machine: Machine, message: Message) -> None:
        """Ask everyone who can be reached whether they handle a message, or are the node that it is for.

        Whoever does answers the one who asked. What was asked a moment ago is not asked again: so no storm arises.
        """
        search, now = (machine.identity, sought(message)), self._network.loop.time()
        if now < self._searches.get(search, 0.0):
            return
        self._searches[search] = now + SEARCH_PERIOD
        for other in self.machines:
            is_sought = other.identity == message.receiver_node_identity
            if other.is_up and other is not machine and (is_sought or other.handles(message.identifier)):
                self.announce(other, [machine])

    def give_up(self, machine: Machine, gone: Machine) -> None:
        """Let a machine notice that another is gone, and take back what it could not send."""
        if machine.is_up:
            machine.node.router.forget_node(gone.identity)
            for message, waited in self._network.give_up(machine.identity, gone.identity):
                machine.node.router.take_back(message, gone.identity, waited)


def _learn(other: Machine, machine: Machine, routes: list[Route]) -> None:
    if other.is_up:
        for route in routes:
            other.node.router.learn(machine.identity, machine.node.uri, route.receiver, route.identifier)


def _unlearn(other: Machine, machine: Machine, routes: list[Route]) -> None:
    if other.is_up:
        for route in routes:
            other.node.router.forget(machine.identity, route.receiver, route.identifier)
