"""Who may enter an encrypted network: the answers to libzmq's questions (ZAP, rfc.zeromq.org/spec/27)."""

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
_REQUEST_FRAMES = 6  # version, request, domain, address, identity, mechanism; then the credentials


class ZapAuthenticator:
    """Answers for all encrypted sockets of this process; libzmq asks one for each context.

    It does so on the loop of one of them. When that has none left, it goes on with another's.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Curve, asyncio.AbstractEventLoop]] = []
        self._socket: zmq.Socket[bytes] | None = None
        self._inlet: SocketReader | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.RLock()  # loops may be in several threads
        self.refused = 0

    def add(self, curve: Curve) -> None:
        """Let in whom these keys admit."""
        with self._lock:
            self._known = [one for one in self._known if not one[1].is_closed()]
            self._known.append((curve, asyncio.get_running_loop()))
            if self._loop is not None and self._loop.is_closed():  # it ended, and left the door to nobody
                self._close()
            self._open()

    def remove(self, curve: Curve) -> None:
        """Forget keys; without any, the door is nobody's to keep."""
        with self._lock:
            mine = curve, asyncio.get_running_loop()
            if mine in self._known:
                self._known.remove(mine)
            others = [loop for _, loop in self._known if not loop.is_closed()]
            if self._loop is not None and self._loop not in others:
                self._close()
                if others:
                    others[0].call_soon_threadsafe(self._open)

    def _open(self) -> None:
        with self._lock:
            if self._socket is None and self._known:
                self._loop = asyncio.get_running_loop()
                self._socket = shared_context().socket(zmq.REP)
                self._socket.linger = 0
                self._socket.bind(_ENDPOINT)
                self._inlet = SocketReader(self._socket, self._answer, batch=_BATCH)

    def _close(self) -> None:
        if self._socket is not None and self._inlet is not None and self._loop is not None:
            self._socket.unbind(_ENDPOINT)  # closing alone frees it some time later
            if self._loop.is_closed():
                self._socket.close(0)
            else:
                self._inlet.close()
        self._inlet = self._socket = self._loop = None

    def _answer(self, frames: list[bytes]) -> None:
        request = frames[1] if len(frames) > 1 else b""
        is_admitted = len(frames) > _REQUEST_FRAMES and self._admits(frames[2], frames[5], frames[6])
        if not is_admitted:
            self.refused += 1
            log.warning("refused a peer whose key is not admitted, from %s", frames[3].decode("ascii", "replace"))
        status = (b"200", b"OK") if is_admitted else (b"400", b"not admitted")
        if self._socket is not None:
            self._socket.send_multipart([_VERSION, request, *status, b"", b""])

    def _admits(self, domain: bytes, mechanism: bytes, key: bytes) -> bool:
        if mechanism != b"CURVE":
            return False
        shown = z85.encode(key)
        known = [curve for curve, _ in tuple(self._known) if curve.zap_domain == domain]
        return any(not curve.admitted or shown in curve.admitted for curve in known)


doorkeeper = ZapAuthenticator()
