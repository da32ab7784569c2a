"""The virtual network between hosts: it delays, reorders, drops, duplicates and holds up messages, and is partitioned.

Hosts have names, and their sockets are bound to addresses. A socket that connects to an address is registered as
waiting for it, and is called when something is bound there, goes away, or is cut off.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

import msgspec

from hopline.cluster.messages.service import HEARTBEAT, SYNOD
from hopline.message import Message, WireFormat

FORMATS = (WireFormat.V4, WireFormat.V5, WireFormat.V6)


class NetworkConditions(msgspec.Struct):
    """How unreliable the network is. Probabilities are per message, times in seconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    latency: float = 0.001
    jitter: float = 0.0


class DeliveryCounts(msgspec.Struct):
    """What happened to the messages of nodes and servers, counted once for each receiver."""

    sent: int = 0
    arrived: int = 0
    duplicated: int = 0
    dropped: int = 0
    lost: int = 0  # the receiver was gone, or cut off, when they arrived
    returned: int = 0  # to the sending node, when it gave up on the receiver
    heartbeats: int = 0  # among the sent ones
    elections: int = 0  # among the sent ones, between servers
    bytes: int = 0  # of all others

    @property
    def others(self) -> int:
        """The number of sent messages that are neither heartbeats nor between servers."""
        return self.sent - self.heartbeats - self.elections


class Load(NamedTuple):
    """What is counted of a message that is transmitted."""

    size: int
    is_heartbeat: bool
    is_election: bool

    @classmethod
    def of(cls, frames: Sequence[bytes]) -> Load:
        """Return the load of the frames of a message."""
        content = b"".join(frames)
        is_heartbeat = HEARTBEAT.identity in content
        is_election = any(kind.identity in content for kind in SYNOD)
        return cls(len(content), is_heartbeat, is_election)


