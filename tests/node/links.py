"""Several nodes in one process: their links are queues in memory, but what travels is the bytes of a wire format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from hopline import Actor, Message, Node, WireFormat
from hopline.errors import PeerGoneError
from hopline.routing import Route
from hopline.transport import Condition
from hopline.wire import decode, encode

from .running import started

FLOOD = 5_000  # messages, more than any test has reason to send


class MemoryLink:
    """The way to one other node. It is full or broken when the network says so."""

    def __init__(self, network: Network, peer: bytes, uri: str) -> None:
        self.network = network
        self.peer = peer
        self.uri = uri

    def offer(self, message: Message) -> bool:
        """Write the message, and let the peer read it on the loop's next turn."""
        network = self.network
        if self.peer in network.gone:
            raise PeerGoneError(self.peer)
        if self.peer in network.full:
            return False
        assert message.socket_identity == self.peer
        assert len(network.travelled) < FLOOD, "a message goes round and round"
        frames = encode(message, network.wire_format)
        network.travelled.append((self.peer, message))
        asyncio.get_running_loop().call_soon(network.arrive, self.peer, frames)
        return True

    async def room(self) -> None:
        """Wait until the peer has room, or is gone."""
        network, peer = self.network, self.peer
        await network.changed.wait_for(lambda: peer not in network.full or peer in network.gone)


class Network:
    """Nodes by their names, and what travelled between them."""

    def __init__(self, wire_format: WireFormat = WireFormat.V5) -> None:
        self.wire_format = wire_format
        self.nodes: dict[bytes, Node] = {}
        self.links: list[MemoryLink] = []
        self.changed = Condition()
        self.gone: set[bytes] = set()
        self.full: set[bytes] = set()
        self.deaf: set[bytes] = set()  # takes what is sent, and never reads it
        self.travelled: list[tuple[bytes, Message]] = []

    @asynccontextmanager
    async def node(self, name: str, *actors: Actor, **settings: Any) -> AsyncIterator[Node]:
        """Start a node that can be reached by the others, once they know of it."""
        identity = name.encode()
        async with started(*actors, identity=identity, uri=uri_of(identity), connect=self.connect, **settings) as node:
            self.nodes[identity] = node
            yield node

    @asynccontextmanager
    async def of(self, **actors: list[Actor]) -> AsyncIterator[list[Node]]:
        """Start a node for each name, and introduce them all."""
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(self.node(name, *some)) for name, some in actors.items()]
            self.introduce()
            yield nodes
            self.gone |= set(self.nodes)

    def connect(self, node: bytes, uri: str) -> MemoryLink:
        """Make a link, as the router asks for it."""
        link = MemoryLink(self, node, uri)
        self.links.append(link)
        return link

    def arrive(self, peer: bytes, frames: list[bytes]) -> None:
        """Read what was written, and hand it to the node that it was sent to."""
        node = self.nodes[peer]
        if node.is_running and peer not in self.deaf:
            node.router.receive(decode(frames))

    def introduce(self) -> None:
        """Tell every node what the others advertise."""
        for node in self.nodes.values():
            for other in self.nodes.values():
                if other is not node:
                    introduce(other, to=node)

    def change(self) -> None:
        """Wake whoever waits for room on a link."""
        self.changed.notify_all()

    def sent_to(self, node: bytes) -> list[Message]:
        """Give what left for a node, in order."""
        return [message for peer, message in self.travelled if peer == node]


def uri_of(node: bytes) -> str:
    return f"tcp://{node.decode()}:9000"


def advertised(node: Node) -> list[Route]:
    """Give what a node lets others know of itself."""
    return node.router.directory.advertised()


def introduce(node: Node, *, to: Node) -> None:
    """Tell one node what another advertises."""
    for route in advertised(node):
        to.router.directory.learn(node.identity, uri_of(node.identity), route.receiver, route.identifier)
