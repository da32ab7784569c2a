"""Which implementation carries a network."""

from __future__ import annotations

from hopline.transport.curve import Curve, require_libzmq
from hopline.transport.interface import Transport
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp import TcpTransport


def open_transport(settings: SocketSettings, curve: Curve | None = None) -> Transport:
    """Return what carries a network: libzmq where links are encrypted, else our own ZMTP."""
    if curve is None:
        return TcpTransport(settings)
    require_libzmq()
    from hopline.transport.libzmq import ZmqTransport

    return ZmqTransport(settings, curve)
