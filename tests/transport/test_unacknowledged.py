"""What left on a connection that broke is told apart, as far as the system knows what became of it."""

from __future__ import annotations

import asyncio
import socket
import sys
import time

import pytest

from hopline import Message, WireFormat
from hopline.transport import SocketSettings
from hopline.transport.tcp.peers import TcpPeers
from hopline.wire import encode
from hopline.zmtp import Connection, SocketType
from tests.node.running import on_loop, until

NODE = b"node-a"
LARGE = bytes(100_000)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


async def welcome(listener: socket.socket) -> tuple[socket.socket, Connection]:
    """Accept one connection and shake hands."""
    loop = asyncio.get_running_loop()
    sock, _ = await loop.sock_accept(listener)
    sock.setblocking(False)
    protocol = Connection(SocketType.ROUTER, NODE)
    while not protocol.is_ready:
        await loop.sock_sendall(sock, protocol.take_output())
        protocol.receive(await loop.sock_recv(sock, 65_536))
    await loop.sock_sendall(sock, protocol.take_output())
    return sock, protocol


@pytest.mark.parametrize("end", ["the peer resets the connection", "the peer is silent and given up"])
@on_loop
async def test_messages_that_the_peers_system_never_had_are_counted_and_the_others_are_not(end: str) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        left: list[bytes] = []
        peers = TcpPeers(
            SocketSettings(refusal_timeout=0.2),
            lambda message: message,
            lambda message, node, _: encode(message.clone(socket_identity=node), WireFormat.V5),
            lambda *_: None,
            time.monotonic,
        )
        peers.on_sent = lambda node, *_: left.append(node)
        link = peers.link(NODE, f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        sock, protocol = await asyncio.wait_for(welcome(listener), 10)
        await until(lambda: not link.is_silent)
        assert link.offer(Message.flow_start(b"SMALL", b"").clone(hops=1))
        await until(lambda: len(left) == 1)
        loop = asyncio.get_running_loop()
        assert len(protocol.receive(await loop.sock_recv(sock, 65_536))) == 1
        while not link.waiting:  # until the system takes no more
            assert link.offer(Message.flow_start(b"LARGE", LARGE).clone(hops=1))
            await asyncio.sleep(0)
        if end == "the peer is silent and given up":
            assert peers.disconnect(NODE)
            assert 0 < peers.unacknowledged < len(left)
            sock.close()
            return
        sock.close()  # with unread bytes, which resets the connection
        await until(lambda: link.is_silent)
        assert 0 < peers.unacknowledged < len(left)
        peers.close(0)
