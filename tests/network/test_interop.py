"""Our transport and libzmq's sockets understand each other, in both directions, whatever the size of messages."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Self

import pytest

from hopline.transport import Peers, SocketSettings, Transport
from tests.node.running import on_loop, until
from tests.transport.ends import NODE, Inbox, World, hello

from .processes import LONGEST, ROOT, free_addresses
from .zmq_program import GREETING, MANY_FRAMES, SIZES, describe, message

ALL = range(len(SIZES) + 1)  # the numbers of the messages of every size, and of the one of many frames
SMALL = 1_000  # the number of the first of the small ones
DESCRIBED = {number: describe(message(number)) for number in ALL}


class ZmqProcess:
    """One process of `tests.network.zmq_program`, and what it received."""

    def __init__(self, socket: str, **options: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.network.zmq_program", json.dumps({"socket": socket, **options})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.lines: list[Any] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # else it was killed while it wrote
                self.lines.append(json.loads(line))

    @property
    def received(self) -> list[Any]:
        """What was received, but for greetings, which are sent until somebody listens."""
        return [line[:3] for line in self.lines[1:] if line[0] != GREETING]

    @property
    def by_connection(self) -> list[list[Any]]:
        """What was received, for each connection."""
        lines = self.lines[1:]
        return [[line[:3] for line in lines if line[3] == sender] for sender in {line[3] for line in lines}]

    async def uri(self) -> str:
        await until(lambda: self.lines)
        return str(self.lines[0])

    def send(self, *numbers: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{number}\n" for number in numbers))
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(LONGEST)
        self._listener.join(LONGEST)  # it reads to the end before its stream is closed
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Received:
    """Describes what arrives here, without keeping it."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def take(self, frames: list[bytes]) -> None:
        self.all.append(describe(frames))

    def take_routed(self, frames: list[bytes]) -> None:
        self.take(frames[1:])

    @property
    def messages(self) -> list[Any]:
        return [each for each in self.all if each[0] != GREETING]


def peers_of(transport: Transport, world: World) -> Peers:
    """Open links on which a message stands for that of its number."""
    return transport.peers(
        lambda offered: offered,
        lambda offered, node, _: [node, *message(int(offered.body))],
        lambda *_: None,
        world.clock,
    )


def everything(received: list[Any]) -> bool:
    assert received == [DESCRIBED[number] for number in ALL[: len(received)]]
    return len(received) == len(ALL)


@on_loop
async def test_our_listener_takes_what_a_dealer_sends() -> None:
    world, received = World("tcp"), Received()
    listener = world.inbox(NODE).listener
    listener.read(received.take_routed)
    with ZmqProcess("DEALER", connect=listener.uri, sends=True) as dealer:
        dealer.send(*ALL)
        await until(lambda: everything(received.all))
    world.close()


@on_loop
async def test_our_listener_takes_what_a_router_sends_to_its_identity() -> None:
    world, received = World("tcp"), Received()
    listener = world.inbox(NODE).listener
    listener.read(received.take_routed)
    with ZmqProcess("ROUTER", connect=listener.uri, sends=True, to=NODE.decode()) as router:
        router.send(*ALL)
        await until(lambda: everything(received.all))
    world.close()


@on_loop
async def test_a_router_takes_what_our_sender_sends() -> None:
    world = World("tcp")
    with ZmqProcess("ROUTER") as router:
        sender = world.sender(await router.uri())
        assert all(sender.send(message(number)) for number in ALL)
        await until(lambda: everything(router.received))
    world.close()


@on_loop
async def test_a_router_takes_what_goes_over_our_link() -> None:
    world = World("tcp")
    with ZmqProcess("ROUTER", identity=NODE.decode()) as router:
        peers = peers_of(world.transport(), world)
        link = peers.link(NODE, await router.uri())
        assert all(link.offer(hello(number)) for number in ALL)
        await until(lambda: everything(router.received))
        peers.close(0.0)
    world.close()


@on_loop
async def test_a_sub_hears_what_our_publisher_publishes() -> None:
    world = World("tcp")
    publisher, uri = world.publisher()
    with ZmqProcess("SUB", connect=uri) as sub:

        def is_there() -> bool:
            publisher.send(message(GREETING))
            return len(sub.lines) > 1

        await until(is_there)
        assert all(publisher.send(message(number)) for number in ALL)
        await until(lambda: everything(sub.received))
    world.close()


