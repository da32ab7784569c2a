"""The receiving side of a socket, driven by the event loop."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import zmq

from hopline.message import get_logger
from hopline.transport.libzmq.sockets import connect, has_more, receive, receive_routed

log = get_logger("hopline.transport")


class SocketReader:
    """Reads a socket whenever its file descriptor wakes the loop: in batches, without a future for each message.

    The descriptor tells of a change only, and any use of the socket swallows that. Therefore whoever gives a socket to
    an inlet leaves it alone, and the inlet reads until nothing is left.
    """

    def __init__(self, socket: zmq.Socket[bytes], take: Callable[[list[bytes]], None], *, batch: int) -> None:
        self._socket = socket
        self._take = take
        self._batch = batch
        self._receive = receive_routed if socket.type == zmq.ROUTER else receive
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(socket.get(zmq.FD))
        self._is_open = True
        self._is_paused = False
        self._loop.add_reader(self._descriptor, self._drain)
        self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        socket, receive_next, take = self._socket, self._receive, self._take
        for count in range(self._batch):
            if self._is_paused or not self._is_open:  # by what was taken last
                return
            if count == 1 and not has_more(socket):  # one message is usual, or many
                return
            try:
                frames = receive_next(socket)
            except zmq.Again:
                return
            try:
                take(frames)
            except Exception:  # one message must never stop the ones behind it
                log.exception("a message could not be taken in")
        self._loop.call_soon(self._drain)

    def connect(self, uri: str) -> None:
        """Connect the socket, which may swallow a sign of its descriptor, and look what is there."""
        connect(self._socket, uri)
        self._loop.call_soon(self._drain)

    def disconnect(self, uri: str) -> None:
        """Disconnect the socket; from where it is not connected, this does nothing."""
        try:
            self._socket.disconnect(uri)
        except zmq.ZMQError as error:
            if error.errno != errno.ENOENT:
                raise
        self._loop.call_soon(self._drain)

    def pause(self) -> None:
        """Read nothing for now."""
        self._is_paused = True

    def resume(self) -> None:
        """Read again."""
        self._is_paused = False
        self._loop.call_soon(self._drain)

    def close(self) -> None:
        """Stop reading, and close the socket."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._descriptor)
            self._socket.close(0)
