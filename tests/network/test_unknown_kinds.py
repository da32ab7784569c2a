"""What a node logs about messages that nobody handles, while they wait for somebody who does."""

from __future__ import annotations

import asyncio

import pytest

from hopline import Actor, DeliveryError, Network, Node, NodeSettings, Payload, handler
from tests.network.processes import free_ports
from tests.node.running import on_loop, until


class Greet(Payload):
    name: str


class Greeting(Payload):
    text: str


class Greets(Payload):
    name: str


class Shipment(Payload):
    number: int


class Greeter(Actor):
    @handler
    def greet(self, request: Greet) -> Greeting:
        return Greeting(request.name)


@on_loop
async def test_a_kind_that_resembles_another_is_logged_once_and_at_once(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    network = Network(rendezvous=[f"tcp://127.0.0.1:{port}"], embedded=True)
    settings = NodeSettings(discovery_timeout=2.0)
    async with Node(Greeter(), network=network), Node(network=network, settings=settings) as caller:
        await until(lambda: any(known.actors for known in caller.known_nodes))
        asking = [
            asyncio.ensure_future(caller.hub.send(content, callback=Greeting))
            for content in (Greets("you"), Greets("me"), Shipment(1))
        ]
        await until(lambda: "did you mean" in caplog.text)
        assert not any(asked.done() for asked in asking)  # they wait, for the kind may still appear
        for asked in asking:
            with pytest.raises(DeliveryError):
                await asked
        lines = [record.getMessage() for record in caplog.records if "did you mean" in record.getMessage()]
        assert lines == ["no known node handles Greets/1; did you mean Greet/1?"]
