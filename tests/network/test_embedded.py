"""A rendezvous server inside a node: whoever comes first serves the others."""

from __future__ import annotations

import pytest

from hopline import ArgumentError, Network, Node, RendezvousServer, RendezvousSettings
from tests.network.processes import free_ports
from tests.node.running import on_loop, until


def network(port: int) -> Network:
    return Network(rendezvous=[f"tcp://127.0.0.1:{port}"], embedded=True)


@on_loop
async def test_the_first_serves_and_when_it_stops_the_second_does() -> None:
    (port,) = free_ports(1)
    first, second = Node(network=network(port)), Node(network=network(port))
    await first.start()
    await second.start()
    try:
        assert (first.is_serving, second.is_serving) == (True, False)
        assert first.is_joined
        assert second.is_joined
        await until(lambda: len(second.known_nodes) == 1)
        await first.stop()
        await until(lambda: not second.known_nodes)  # its goodbye was relayed by its own server
        await until(lambda: second.is_serving)
        await until(lambda: second.is_joined)
        async with Node(network=network(port)) as third:
            await until(lambda: len(third.known_nodes) == 1)
            assert not third.is_serving
    finally:
        await first.stop()
        await second.stop()


@on_loop
async def test_who_finds_a_server_does_not_serve() -> None:
    ports = free_ports(3)
    address, unicast, partner = (f"tcp://127.0.0.1:{port}" for port in ports)
    settings = RendezvousSettings(address=address, unicast_address=unicast, partner_address=partner)
    async with RendezvousServer(settings) as server, Node(network=Network(rendezvous=[server.address])) as plain:
        async with Node(network=Network(rendezvous=[server.address], embedded=True)) as node:
            assert node.is_joined
            assert not node.is_serving
        assert not plain.is_serving


def test_several_servers_are_nobodys_to_embed() -> None:
    with pytest.raises(ArgumentError, match="one server, which is this node's own or another's"):
        Network(rendezvous=["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"], embedded=True)


@on_loop
async def test_a_server_for_other_machines_needs_keys_as_any_other() -> None:
    network = Network(rendezvous=["tcp://10.1.2.3:8001"], embedded=True)
    with pytest.raises(ArgumentError, match="a loopback address, or keys"):
        await Node(network=network).start()
