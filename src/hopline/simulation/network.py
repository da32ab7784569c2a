"""The virtual network: real bytes between nodes, that are delayed, reordered, dropped, doubled, cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec

from hopline.message import Message, PeerGoneError, WireFormat
from hopline.simulation.loop import VirtualLoop
from hopline.wire import decode, encode

FORMATS = (WireFormat.V4, WireFormat.V5, WireFormat.V6)


class Weather(msgspec.Struct):
    """How bad the network is. Chances are per message, times in seconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    latency: float = 0.001
    jitter: float = 0.0


class Traffic(msgspec.Struct):
    """What happened to the messages that nodes sent."""

    sent: int = 0
    arrived: int = 0
    doubled: int = 0
    dropped: int = 0
    lost: int = 0  # their node was gone, or cut off, when they came
    returned: int = 0


def _ignore(*_: object) -> None:
    """Stand in for a hook that nobody set yet."""


class SimulatedLink:
    """The way from one node to another, with room for so many messages."""

    def __init__(self, network: Network, source: bytes, target: bytes) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._under_way = 0
        self._held: list[tuple[Message, float]] = []  # while the way is cut, with the time when they came
        self._waiting: list[asyncio.Future[None]] = []
        self.is_gone = False

    def offer(self, message: Message) -> bool:
        """Take a message for the other node."""
        if self.is_gone:
            raise PeerGoneError(self._target)
        network = self._network
        if self._under_way + len(self._held) >= network.link_capacity:
            return False
        network.traffic.sent += 1
        network.on_sent(self._source, message)
        if network.is_cut(self._source, self._target):
            self._held.append((message, network.loop.time()))
        else:
            self._transmit(message)
        return True

    async def room(self) -> None:
        """Wait until something arrived or the link is gone."""
        turn = self._network.loop.create_future()
        self._waiting.append(turn)
        await turn

    def _transmit(self, message: Message) -> None:
        network, random, weather = self._network, self._network.random, self._network.weather
        frames = encode(message, random.choice(FORMATS))
        copies = 1
        if random.random() < weather.drop:
            network.traffic.dropped += 1
            copies = 0
        elif random.random() < weather.duplicate:
            network.traffic.doubled += 1
            copies = 2
        for _ in range(copies):
            self._under_way += 1
            delay = weather.latency + random.random() * weather.jitter
            network.loop.call_later(delay, self._arrive, frames)

    def _arrive(self, frames: list[bytes]) -> None:
        self._under_way -= 1
        self._network.deliver(self._source, self._target, decode(frames))
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def mend(self) -> None:
        """Send what was held while the way was cut."""
        held, self._held = self._held, []
        for message, _ in held:
            self._transmit(message)
        self._wake()

    def give_up(self) -> list[tuple[Message, float]]:
        """Be gone, and give back what was never sent, with how long it waited."""
        self.is_gone = True
        held, self._held = self._held, []
        self._wake()
        now = self._network.loop.time()
        self._network.traffic.returned += len(held)
        return [(message, now - since) for message, since in held]


class Network:
    """All links, the weather, and who is cut off from whom."""

    def __init__(self, loop: VirtualLoop, random: Random, link_capacity: int) -> None:
        self.loop = loop
        self.random = random
        self.link_capacity = link_capacity
        self.weather = Weather()
        self.traffic = Traffic()
        self.on_sent: Callable[[bytes, Message], None] = _ignore
        self.receivers: dict[bytes, Callable[[Message], None]] = {}  # of the nodes that are up
        self._links: dict[tuple[bytes, bytes], SimulatedLink] = {}
        self._cut: set[frozenset[bytes]] = set()

    def link(self, source: bytes, target: bytes) -> SimulatedLink:
        """Connect one node to another."""
        if target not in self.receivers and self.random.random() < 0.5:
            raise PeerGoneError(target)  # refused at once; else it shows later
        link = self._links[source, target] = SimulatedLink(self, source, target)
        return link

    def is_cut(self, one: bytes, other: bytes) -> bool:
        """Tell whether two nodes cannot reach each other."""
        return frozenset((one, other)) in self._cut

    def cut(self, one: bytes, other: bytes) -> None:
        """Cut the way between two nodes."""
        self._cut.add(frozenset((one, other)))

    def mend(self) -> None:
        """Heal every cut."""
        self._cut.clear()
        for link in list(self._links.values()):
            link.mend()

    def give_up(self, source: bytes, target: bytes) -> list[tuple[Message, float]]:
        """Let one node give another up: its link goes, with what it held."""
        link = self._links.pop((source, target), None)
        return [] if link is None else link.give_up()

    def deliver(self, source: bytes, target: bytes, message: Message) -> None:
        """Let a message arrive, if anyone is there."""
        receive = self.receivers.get(target)
        if receive is None or self.is_cut(source, target):
            self.traffic.lost += 1
        else:
            self.traffic.arrived += 1
            receive(message)