@on_loop
async def test_our_subscriber_hears_what_a_pub_publishes() -> None:
    world, received = World("tcp"), Received()
    with ZmqProcess("PUB", sends=True) as pub:
        world.subscriber(received.take).connect(await pub.uri())

        def is_there() -> bool:
            pub.send(GREETING)
            return bool(received.all)

        await until(is_there)
        pub.send(*ALL)
        await until(lambda: everything(received.messages))
    world.close()


def test_the_messages_are_of_every_size() -> None:
    assert [len(message(number)[1]) for number in ALL[:-1]] == list(SIZES)
    assert len(message(ALL[-1])) == 1 + MANY_FRAMES
    assert max(SIZES) < SocketSettings().max_frame_size


# -- restarts ----------------------------------------------------------------------------------------------------------

RESTARTS = 6
BURST = 300  # small messages, a few bytes to 64 KB each


def in_order(received: list[Any]) -> bool:
    """Return whether messages are as they were sent, and none came before an earlier one or twice."""
    numbers = [each[0] for each in received]
    return numbers == sorted(set(numbers)) and all(each == describe(message(each[0])) for each in received)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_dealers_send_stays_whole_and_in_order_while_both_sides_are_restarted(seed: int) -> None:
    @on_loop
    async def run() -> None:
        world, chance = World("tcp"), random.Random(seed)
        (uri,) = free_addresses(1)
        inbox = (await world.inbox_at(uri)).read()
        by_connection: dict[tuple[int, bytes], list[Any]] = {}
        inboxes: list[Inbox] = [inbox]
        dealers = [ZmqProcess("DEALER", connect=uri, sends=True)]
        first = SMALL
        try:
            for _ in range(RESTARTS):
                dealers[-1].send(*range(first, first + BURST))
                first += BURST
                enough = len(inbox.got) + chance.randrange(1, BURST // 2)
                await until(lambda got=inbox.got, enough=enough: len(got) >= enough)  # type: ignore[misc]
                if chance.random() < 0.5:
                    dealers[-1].end()
                    dealers.append(ZmqProcess("DEALER", connect=uri, sends=True))
                else:
                    inbox.listener.close()
                    inbox = (await world.inbox_at(uri)).read()
                    inboxes.append(inbox)
        finally:
            for dealer in dealers[:-1]:
                assert dealer._process.returncode is not None
            dealers[-1].end()
            world.close()
        for number, each in enumerate(inboxes):
            for identity, *frames in each.got:
                by_connection.setdefault((number, identity), []).append(describe(frames))
        assert len(by_connection) > 1
        assert all(in_order(received) for received in by_connection.values())

    run()


@pytest.mark.parametrize("seed", [3, 4])
def test_what_our_links_send_stays_whole_and_in_order_while_both_sides_are_restarted(seed: int) -> None:
    @on_loop
    async def run() -> None:
        world, chance = World("tcp"), random.Random(seed)
        (uri,) = free_addresses(1)
        routers = [ZmqProcess("ROUTER", identity=NODE.decode(), bind=uri)]
        settings = {"refusal_timeout": LONGEST, "handshake_timeout": LONGEST, "reconnect_interval_max": 0.1}
        peers = peers_of(world.transport(**settings), world)
        number = SMALL
        try:
            for _ in range(RESTARTS):
                router = routers[-1]
                enough = len(router.received) + chance.randrange(1, BURST // 2)
                while len(router.received) < enough:
                    if peers.link(NODE, uri).offer(hello(number)):
                        number += 1
                    await asyncio.sleep(0)
                if chance.random() < 0.5:
                    router.end()
                    routers.append(ZmqProcess("ROUTER", identity=NODE.decode(), bind=uri))
                else:
                    peers.close(0.0)
                    peers = peers_of(world.transport(**settings), world)
            last = number

            def is_heard() -> bool:  # what leaves before it shows that a router was killed is lost
                nonlocal number
                if peers.link(NODE, uri).offer(hello(number)):
                    number += 1
                return any(each[0] >= last for each in routers[-1].received)

            await until(is_heard)
        finally:
            peers.close(0.0)
            for router in routers:
                if router._process.returncode is None:
                    router.end()
            world.close()
        assert all(in_order(received) for router in routers for received in router.by_connection)

    run()
