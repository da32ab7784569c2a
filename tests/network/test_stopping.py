"""How a node leaves its network: what was on its way to it is handled, and what did not leave is told."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from hopline import Network, Node, NotRunningError, Outcome, RendezvousServer, RendezvousSettings
from tests.node.running import on_loop, until

from .frames import V5, live, registration
from .ours import (
    QUICK,
    Ehhlo,
    Hello,
    Reversing,
    attachment,
    handlers,
    knows,
    membership,
    our_node,
    rendezvous,
    tables,
)
from .processes import free_ports
from .scripted import KinoNode


@on_loop
async def test_what_was_on_its_way_to_a_node_that_is_told_to_stop_is_handled() -> None:
    async with rendezvous() as server, our_node(V5, server.address) as client:
        worker = Node(Reversing(), network=Network(rendezvous=(server.address,), cluster=QUICK))
        await worker.start()
        await until(lambda: handlers(client, b"HELLO"))
        assert await client.hub.send(Hello(b"abcd"), callback=Ehhlo) == b"abdc"
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)  # it begins
        answers = [client.hub.try_send(Hello(b"abcd"), callback=Ehhlo, timeout=2.0) for _ in range(20)]
        assert [await answer for answer in answers] == [b"abdc"] * 20
        assert (await stopping).is_clean


@on_loop
async def test_a_node_that_stops_waits_for_a_slow_peer_that_has_not_heard_of_it_yet() -> None:
    worker_actor = Reversing()
    async with rendezvous() as server:
        worker = Node(worker_actor, network=Network(rendezvous=(server.address,), cluster=QUICK))
        await worker.start()
        async with KinoNode(V5, server.address.broadcast_uri, server.address.unicast_uri) as peer:
            await peer.join()
            await until(lambda: knows(worker, peer.identity))
            await peer.tell(worker.identity, worker.uri, peer.request())
            await until(lambda: worker_actor.seen)
            stopping = asyncio.create_task(worker.stop())
            await peer.hear(b"KINO.UNREGMSGROUTE")
            await peer.hear(b"KINO.REQCLUSTROUTES")
            for _ in range(20):  # it was busy, and reads what it has heard only now
                await peer.tell(worker.identity, worker.uri, peer.request())
            body = registration(peer.uri, peer.identity, [(peer.hub, [])], peer.health_uri, peer.interval)
            answer = live(V5, "server", "send", "KINO.REGEXTROUTE").but(body=body)
            await peer.tell(worker.identity, worker.uri, answer)
            assert (await stopping).is_clean
            assert len(worker_actor.seen) == 21


@on_loop
async def test_a_node_that_stops_waits_for_no_peer_that_sent_nothing() -> None:
    async with rendezvous() as server:
        worker = Node(Reversing(), network=Network(rendezvous=(server.address,), cluster=QUICK))
        await worker.start()
        async with KinoNode(V5, server.address.broadcast_uri, server.address.unicast_uri) as peer:
            await peer.join()
            await until(lambda: knows(worker, peer.identity))
            asked = membership(worker).drain_barrier
            assert (await worker.stop()).is_clean
            assert asked.is_complete


@on_loop
async def test_what_never_left_is_told_when_the_node_stops() -> None:
    async with rendezvous() as server, our_node(V5, server.address, actors=(Reversing(),)) as worker:
        client = Node(network=Network(rendezvous=(server.address,), cluster=QUICK))
        await client.start()
        await until(lambda: handlers(client, b"HELLO"))
        elsewhere = free_ports(1)[0]
        tables(client).external._entry_at(worker.identity, f"tcp://127.0.0.1:{elsewhere}")  # where nobody is
        await client.hub.send_one_way(Hello(b"abcd"))
        report = await client.stop(0.0)
        assert report.failed_messages == 1
        assert not report.is_clean
        assert client.stats().outcomes[Outcome.FAILED] == 1
        assert client.stats().is_balanced


def is_free(port: int) -> bool:
    """Tell whether nobody listens at a port any more: libzmq closes sockets a moment later, in a thread of its own."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@on_loop
async def test_a_node_that_is_stopped_while_it_starts_leaves_nothing_behind() -> None:
    (port,) = free_ports(1)
    network = Network(rendezvous=(f"tcp://127.0.0.1:{port}",), embedded=True, cluster=QUICK)
    node = Node(network=network)
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(0)  # it looks up the names of the servers
    assert node.is_running
    assert node.report().network is None  # not yet
    await node.stop()
    with pytest.raises(NotRunningError):
        await starting
    await until(lambda: is_free(port))
    async with RendezvousServer(RendezvousSettings(address=f"tcp://127.0.0.1:{port}")):
        pass


@on_loop
async def test_a_node_that_cannot_start_leaves_its_port_free() -> None:
    (port,) = free_ports(1)
    network = Network(address=f"tcp://127.0.0.1:{port}", join_timeout=0.0)
    broken: Any = object()
    with pytest.raises(AttributeError):
        await Node(network=network, tracer_provider=broken).start()
    await until(lambda: is_free(port))
    async with Node(network=network) as node:
        assert node.uri == network.address


@on_loop
async def test_stopping_ends_also_when_the_network_cannot_be_left_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(network=Network(join_timeout=0.0))
    await node.start()
    attached = attachment(node)
    close = attached.close

    def fail() -> None:
        close()
        raise OSError("no goodbye")

    monkeypatch.setattr(attached, "close", fail)
    with pytest.raises(OSError, match="no goodbye"):
        await asyncio.wait_for(node.stop(0.0), 2.0)
    assert not node.is_running
