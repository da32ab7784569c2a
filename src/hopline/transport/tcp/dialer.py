"""Keeps one connection to an address: connects, shakes hands, and connects again when it broke."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import time
from collections.abc import Callable

from hopline.transport.address import one_place
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.connection import Connection, Handler
from hopline.transport.tcp.sockets import (
    SocketAddress,
    is_connected_to_itself,
    numeric_address,
    socket_address,
    tune,
)
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Ready

_UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)
_SPREAD = 0.5  # pauses differ by up to this part, so that many who lost one peer do not come back at once


class Dialer(Handler):
    """Dials an address until it is closed. Subclasses override what is called on the way."""

    def __init__(
        self,
        uri: str,
        protocol: Callable[[], Protocol],
        settings: SocketSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = one_place(uri)
        self._protocol = protocol
        self._settings = settings
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pause = settings.reconnect_interval
        self._timer: asyncio.TimerHandle | None = None
        self._lookup: asyncio.Task[None] | None = None
        self._dialing: socket.socket | None = None
        self._connection: Connection | None = None
        self._is_open = True
        self._dial()

    # -- what subclasses override --------------------------------------------------------------------------------------

    def came_up(self, connection: Connection, peer: Ready) -> None:
        """Note that there is a connection to send on."""

    def went_down(self, reason: str) -> None:
        """Note that the connection is gone that there was."""

    def unreachable(self, reason: str) -> None:
        """Note that there is no connection, after an attempt failed or a connection broke. It is tried again."""

    # -- connecting ----------------------------------------------------------------------------------------------------

    def _dial(self) -> None:
        self._timer = None
        if not self._address.is_numeric:
            self._lookup = self._loop.create_task(self._look_up())
            return
        try:
            place = numeric_address(self._address)
        except OSError as error:  # the zone of an IPv6 address, which only this system can judge
            self._fail_soon(f"{error.strerror}")
        else:
            self._connect(place)

    async def _look_up(self) -> None:
        try:
            place = await socket_address(self._address)
        except OSError as error:
            self._failed(f"{self._address.host} cannot be looked up: {error.strerror}")
        else:
            self._connect(place)

    def _connect(self, where: SocketAddress) -> None:
        family, place = where
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no file descriptor is left, or no IPv6
            self._fail_soon(f"{error.strerror}")
            return
        tune(sock, self._settings)
        self._dialing = sock
        result = sock.connect_ex(place)
        if result in _UNDER_WAY:
            self._loop.add_writer(sock, self._connected)
            self._timer = self._loop.call_later(self._settings.handshake_timeout, self._took_too_long)
        elif result:
            self._forget_attempt()
            self._fail_soon(os.strerror(result))
        else:
            self._connected()

    def _connected(self) -> None:
        sock = self._dialing
        if sock is None:
            return
        self._stop_waiting()
        self._loop.remove_writer(sock)
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        try:
            if not problem and is_connected_to_itself(sock):
                problem = errno.ECONNREFUSED
        except OSError as error:
            problem = error.errno or errno.ECONNREFUSED
        self._dialing = None
        if problem:
            sock.close()
            self._failed(os.strerror(problem))
        else:
            self._connection = Connection(sock, self._protocol(), self, self._settings, self._clock)

    def _took_too_long(self) -> None:
        self._forget_attempt()
        self._failed("nobody answered in time")

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_attempt(self) -> None:
        sock, self._dialing = self._dialing, None
        if sock is not None:
            self._loop.remove_writer(sock)
            sock.close()

    def _fail_soon(self, reason: str) -> None:
        """Report a failure after the caller has returned, which may be the constructor."""
        self._timer = self._loop.call_later(0, self._failed, reason)

    def _failed(self, reason: str) -> None:
        """Dial again after a pause, and report why that is needed."""
        spread = 1 + _SPREAD * random.random()  # noqa: S311 - it spreads attempts over time
        self._timer = self._loop.call_later(self._pause * spread, self._dial)
        self._pause = min(2 * self._pause, self._settings.reconnect_interval_max)
        self.unreachable(reason)

    # -- what the connection reports -----------------------------------------------------------------------------------

    def ready(self, connection: Connection, peer: Ready) -> None:
        """Report a connection that can be used."""
        self.came_up(connection, peer)
        if self._connection is connection:
            self._pause = self._settings.reconnect_interval

    def closed(self, connection: Connection, reason: str) -> None:  # noqa: ARG002 - there is one
        """Report that the connection is gone, and dial again."""
        self._connection = None
        self.went_down(reason)
        if self._is_open:
            self._failed(reason)

    def redial(self, reason: str) -> None:
        """Leave whoever answered, who is not the one that was meant, and dial again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._failed(reason)

    def close(self, linger: float = 0.0) -> None:
        """Dial no more; what was sent may still leave, for so many seconds."""
        self._is_open = False
        self._stop_waiting()
        if self._lookup is not None:
            self._lookup.cancel()
        self._forget_attempt()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(linger)
