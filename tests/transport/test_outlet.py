"""The sending side of PUB sockets, while others come and go."""

from __future__ import annotations

import select

import zmq

from hopline.transport import SocketSettings, parse
from hopline.transport.libzmq.sockets import bind, open_socket
from hopline.transport.libzmq.writer import SocketWriter
from tests.node.running import on_loop, until

VISITORS = 20


def come_and_go(context: zmq.Context[zmq.Socket[bytes]], uri: str) -> None:
    """Subscribe, wait until that was heard of, and leave."""
    with context.socket(zmq.SUB) as visitor:
        visitor.linger = 0
        visitor.subscribe(b"nothing that is ever published")
        monitor = visitor.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        visitor.connect(uri)
        assert monitor.poll(60_000)
        visitor.disable_monitor()
        monitor.close(0)


@on_loop
async def test_a_publisher_takes_note_of_who_came_and_went_while_it_publishes_nothing() -> None:
    socket = open_socket(zmq.PUB, SocketSettings())
    uri = bind(socket, parse("tcp://127.0.0.1:0"))
    descriptor = int(socket.get(zmq.FD))
    outlet = SocketWriter(socket, 10)
    try:
        with zmq.Context() as context:
            for _ in range(VISITORS):
                come_and_go(context, uri)
        # What libzmq has not taken note of keeps its descriptor readable, and lies in memory.
        readable = select.poll()
        readable.register(descriptor, select.POLLIN)
        await until(lambda: not readable.poll(0))
    finally:
        outlet.close()
