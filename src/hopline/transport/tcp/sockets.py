"""Plain TCP sockets, with every option set in one place."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from typing import Any, TypeAlias

from hopline.message import BindError
from hopline.transport.address import Address, look_up
from hopline.transport.settings import SocketSettings

SocketAddress: TypeAlias = tuple[socket.AddressFamily, Any]

_INT = struct.Struct("i")
_BACKLOG = 1_024
_PROBES = 3  # of keep-alive, before the system gives a connection up
_LONGEST_PROBE = 32_767  # seconds between them that Linux takes
_LONGEST_TIMEOUT = 2**31 - 1  # milliseconds that it takes
_ANY_IPV4 = "0.0.0.0"  # noqa: S104 - what `*` means


def listen(address: Address, field: str) -> tuple[socket.socket, str]:
    """Bind to the first free port of a range, and return the socket and its address.

    Raises:
        BindError: None of the ports can be bound.
    """
    host = _ANY_IPV4 if address.host == "*" else address.host
    host = host if address.is_everywhere else look_up(host, field)
    problem: OSError | None = None
    for port in range(address.first_port, address.last_port + 1):
        try:
            family, place = _numeric(host.strip("[]"), port)
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            problem = error
            continue
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(place)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock, f"tcp://{host}:{sock.getsockname()[1]}"
    number = None if problem is None else problem.errno
    raise BindError(field, str(address), str(problem), number) from problem


def tune(sock: socket.socket, settings: SocketSettings) -> None:
    """Set the options of a connection: no delay before sending, and keep-alive probes."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.heartbeat_interval and settings.heartbeat_timeout:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        seconds = min(max(1, round(settings.heartbeat_timeout / (_PROBES + 1))), _LONGEST_PROBE)
        milliseconds = min(max(1_000, round(settings.heartbeat_timeout * 1_000)), _LONGEST_TIMEOUT)
        for option, value in (
            ("TCP_KEEPIDLE", seconds),
            ("TCP_KEEPINTVL", seconds),
            ("TCP_KEEPCNT", _PROBES),
            ("TCP_USER_TIMEOUT", milliseconds),
        ):
            if hasattr(socket, option):  # not every system has all of them
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def is_connected_to_itself(sock: socket.socket) -> bool:
    """Return whether a socket got the very port that it connected to, where nothing listens. TCP allows that."""
    return bool(sock.getsockname() == sock.getpeername())


def bytes_unacknowledged(sock: socket.socket) -> int:
    """Return how many written bytes the peer's system has not acknowledged; 0 where that is unknown.

    On Linux it is known even after the connection broke.
    """
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return int(_INT.unpack(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size)))[0])
    except OSError:
        return 0


async def socket_address(address: Address) -> SocketAddress:
    """Return where to connect to; names are looked up in a thread, as IPv4 where they can be."""
    if address.is_numeric:
        return numeric_address(address)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.first_port, type=socket.SOCK_STREAM)
    family, _, _, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, place


def numeric_address(address: Address) -> SocketAddress:
    """Return where to connect to, for an address that needs no looking up."""
    return _numeric(address.host.strip("[]"), address.first_port)


def _numeric(host: str, port: int) -> SocketAddress:
    family, _, _, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    )[0]
    return family, place
