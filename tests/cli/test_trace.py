"""``hopline trace`` among nodes that do not know the probe, as those of the reference."""

from __future__ import annotations

import pytest

from hopline import Actor, MessageIdentifier, Network, Node, Payload, handler
from hopline.actors import HandlerDefinition
from hopline.actors.handler import definitions_of
from hopline.cli import client
from hopline.cli.commands.trace import _draw_probes, _probe_node
from hopline.node.introspection import Introspection
from tests.network.processes import free_ports
from tests.node.running import on_loop, until


class Greet(Payload):
    name: str


class Greeter(Actor):
    @handler
    def greet(self, request: Greet) -> None: ...


@pytest.fixture
def _a_reference_that_knows_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def definitions(actor: Introspection) -> list[HandlerDefinition]:
        every = definitions_of(type(actor))
        return [one for one in every if one.identifier.identity.startswith(b"KINO.")]

    monkeypatch.setattr(Introspection, "definitions", definitions)
    monkeypatch.setattr(client, "REQUEST_TIMEOUT", 0.5)


@pytest.mark.usefixtures("_a_reference_that_knows_no_probe")
def test_a_node_without_the_probe_is_asked_for_its_routes() -> None:
    @on_loop
    async def test() -> None:
        (port,) = free_ports(1)
        network, greeter = Network(rendezvous=[f"tcp://127.0.0.1:{port}"], embedded=True), Greeter()
        async with Node(greeter, network=network) as one, Node(network=network) as other:
            await until(lambda: any(node.actors for node in other.known_nodes))
            (known,) = other.known_nodes
            stop = await _probe_node(other.hub, known, MessageIdentifier(b"Greet"))
            assert stop["node"].encode() == one.identity
            assert stop["probe"] is False
            assert [actor["identity"].encode() for actor in stop["actors"]] == [greeter.identity[1:]]
            _draw_probes({"kind": "Greet/1", "from": "here", "nodes": [stop]})
            await one.stop(0.0)  # what it still looks for is nobody's business here
            await other.stop(0.0)

    test()
