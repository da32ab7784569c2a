"""The virtual network between hosts: what travels is delayed, reordered, dropped, doubled, cut off, held up."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

import msgspec

from hopline.message import Message, WireFormat
from hopline.simulation.loop import VirtualLoop

FORMATS = (WireFormat.V4, WireFormat.V5, WireFormat.V6)


class Weather(msgspec.Struct):
    """How bad the network is. Chances are per message, times in seconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    latency: float = 0.001
    jitter: float = 0.0

    @property
    def slowest(self) -> float:
        """How long a message may be under way."""
        return self.latency + self.jitter


class Traffic(msgspec.Struct):
    """What happened to the messages that nodes and servers sent: one for each receiver."""

    sent: int = 0
    arrived: int = 0
    doubled: int = 0
    dropped: int = 0
    lost: int = 0  # their receiver was gone, or cut off, when they came
    returned: int = 0  # to the node that sent them, when it gave their receiver up


class Host:
    """A place in the network. While it is held up, nothing leaves it and nothing comes in; then all does at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_held_up = False
        self.held: list[Callable[[], None]] = []


class Connection:
    """One direction between two hosts, in which nothing overtakes, unless it is said to."""

    __slots__ = ("is_ordered", "last", "source", "target")

    def __init__(self, source: Host, target: Host, *, is_ordered: bool) -> None:
        self.source = source
        self.target = target
        self.is_ordered = is_ordered
        self.last = 0.0  # when the last message arrives


class Waiting(Protocol):
    """Something that wants to be connected to an address, or has been."""

    def try_again(self) -> None:
        """See who is there now."""
        ...

    def notice(self) -> None:
        """Notice that nobody is there any more, if so."""
        ...


class Bound(Protocol):
    """Something at an address."""

    @property
    def host(self) -> Host:
        """Where it is."""
        ...


class Network:
    """All hosts and addresses, the weather, and who is cut off from whom."""

    def __init__(self, loop: VirtualLoop, random: Random, link_capacity: int = 1_000) -> None:
        self.loop = loop
        self.random = random
        self.link_capacity = link_capacity
        self.weather = Weather()
        self.traffic = Traffic()
        self.on_sent: Callable[[Host, Message], None] = _ignore  # by one node to another
        self.on_arrived: Callable[[Host, Message], None] = _ignore
        self.on_news: Callable[[Host, list[bytes]], None] = _ignore  # of routes and life, that came to a host
        self.bound: dict[str, Bound] = {}
        self.hosts: dict[str, Host] = {}
        self._waiting: dict[str, dict[Waiting, None]] = {}
        self._cut: set[frozenset[str]] = set()

    def host(self, name: str) -> Host:
        """Give the host of a name."""
        return self.hosts.setdefault(name, Host(name))

    # -- addresses -----------------------------------------------------------------------------------------------------

    def bind(self, uri: str, bound: Bound) -> None:
        """Put something at an address, and let those know who wait for it."""
        self.bound[uri] = bound
        self._stir(uri)

    def release(self, uri: str, *, is_noticed: bool) -> None:
        """Free an address. Whoever was connected to it notices soon, or not before somebody else is there."""
        self.bound.pop(uri, None)
        if is_noticed:
            for one in self._waiting.get(uri, ()):
                self.loop.call_later(self.handshake_time(), one.notice)

    def wait_at(self, uri: str, waiting: Waiting) -> None:
        """Connect to an address, as soon as that is possible."""
        self._waiting.setdefault(uri, {})[waiting] = None
        self.loop.call_later(self.handshake_time(), waiting.try_again)

    def leave(self, uri: str, waiting: Waiting) -> None:
        """Want to be connected to an address no longer."""
        self._waiting.get(uri, {}).pop(waiting, None)

    def _stir(self, uri: str) -> None:
        for one in self._waiting.get(uri, ()):
            self.loop.call_later(self.handshake_time(), one.try_again)

    def handshake_time(self) -> float:
        """Tell how long it takes to connect."""
        return 2 * self.weather.latency + self.random.random() * 0.05

    # -- travelling ----------------------------------------------------------------------------------------------------

    def carry(
        self, connection: Connection, arrive: Callable[[], None], ended: Callable[[], None] | None = None
    ) -> None:
        """Let a message travel, and arrive or be lost; `ended` is told of each copy of it in either case."""
        if connection.source.is_held_up:
            connection.source.held.append(lambda: self.carry(connection, arrive, ended))
            return
        random, weather, traffic = self.random, self.weather, self.traffic
        traffic.sent += 1
        copies = 1
        if random.random() < weather.drop:
            traffic.dropped += 1
            copies = 0
        elif random.random() < weather.duplicate:
            traffic.doubled += 1
            copies = 2
        if not copies and ended is not None:
            self.loop.call_soon(ended)
        for _ in range(copies):
            when = self.loop.time() + weather.latency + random.random() * weather.jitter
            if connection.is_ordered:
                when = connection.last = max(when, connection.last)
            self.loop.call_at(when, self._land, connection, arrive, ended)

    def _land(self, connection: Connection, arrive: Callable[[], None], ended: Callable[[], None] | None) -> None:
        target = connection.target
        if target.is_held_up:
            target.held.append(lambda: self._land(connection, arrive, ended))
            return
        if self.is_cut(connection.source, target):
            self.traffic.lost += 1
        else:
            arrive()
        if ended is not None:
            ended()

    def hold_up(self, host: Host) -> None:
        """Let nothing leave a host, and nothing come in."""
        host.is_held_up = True

    def let_go(self, host: Host) -> None:
        """Let everything that was held up go on, at once."""
        host.is_held_up = False
        held, host.held = host.held, []
        for one in held:
            one()

    # -- cuts ----------------------------------------------------------------------------------------------------------

    def is_cut(self, one: Host, other: Host) -> bool:
        """Tell whether two hosts cannot reach each other."""
        return bool(self._cut) and frozenset((one.name, other.name)) in self._cut

    def cut(self, one: Host, other: Host) -> None:
        """Cut the way between two hosts; those who are connected notice after a while."""
        self._cut.add(frozenset((one.name, other.name)))
        self.loop.call_later(self.random.uniform(0.1, 2.0), self._notice_cut, one, other)

    def _notice_cut(self, one: Host, other: Host) -> None:
        if self.is_cut(one, other):
            for uri in self._uris_of(one, other):
                for waiting in list(self._waiting.get(uri, ())):
                    waiting.notice()

    def mend(self, *hosts: Host) -> None:
        """Heal the cut between two hosts, or every cut."""
        healed = self._cut if not hosts else {frozenset(host.name for host in hosts)} & self._cut
        self._cut = self._cut - healed
        for uri in self._uris_of(*(self.hosts[name] for pair in sorted(map(sorted, healed)) for name in pair)):
            self._stir(uri)

    def _uris_of(self, *hosts: Host) -> list[str]:
        return [uri for uri, bound in self.bound.items() if bound.host in hosts]


def _ignore(*_: object) -> None:
    """Stand in for a hook that nobody set yet."""
