"""Floods over real sockets: what they cost, and who is served meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import zmq

from hopline.transport import SocketSettings
from tests.node.running import on_loop, until

from .frames import V5, address_of, read
from .ours import QUICK, Reversing, attachment, membership, our_node, rendezvous
from .processes import free_ports
from .scripted import KinoNode, guid, receive

CAPACITY = 8
QUESTIONS = 150


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@on_loop
async def test_questions_that_name_silent_addresses_do_not_use_up_file_descriptors() -> None:
    cluster = msgspec.structs.replace(QUICK, answer_links=CAPACITY)
    async with (
        rendezvous(V5) as server,
        our_node(V5, server.address, actors=(Reversing(),), cluster=cluster) as node,
        KinoNode(V5, server.address.broadcast_uri, server.address.unicast_uri) as asker,
    ):
        with socket.create_server(("127.0.0.1", 0), backlog=QUESTIONS) as silent:  # it shakes no hands
            uri = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
            before = open_files()
            heard = membership(node).traffic.received
            for _ in range(QUESTIONS):
                await asker.say_plainly(b"KINO.REQCLUSTROUTES", address_of(uri, guid()))
            await until(lambda: membership(node).traffic.received >= heard + QUESTIONS)
            report = attachment(node).report()
            assert report is not None
            assert len(report.links) <= CAPACITY
            await until(lambda: open_files() <= before + 8 * CAPACITY)
            await asker.say_plainly(b"KINO.REQCLUSTROUTES", address_of(asker.uri, asker.identity))
            assert await receive(asker.frontend)  # while those before it have their time to connect, or soon after


@on_loop
async def test_a_node_that_is_too_busy_to_shake_hands_stays_known_and_is_answered_later() -> None:
    (port,) = free_ports(1)
    impatient = SocketSettings(handshake_timeout=0.2)
    async with (
        rendezvous(V5) as server,
        our_node(V5, server.address, actors=(Reversing(),), sockets=impatient) as node,
        KinoNode(V5, server.address.broadcast_uri, server.address.unicast_uri) as busy,
    ):
        with socket.create_server(("127.0.0.1", port)):  # it shakes no hands
            busy.uri = f"tcp://127.0.0.1:{port}"
            await busy.join()
            await until(lambda: busy.identity in membership(node).health)
            await until(lambda: attachment(node).outbound.peers.links)
            await until(lambda: not attachment(node).outbound.peers.links)
            assert busy.identity in membership(node).health
        frontend = busy.socket(zmq.ROUTER, identity=busy.identity, connect="")
        frontend.bind(busy.uri)
        answer = read(V5, await receive(frontend))
        assert answer.identity == b"KINO.REGEXTROUTE"
        assert node.identity in answer.body
