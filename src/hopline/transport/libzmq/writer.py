"""The sending side of a socket that has one peer, or any number that all get the same.

libzmq takes note of peers that came and went, and of what they subscribe to, only while its socket is used. A socket
that publishes every few seconds would keep all that meanwhile: a flood of connections fills the memory. So the socket
is looked at whenever its descriptor says that there is something to note.
"""

from __future__ import annotations

import asyncio
from collections import deque

import zmq

from hopline.transport.interface import Frames
from hopline.transport.libzmq.sockets import has_more, send

RETRY = 0.005  # seconds; libzmq tells through the descriptor, which needs a reader, or to who asks again


class SocketWriter:
    """Sends without ever waiting: what finds no room in libzmq is kept, up to a bound, and sent later, in order."""

    def __init__(self, socket: zmq.Socket[bytes], capacity: int) -> None:
        self._socket = socket
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._kept: deque[Frames] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self._descriptor = int(socket.get(zmq.FD))
        self._loop.add_reader(self._descriptor, self._take_note)
        self.overflows = 0

    @property
    def kept(self) -> int:
        """How many messages wait to be sent."""
        return len(self._kept)

    def send(self, frames: Frames) -> bool:
        """Send a message, now or later. Says no, and counts that, when too many wait already."""
        if not self._kept:
            try:
                send(self._socket, frames)
            except zmq.Again:
                pass
            else:
                return True
        if len(self._kept) >= self._capacity:
            self.overflows += 1
            return False
        self._kept.append(frames)
        self._retry_later()
        return True

    def _take_note(self) -> None:
        """Let libzmq do what is due, which asking for the events of a socket is enough for."""
        has_more(self._socket)

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._loop.call_later(RETRY, self._send_kept)

    def _send_kept(self) -> None:
        self._retry = None
        while self._kept:
            try:
                send(self._socket, self._kept[0])
            except zmq.Again:
                self._retry_later()
                return
            self._kept.popleft()

    def close(self, linger: float = 0.0) -> None:
        """Close the socket; libzmq goes on sending what it has, for so many seconds."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._descriptor)
        self._socket.close(round(linger * 1000))
