"""Admits peers to encrypted sockets: answers libzmq's authentication requests (ZAP, rfc.zeromq.org/spec/27)."""

from __future__ import annotations

import asyncio
import threading

import zmq
from zmq.utils import z85

from hopline.message import get_logger
from hopline.transport.curve import Curve
from hopline.transport.libzmq.reader import SocketReader
from hopline.transport.libzmq.sockets import shared_context

log = get_logger("hopline.transport")

_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"
_BATCH = 100


class ZapAuthenticator:
    """Answers for all encrypted sockets of this process: libzmq has one authenticator for each context.

    It runs on the event loop of one of the registered sockets. When that loop has no more of them, another one's loop
    takes over.
    """

    def __init__(self) -> None:
        self._registered: list[tuple[Curve, asyncio.AbstractEventLoop]] = []
        self._socket: zmq.Socket[bytes] | None = None
        self._reader: SocketReader | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.RLock()  # loops may be in several threads
        self.refused = 0

    def add(self, curve: Curve) -> None:
        """Admit the peers that these keys admit."""
        with self._lock:
            registered = self._registered
            open_ones = [(other, loop) for other, loop in registered if not loop.is_closed()]
            registration = (curve, asyncio.get_running_loop())
            self._registered = [*open_ones, registration]
            if self._loop is not None and self._loop.is_closed():  # it ended without removing its keys
                self._close()
            self._open()

    def remove(self, curve: Curve) -> None:
        """Remove keys. Without any keys nothing is answered."""
        with self._lock:
            registration = (curve, asyncio.get_running_loop())
            if registration in self._registered:
                self._registered.remove(registration)
            loops = [loop for _, loop in self._registered]
            open_loops = [loop for loop in loops if not loop.is_closed()]
            if self._loop is None or self._loop in open_loops:
                return
            self._close()
            if open_loops:
                successor = open_loops[0]
                successor.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        with self._lock:
            if self._socket is not None or not self._registered:
                return
            socket = shared_context().socket(zmq.REP)
            socket.linger = 0
            socket.bind(_ENDPOINT)
            self._loop = asyncio.get_running_loop()
            self._socket = socket
            self._reader = SocketReader(socket, self._answer, batch=_BATCH)

    def _close(self) -> None:
        if self._socket is not None and self._reader is not None and self._loop is not None:
            self._socket.unbind(_ENDPOINT)  # closing alone frees the endpoint only some time later
            if self._loop.is_closed():
                self._socket.close(0)
            else:
                self._reader.close()
        self._reader = None
        self._socket = None
        self._loop = None

    def _answer(self, frames: list[bytes]) -> None:
        # libzmq itself asks, so that a request always has its first six frames; other mechanisms have no credentials.
        _, request, domain, address, _, mechanism, *credentials = frames
        key = credentials[0] if credentials else b""
        is_admitted = self._admits(domain, mechanism, key)
        if not is_admitted:
            self.refused += 1
            peer = address.decode("ascii", "replace")
            log.warning("refused a peer whose key is not admitted, from %s", peer)
        status = (b"200", b"OK") if is_admitted else (b"400", b"not admitted")
        if self._socket is not None:
            self._socket.send_multipart([_VERSION, request, *status, b"", b""])

    def _admits(self, domain: bytes, mechanism: bytes, key: bytes) -> bool:
        if mechanism != b"CURVE":
            return False
        peer_key = z85.encode(key)
        registered = tuple(self._registered)  # a copy: another thread may change it
        for curve, _ in registered:
            if curve.zap_domain != domain:
                continue
            if not curve.admitted or peer_key in curve.admitted:
                return True
        return False


zap_authenticator = ZapAuthenticator()
