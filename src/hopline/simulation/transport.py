"""A transport over the virtual network, for the real nodes and servers of a simulation.

It implements `hopline.transport.Transport` with the properties of the real one: a publisher reaches only the
subscribers of the moment, a sender buffers until it is connected, and a link belongs to one node and is given up when
that node is not reached in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hopline.message import ArgumentError, BindError, Message
from hopline.simulation.links import SimulatedPeers
from hopline.simulation.network import VirtualNetwork
from hopline.simulation.sockets import SimulatedListener, SimulatedPublisher, SimulatedSender, SimulatedSubscriber
from hopline.transport import Frames, Listener, Peers, Sender, Subscriber, Take, Unsent, parse

_FIRST_PORT = 20_000


class _Socket(Protocol):
    def die(self, *, is_noticed: bool) -> None: ...


class SimulatedTransport:
    """All sockets of one host. They die together when it crashes."""

    def __init__(self, network: VirtualNetwork, name: str) -> None:
        self.network = network
        self.host = network.host(name)
        self._sockets: list[_Socket] = []
        self._ports = _FIRST_PORT

    def crash(self, *, is_noticed: bool) -> None:
        """Close every socket at once.

        Args:
            is_noticed: Whether others notice that connections broke. They do not when, for example, the power fails.
        """
        sockets = self._sockets
        self._sockets = []
        for socket in sockets:
            socket.die(is_noticed=is_noticed)

    def _address(self, address: str, field: str) -> str:
        parsed = parse(address, field)
        port = parsed.first_port
        if not port:
            self._ports += 1
            port = self._ports
        uri = f"tcp://{parsed.host}:{port}"
        if uri in self.network.bound:
            raise BindError(field, address, "address in use")
        return uri

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Bind a listener."""
        uri = self._address(address, field)
        listener = SimulatedListener(self.network, self.host, uri, identity)
        self._sockets.append(listener)
        return listener

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:  # noqa: ARG002 - it is never full
        """Bind a publisher."""
        uri = self._address(address, field)
        publisher = SimulatedPublisher(self.network, self.host, uri)
        self._sockets.append(publisher)
        return publisher, publisher.uri

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Return a subscriber that is not connected yet."""
        subscriber = SimulatedSubscriber(self.network, self.host, take, broke)
        self._sockets.append(subscriber)
        return subscriber

    def sender(self, uri: str, capacity: int, *, identity: bytes = b"") -> Sender:  # noqa: ARG002 - listeners here do not use it
        """Return a sender that connects to a listener."""
        sender = SimulatedSender(self.network, self.host, uri, capacity)
        self._sockets.append(sender)
        return sender

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Callable[[Message, bytes, float], Frames],
        gave_up: Callable[[bytes, Unsent], None],
        clock: Callable[[], float],
    ) -> Peers:
        """Return the links to other nodes, none so far."""
        peers = SimulatedPeers(self.network, self.host, prepare, write, gave_up, clock)
        self._sockets.append(peers)
        return peers

    def can_connect(self, uri: str) -> bool:
        """Return whether a URI is one host and port."""
        try:
            return parse(uri).is_one_place
        except ArgumentError:
            return False

    async def resolve(self, uri: str) -> str:
        """Return the URI unchanged, after a short time."""
        seconds = self.network.random.random() * 0.01
        await asyncio.sleep(seconds)
        return uri

    def close(self) -> None:
        """Do nothing: every socket is closed by its owner."""
