"""Simulated links keep the promises of real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from hopline.message import Message, WireFormat
from hopline.simulation import VirtualLoop
from hopline.simulation.links import SimulatedLink, SimulatedPeers
from hopline.simulation.network import VirtualNetwork
from hopline.simulation.transport import SimulatedTransport
from hopline.wire import encode


def test_waiting_for_room_ends_at_once_if_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = VirtualLoop()
    network = VirtualNetwork(loop, Random(1), link_capacity=1)
    arrived: list[Callable[[], None]] = []
    monkeypatch.setattr(network, "transmit", lambda _, __, ___, ended, ____: arrived.append(ended))
    peers = SimulatedPeers(
        network,
        network.host("a"),
        lambda message: message,
        lambda message, node, _: encode(message.clone(socket_identity=node), WireFormat.V5),
        lambda *_: None,
        loop.time,
    )
    SimulatedTransport(network, "b").listener("tcp://b:9000", "address", identity=b"node-b")

    async def connected() -> SimulatedLink:
        link = peers.link(b"node-b", "tcp://b:9000")
        while link.is_silent:
            await asyncio.sleep(0.01)
        return link

    async def wait() -> None:
        link = await connected()
        assert link.offer(Message(b"HELLO"))
        assert not link.offer(Message(b"HELLO"))
        waiting = asyncio.ensure_future(link.room())
        arrived.pop()()  # before the task begins; nothing follows that could wake it
        async with asyncio.timeout(60):
            await waiting

    try:
        loop.run_until_complete(wait())
    finally:
        peers.close(0.0)
        loop.close()
