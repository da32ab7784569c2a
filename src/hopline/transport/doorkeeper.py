"""Who may enter an encrypted network: the answers to libzmq's questions (ZAP, rfc.zeromq.org/spec/27)."""

from __future__ import annotations

import logging

import zmq
from zmq.utils import z85

from hopline.transport.curve import Curve
from hopline.transport.inlet import Inlet
from hopline.transport.sockets import shared_context

log = logging.getLogger("hopline.transport")

_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"
_BATCH = 100
_REQUEST_FRAMES = 6  # version, request, domain, address, identity, mechanism; then the credentials


class Doorkeeper:
    """Answers for all encrypted sockets of this process; libzmq asks one for each context."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[Curve]] = {}
        self._socket: zmq.Socket[bytes] | None = None
        self._inlet: Inlet | None = None
        self.refused = 0

    def add(self, curve: Curve) -> None:
        """Let in whom these keys admit."""
        self._known.setdefault(curve.zap_domain, []).append(curve)
        if self._inlet is None:
            self._socket = shared_context().socket(zmq.REP)
            self._socket.linger = 0
            self._socket.bind(_ENDPOINT)
            self._inlet = Inlet(self._socket, self._answer, batch=_BATCH)

    def remove(self, curve: Curve) -> None:
        """Forget keys; without any, the door is nobody's to keep."""
        known = self._known.get(curve.zap_domain, [])
        if curve in known:
            known.remove(curve)
        if not known:
            self._known.pop(curve.zap_domain, None)
        if not self._known and self._inlet is not None and self._socket is not None:
            self._socket.unbind(_ENDPOINT)  # closing alone frees it some time later
            self._inlet.close()
            self._inlet = self._socket = None

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
        return any(not curve.admitted or shown in curve.admitted for curve in self._known.get(domain, ()))


doorkeeper = Doorkeeper()
