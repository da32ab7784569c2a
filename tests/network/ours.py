"""Our side of the tests: nodes and rendezvous servers on loopback, with short times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hopline import (
    RAW,
    Actor,
    Context,
    Message,
    MessageIdentifier,
    Network,
    Node,
    NodeSettings,
    RendezvousServer,
    RendezvousSettings,
    WireFormat,
    handler,
    payload,
)
from hopline.cluster import ClusterSettings, Membership, RendezvousAddress
from hopline.message import TraceOptions
from hopline.node.network.connection import NetworkConnection
from hopline.rendezvous import RelaySettings
from hopline.routing import Tables
from tests.node.running import started

from .frames import V4, V5, V5_INT32, V6

AUTOMATIC = None  # instead of a format that a node is pinned to
FORMATS = {V4: WireFormat.V4, V5_INT32: WireFormat.V5_INT32, V5: WireFormat.V5, V6: WireFormat.V6}
INTERVAL = 900  # ms between our signs of life
ANYWHERE = "tcp://127.0.0.1:0"
QUICK = ClusterSettings(
    heartbeat_interval=INTERVAL / 1000, probe_interval=0.02, announce_period=0.2, discovery_period=0.3
)


@payload("HELLO", serializer=RAW)
class Hello(bytes):
    """A greeting, as it is in the body."""


@payload("EHHLO", serializer=RAW)
class Ehhlo(bytes):
    """The answer."""


class Reversing(Actor):
    """Answers HELLO with its text reversed, as the actor that was captured. Broken, it fails."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.seen: list[Message] = []
        self.is_broken = is_broken

    @handler
    def reverse(self, hello: Hello, context: Context) -> Ehhlo:
        self.seen.append(context.message)
        if self.is_broken:
            raise LookupError("no such greeting")
        return Ehhlo(hello[:2] + hello[:1:-1])


class Listening(Actor):
    """Hears HELLO, and says nothing."""

    def __init__(self) -> None:
        self.seen: list[Message] = []

    @handler
    def hear(self, hello: Hello, context: Context) -> None:
        self.seen.append(context.message)


@asynccontextmanager
async def rendezvous(wire: str = V5, **settings: Any) -> AsyncIterator[RendezvousServer]:
    """Start a rendezvous server of ours."""
    relay = RelaySettings(heartbeat_interval=0.2, wire_format=FORMATS[wire])
    async with RendezvousServer(RendezvousSettings(address=ANYWHERE, relay=relay, **settings)) as server:
        yield server


@asynccontextmanager
async def our_node(
    wire: str | None,
    *servers: RendezvousAddress,
    actors: tuple[Actor, ...] = (),
    settings: NodeSettings | None = None,
    identity: bytes | None = None,
    **network: Any,
) -> AsyncIterator[Node]:
    """Start a node of ours that follows these servers."""
    joined = Network(rendezvous=servers, wire_format=FORMATS[wire] if wire else None, **{"cluster": QUICK, **network})
    async with started(*actors, network=joined, settings=settings, identity=identity) as node:
        yield node


def attachment(node: Node) -> NetworkConnection:
    assert node._running is not None
    assert node._running.connection is not None
    return node._running.connection


def membership(node: Node) -> Membership:
    return attachment(node).membership


def tables(node: Node) -> Tables:
    assert node._running is not None
    return node._running.tables


def knows(node: Node, other: bytes) -> bool:
    """Tell whether a node has routes to another."""
    return other in tables(node).external


def handlers(node: Node, identity: bytes) -> list[bytes]:
    """Give the other nodes that are known to handle a message."""
    return list(tables(node).external.handlers(MessageIdentifier(identity)) or ())


def traced(body: bytes) -> Message:
    """Make a HELLO with the headers that the captured client gave it."""
    return Message.flow_start(b"HELLO", body).clone(trace_options=TraceOptions.ROUTING)
