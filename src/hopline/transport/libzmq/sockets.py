"""libzmq sockets, with every option set in one place. Nothing here knows what the frames mean."""

from __future__ import annotations

import atexit
import functools
import os
from contextlib import suppress

import zmq

from hopline.message import BindError
from hopline.transport.address import Address, look_up
from hopline.transport.curve import Curve
from hopline.transport.interface import Frames
from hopline.transport.settings import SocketSettings

_NOW = int(zmq.NOBLOCK)
_NOW_AND_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_IPV6 = "tcp://["
_MAX_SOCKETS = 20_000
_PUBLISHED = (zmq.PUB, zmq.SUB)  # where signs of life are what is published

# The methods of the C part itself: those of `zmq.Socket` on top of it look at every frame for what we never send. What
# is received without a copy knows whether more follows, which costs half of asking the socket for it.
_send = zmq.backend.Socket.send
_receive = zmq.backend.Socket.recv
_option = zmq.backend.Socket.get


@functools.cache
def _context_of(process: int) -> zmq.Context[zmq.Socket[bytes]]:  # noqa: ARG001 - a fork needs another one
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
    atexit.register(_flush_closed_sockets, context)
    return context


def _flush_closed_sockets(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """Let libzmq send what closed sockets still hold, each for its linger time.

    Sockets that are still open are closed without waiting. This runs while the interpreter shuts down, when Python
    3.12 and later start no more threads: the sockets' own linger times bound the wait.
    """
    with suppress(KeyboardInterrupt):  # interrupted: do not wait
        context.destroy(0)


def shared_context() -> zmq.Context[zmq.Socket[bytes]]:
    """Return the context of this process, whose one I/O thread serves all nodes of the process."""
    return _context_of(os.getpid())


def open_socket(
    kind: int,
    settings: SocketSettings,
    *,
    identity: bytes = b"",
    curve: Curve | None = None,
    is_server: bool = False,
) -> zmq.Socket[bytes]:
    """Open a socket. With CURVE, `is_server` is true on the side whose public key the other one knows in advance."""
    socket = shared_context().socket(kind)
    socket.linger = 0
    socket.sndhwm = settings.send_high_water
    socket.rcvhwm = settings.receive_high_water
    socket.set(zmq.MAXMSGSIZE, settings.max_frame_size)
    socket.set(zmq.RECONNECT_IVL, _milliseconds(settings.reconnect_interval))
    socket.set(zmq.RECONNECT_IVL_MAX, _milliseconds(settings.reconnect_interval_max))
    if settings.heartbeat_interval and kind not in _PUBLISHED:
        socket.set(zmq.HEARTBEAT_IVL, _milliseconds(settings.heartbeat_interval))
        socket.set(zmq.HEARTBEAT_TIMEOUT, _milliseconds(settings.heartbeat_timeout))
    if kind == zmq.ROUTER:
        socket.set(zmq.ROUTER_MANDATORY, 1)
    if identity:
        socket.set(zmq.ROUTING_ID, identity)
    if curve is not None:
        _encrypt(socket, curve, is_server=is_server)
    return socket


def _encrypt(socket: zmq.Socket[bytes], curve: Curve, *, is_server: bool) -> None:
    """Encrypt what a socket that is not connected yet will send and receive."""
    if is_server:
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_PUBLICKEY, curve.network_public)
        socket.set(zmq.CURVE_SECRETKEY, curve.network_secret)
        socket.set(zmq.ZAP_DOMAIN, curve.zap_domain)
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)  # otherwise libzmq admits every peer while there is no authenticator
    else:
        socket.set(zmq.CURVE_SERVERKEY, curve.network_public)
        socket.set(zmq.CURVE_PUBLICKEY, curve.public)
        socket.set(zmq.CURVE_SECRETKEY, curve.secret)


def bind(socket: zmq.Socket[bytes], address: Address, field: str = "address") -> str:
    """Bind a socket to the first free port of a range, and return its address; raise `BindError` if there is none."""
    problem: zmq.ZMQError | None = None
    host = address.host
    if not address.is_everywhere:
        host = look_up(host, field)  # libzmq binds to numeric addresses only
    socket.ipv6 = host.startswith("[")
    numeric = Address(host, address.first_port, address.last_port)
    for candidate in numeric.candidates:
        try:
            socket.bind(candidate)
        except zmq.ZMQError as error:
            problem = error
        else:
            return socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
    number = None if problem is None else problem.errno
    raise BindError(field, str(address), str(problem), number) from problem


def connect(socket: zmq.Socket[bytes], uri: str) -> None:
    """Connect a socket; raise `zmq.ZMQError` for an address that cannot be connected to."""
    socket.ipv6 = uri.startswith(_IPV6)  # only then: else libzmq may take a name for an IPv6 address
    socket.connect(uri)


def send(socket: zmq.Socket[bytes], frames: Frames) -> None:
    """Send a message without waiting; raises `zmq.Again` or another `zmq.ZMQError` with nothing sent."""
    for frame in frames[:-1]:
        _send(socket, frame, _NOW_AND_MORE)
    _send(socket, frames[-1], _NOW)


def receive(socket: zmq.Socket[bytes]) -> list[bytes]:
    """Receive a message without waiting; raises `zmq.Again` when there is none."""
    frame = _receive(socket, _NOW, False)
    frames = [frame.bytes]
    while frame.more:
        frame = _receive(socket, _NOW, False)
        frames.append(frame.bytes)
    return frames


def receive_routed(socket: zmq.Socket[bytes]) -> list[bytes]:
    """Receive a message from a ROUTER, as `receive` does: it puts a frame in front, which something always follows."""
    frames = [_receive(socket, _NOW)]
    is_last = False
    while not is_last:
        frame = _receive(socket, _NOW, False)
        frames.append(frame.bytes)
        is_last = not frame.more
    return frames


def has_more(socket: zmq.Socket[bytes]) -> bool:
    """Return whether a message can be received; takes less than half the time of a `receive` that raises."""
    events = int(_option(socket, _EVENTS))
    return bool(events & _POLLIN)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
