"""Hopline: two nodes and a rendezvous server, each in its process, as a network really is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.network.contender import Addresses, Channel, Options, check
from benchmarks.network.measuring import carry_out_orders_async
from hopline import (
    RAW,
    Actor,
    CaptureLevel,
    CaptureSettings,
    Domain,
    DomainSecurity,
    MessageHub,
    Network,
    Node,
    Payload,
    Promise,
    RendezvousServer,
    RendezvousSettings,
    WireFormat,
    handler,
    payload,
)
from hopline.capture.segment_files import journals_in
from hopline.cluster import RendezvousAddress
from hopline.rendezvous import RelaySettings
from hopline.security import NoSecurity, Profile
from hopline.transport import SocketSettings, Transport
from hopline.transport.libzmq import ZmqTransport

UNSIGNED = "no"
KEY = b"a secret of the benchmark, 32 b."
SEGMENT_BYTES = 8 << 20
CLOSE_TIME = 20.0  # seconds in which segments are closed
LOOK = 0.01
FIND_TIME = 20.0  # seconds in which the client's first request must be answered


@payload("Ask", serializer=RAW)
class Ask(bytes):
    """The request."""

    __slots__ = ()


@payload("Told", serializer=RAW)
class Told(bytes):
    """The answer."""

    __slots__ = ()


@payload("Note", serializer=RAW)
class Note(bytes):
    """What wants no answer."""

    __slots__ = ()


class HowMany(Payload):
    """Asks how many notes came."""


class SoMany(Payload):
    """Answers that."""

    count: int


class RecordAs(Payload):
    """Asks a node to record more, or less."""

    level: CaptureLevel


class Recording(Payload):
    """Says that it does."""


class Echo(Actor):
    """Answers every request with its body, and counts the notes."""

    def __init__(self) -> None:
        super().__init__()
        self.set_capture_level: Callable[[CaptureLevel], None]
        self._notes = 0

    @handler
    def answer(self, ask: Ask) -> Told:
        """Answer one."""
        return Told(ask)

    @handler
    def note(self, note: Note) -> None:  # noqa: ARG002
        """Count one."""
        self._notes += 1

    @handler
    def count(self, how_many: HowMany) -> SoMany:  # noqa: ARG002
        """Tell how many came since this was asked last."""
        count, self._notes = self._notes, 0
        return SoMany(count)

    @handler
    def record(self, wish: RecordAs) -> Recording:
        """Record so much from now on."""
        self.set_capture_level(wish.level)
        return Recording()


# -- roles -----------------------------------------------------------------------------------------------------------


def rendezvous(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - the first role
    """Let the nodes find each other."""
    _run(_rendezvous(channel, options), options)


def server(channel: Channel, addresses: Addresses, options: Options) -> None:
    """Be the node of the echo."""
    _run(_server(channel, addresses, options), options)


def client(channel: Channel, addresses: Addresses, options: Options) -> None:
    """Be the node of who asks."""
    _run(_client(channel, addresses, options), options)


def _run(role: Coroutine[Any, Any, None], options: Options) -> None:
    """Run a role on the loop that is asked for."""
    if options.get("loop") == "uvloop":
        import uvloop

        uvloop.run(role)
    else:
        asyncio.run(role)


async def _rendezvous(channel: Channel, options: Options) -> None:
    relay = RelaySettings(wire_format=WireFormat[options.get("wire_format", "V5")])
    settings = RendezvousSettings(address="tcp://127.0.0.1:0", relay=relay, transport=_transport(options))
    async with RendezvousServer(settings) as running:
        channel.send(f"{running.address.broadcast_uri} {running.address.unicast_uri}")
        await asyncio.Event().wait()


async def _server(channel: Channel, addresses: Addresses, options: Options) -> None:
    echo = Echo()
    async with Node(echo, network=_network(addresses, options), capture=_capture(options)) as node:
        echo.set_capture_level = node.set_capture_level
        channel.send(node.uri)
        await asyncio.Event().wait()


async def _client(channel: Channel, addresses: Addresses, options: Options) -> None:
    async with Node(network=_network(addresses, options), capture=_capture(options)) as node:
        await node.hub.send(Ask(b""), callback=Told, timeout=FIND_TIME)
        channel.send(node.uri)
        with contextlib.suppress(EOFError):
            await carry_out_orders_async(channel, HubClient(node.hub), partial(_record, node))


async def _record(node: Node, level: str) -> None:
    """Let both nodes record so much; what they recorded before is wholly written then."""
    wanted = CaptureLevel(level)
    await node.hub.send(RecordAs(wanted), callback=Recording)
    node.set_capture_level(wanted)
    async with asyncio.timeout(CLOSE_TIME):
        while wanted is CaptureLevel.OFF and _is_open(node):  # noqa: ASYNC110 - a thread closes it, which tells nobody
            await asyncio.sleep(LOOK)


def _is_open(node: Node) -> bool:
    return node.capture is not None and bool(journals_in(Path(node.capture.directory)))


def _network(addresses: Addresses, options: Options) -> Network:
    servers = [RendezvousAddress(*addresses["rendezvous"].split())]
    if not options:
        return Network(rendezvous=servers)
    return Network(
        rendezvous=servers,
        wire_format=WireFormat[options["wire_format"]],
        security=_security(options.get("signed", UNSIGNED)),
        transport=_transport(options),
    )


def _transport(options: Options) -> Transport | None:
    """Return libzmq's sockets if these are asked for; else a network chooses by itself."""
    return ZmqTransport(SocketSettings(), None) if options.get("transport") == "libzmq" else None


def _capture(options: Options) -> CaptureSettings | None:
    """Record when asked, in small segments: closing them is part of the price."""
    if "directory" not in options:
        return None
    return CaptureSettings(directory=options["directory"], level=CaptureLevel.OFF, segment_bytes=SEGMENT_BYTES)


def _security(signed: str) -> NoSecurity | DomainSecurity:
    if signed == UNSIGNED:
        return NoSecurity()
    kinds = ("Ask", "Told", "Note", "HowMany", "SoMany", "RecordAs", "Recording")
    return DomainSecurity([Domain("bench", KEY, kinds, profile=Profile(signed))], clock=time.time)


class HubClient:
    """Requests as a service sends them: through the hub, each with a promise and a lifetime."""

    def __init__(self, hub: MessageHub) -> None:
        self._hub = hub

    async def ask(self, body: bytes) -> bytes:
        """Await the answer."""
        return await self._hub.send(Ask(body), callback=Told)

    async def tell(self, body: bytes) -> None:
        """Wait for room, if there is none."""
        await self._hub.send_one_way(Note(body))

    async def count(self) -> int:
        """Ask the same actor, which takes its messages in order."""
        return (await self._hub.send(HowMany(), callback=SoMany)).count

    async def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Keep a window of promises, and replace each as its answer comes."""
        hub, content = self._hub, Ask(body)
        promises: deque[Promise[Told]] = deque()
        answered = 0
        started = perf_counter()
        until = started + seconds
        for _ in range(in_flight):
            promises.append(hub.try_send(content, callback=Told))
        while promises:
            answer = await promises.popleft()
            check(len(answer), len(body), "bytes came back")
            answered += 1
            if perf_counter() < until:
                promises.append(hub.try_send(content, callback=Told))
        return answered, perf_counter() - started
