"""Tests of whole nodes on each implementation of the transport: a module imports `each_transport` and is marked so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hopline.node.network import sockets
from hopline.rendezvous import runtime
from hopline.transport import Curve, SocketSettings, Transport, open_transport
from hopline.transport.libzmq import ZmqTransport

IMPLEMENTATIONS: dict[str, Callable[[SocketSettings, Curve | None], Transport]] = {
    "tcp": open_transport,
    "libzmq": ZmqTransport,
}


@pytest.fixture(params=IMPLEMENTATIONS)
def each_transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Carry all networks of a test by one implementation, and then by the other."""

    def opened(settings: SocketSettings, curve: Curve | None = None) -> Transport:
        return IMPLEMENTATIONS[request.param](settings, curve)

    for module in (sockets, runtime):
        monkeypatch.setattr(module, "open_transport", opened)