class Host:
    """A host of the network. While it is held up, nothing leaves it or arrives; afterwards everything does at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_held_up = False
        self.held: list[Callable[[], None]] = []


class Connection:
    """One direction between two hosts. If it is ordered, messages do not overtake each other."""

    __slots__ = ("is_ordered", "last_arrival", "source", "target")

    def __init__(self, source: Host, target: Host, *, is_ordered: bool) -> None:
        self.source = source
        self.target = target
        self.is_ordered = is_ordered
        self.last_arrival = 0.0


class Connecting(Protocol):
    """A socket that connects to an address."""

    def try_connect(self) -> None:
        """Connect to what is bound to the address now."""
        ...

    def check_connection(self) -> None:
        """Disconnect if nothing is bound to the address any more, or it cannot be reached."""
        ...


class Bound(Protocol):
    """A socket that is bound to an address."""

    @property
    def host(self) -> Host:
        """The host of the socket."""
        ...


class VirtualNetwork:
    """All hosts and addresses, the conditions between them, and which hosts are cut off from each other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, link_capacity: int = 1_000) -> None:
        self.loop = loop  # in virtual time
        self.random = random
        self.link_capacity = link_capacity
        self.conditions = NetworkConditions()
        self.traffic = DeliveryCounts()
        self.on_sent: Callable[[Host, Message], None] = _ignore  # by one node to another
        self.on_arrived: Callable[[Host, Message], None] = _ignore
        self.on_control_message: Callable[[Host, list[bytes]], None] = _ignore  # announcements and heartbeats
        self.conditions_of: Callable[[Message], NetworkConditions | None] = _ignore  # of one message between nodes
        self.bound: dict[str, Bound] = {}
        self.hosts: dict[str, Host] = {}
        self._connecting: dict[str, dict[Connecting, None]] = {}
        self._cuts: set[frozenset[str]] = set()
        self._half: frozenset[Host] = frozenset()  # those that cannot reach the others

    def host(self, name: str) -> Host:
        """Return the host of a name."""
        return self.hosts.setdefault(name, Host(name))

    # -- addresses -----------------------------------------------------------------------------------------------------

    def bind(self, uri: str, bound: Bound) -> None:
        """Bind a socket to an address. Sockets that wait for the address connect soon."""
        self.bound[uri] = bound
        self._retry(uri)

    def release(self, uri: str, *, is_noticed: bool) -> None:
        """Free an address.

        Args:
            uri: The address.
            is_noticed: Whether connected sockets notice soon. If not, they do when another socket is bound there.
        """
        self.bound.pop(uri, None)
        if is_noticed:
            for socket in self._connecting.get(uri, ()):
                self._call_after_handshake(socket.check_connection)

    def connect(self, uri: str, socket: Connecting) -> None:
        """Connect a socket to an address, as soon as that is possible."""
        sockets = self._connecting.setdefault(uri, {})
        sockets[socket] = None
        self._call_after_handshake(socket.try_connect)

    def disconnect(self, uri: str, socket: Connecting) -> None:
        """Remove a socket from those that connect to an address."""
        self._connecting.get(uri, {}).pop(socket, None)

    def _retry(self, uri: str) -> None:
        for socket in self._connecting.get(uri, ()):
            self._call_after_handshake(socket.try_connect)

    def _call_after_handshake(self, callback: Callable[[], None]) -> None:
        self.loop.call_later(self.handshake_time(), callback)

    def handshake_time(self) -> float:
        """Return a random time for connecting, in seconds."""
        round_trip = 2 * self.conditions.latency
        return round_trip + self.random.random() * 0.05

    # -- transmission --------------------------------------------------------------------------------------------------

    def transmit(
        self,
        connection: Connection,
        load: Load,
        arrive: Callable[[], None],
        ended: Callable[[], None] | None = None,
        conditions: NetworkConditions | None = None,
    ) -> None:
        """Transmit a message.

        Args:
            connection: The way it takes.
            load: What is counted of it.
            arrive: Called for each copy that arrives.
            ended: Called for each copy, whether it arrived or was lost.
            conditions: Its own conditions. Default: those of the network.
        """
        source = connection.source
        if source.is_held_up:
            transmission = partial(self.transmit, connection, load, arrive, ended, conditions)
            source.held.append(transmission)
            return
        self.traffic.sent += 1
        if load.is_heartbeat:
            self.traffic.heartbeats += 1
        elif load.is_election:
            self.traffic.elections += 1
        else:
            self.traffic.bytes += load.size
        conditions = conditions or self.conditions
        copies = self._copies(conditions)
        if not copies and ended is not None:
            self.loop.call_soon(ended)
        for _ in range(copies):
            jitter = self.random.random() * conditions.jitter
            delay = conditions.latency + jitter
            arrival = self.loop.time() + delay
            if connection.is_ordered:
                arrival = max(arrival, connection.last_arrival)
                connection.last_arrival = arrival
            self.loop.call_at(arrival, self._arrive, connection, arrive, ended)

    def _copies(self, conditions: NetworkConditions) -> int:
        """Return how many copies of a message arrive."""
        if self._happens(conditions.drop):
            self.traffic.dropped += 1
            return 0
        if self._happens(conditions.duplicate):
            self.traffic.duplicated += 1
            return 2
        return 1

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def _arrive(
        self,
        connection: Connection,
        arrive: Callable[[], None],
        ended: Callable[[], None] | None,
    ) -> None:
        target = connection.target
        if target.is_held_up:
            arrival = partial(self._arrive, connection, arrive, ended)
            target.held.append(arrival)
            return
        if self.is_cut(connection.source, target):
            self.traffic.lost += 1
        else:
            arrive()
        if ended is not None:
            ended()

    def hold_up(self, host: Host) -> None:
        """Hold up everything that leaves a host or arrives there."""
        host.is_held_up = True

    def let_go(self, host: Host) -> None:
        """Continue everything that was held up, at once."""
        host.is_held_up = False
        held = host.held
        host.held = []
        for transmission in held:
            transmission()

    # -- partitions ----------------------------------------------------------------------------------------------------

    def is_cut(self, host: Host, other: Host) -> bool:
        """Return whether two hosts cannot reach each other."""
        if self._half and (host in self._half) != (other in self._half):
            return True
        if not self._cuts:
            return False
        pair = frozenset((host.name, other.name))
        return pair in self._cuts

    def cut(self, host: Host, other: Host) -> None:
        """Cut two hosts off from each other. Connected sockets notice after a random time."""
        pair = frozenset((host.name, other.name))
        self._cuts.add(pair)
        noticed_after = self.random.uniform(0.1, 2.0)
        self.loop.call_later(noticed_after, self._notice_cut, host, other)

    def split(self, half: Iterable[Host]) -> None:
        """Cut some hosts off from all others. Connected sockets notice after a random time."""
        self._half = frozenset(half)
        for sockets in self._connecting.values():
            for socket in sockets:
                noticed_after = self.random.uniform(0.1, 2.0)
                self.loop.call_later(noticed_after, socket.check_connection)

    def _notice_cut(self, host: Host, other: Host) -> None:
        if not self.is_cut(host, other):
            return
        for uri in self._uris_of(host, other):
            sockets = list(self._connecting.get(uri, ()))
            for socket in sockets:
                socket.check_connection()

    def mend(self, *hosts: Host) -> None:
        """Restore the way between two hosts, or between all."""
        if self._half and not hosts:
            self._half = frozenset()
            for uri in self.bound:
                self._retry(uri)
        mended = self._cuts
        if hosts:
            pair = frozenset(host.name for host in hosts)
            mended = self._cuts & {pair}
        self._cuts = self._cuts - mended
        names = frozenset(itertools.chain.from_iterable(mended))
        mended_hosts = [self.hosts[name] for name in names]
        for uri in self._uris_of(*mended_hosts):
            self._retry(uri)

    def _uris_of(self, *hosts: Host) -> list[str]:
        return [uri for uri, bound in self.bound.items() if bound.host in hosts]


def _ignore(*_: object) -> None:
    """Do nothing and return nothing: the default of every hook."""
