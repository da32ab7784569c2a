"""ZMTP over TCP, behind the interface that nodes and servers use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hopline.message import Message
from hopline.transport.address import can_connect, resolved
from hopline.transport.interface import GaveUp, Listener, Peers, Sender, Subscriber, Take, Write
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.listeners import TcpListener
from hopline.transport.tcp.peers import TcpPeers
from hopline.transport.tcp.publishers import TcpPublisher
from hopline.transport.tcp.senders import TcpSender
from hopline.transport.tcp.subscribers import TcpSubscriber


class TcpTransport:
    """Opens sockets that the event loop reads and writes itself."""

    def __init__(self, settings: SocketSettings) -> None:
        self._settings = settings

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Listen as a ROUTER."""
        return TcpListener(address, field, identity, self._settings)

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:
        """Listen as a PUB."""
        publisher = TcpPublisher(address, field, capacity, self._settings)
        return publisher, publisher.uri

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Connect as a SUB that hears everything."""
        return TcpSubscriber(take, broke, self._settings)

    def sender(self, uri: str, capacity: int, *, identity: bytes = b"") -> Sender:
        """Connect as a DEALER."""
        return TcpSender(uri, capacity, identity, self._settings)

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Write,
        gave_up: GaveUp,
        clock: Callable[[], float],
    ) -> Peers:
        """Connect as a ROUTER, to each peer by a connection of its own."""
        return TcpPeers(self._settings, prepare, write, gave_up, clock)

    def can_connect(self, uri: str) -> bool:
        """Refuse what is not one place, and names: anybody could make this node look them up."""
        return can_connect(uri)

    async def resolve(self, uri: str) -> str:
        """Look a name up, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, resolved, uri)

    def close(self) -> None:
        """Do nothing: every end is closed by itself."""
