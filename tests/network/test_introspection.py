"""What every node of a network answers about itself, and what it never announces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hopline import (
    Actor,
    DeliveryError,
    Domain,
    DomainSecurity,
    Message,
    MessageIdentifier,
    Network,
    Node,
    Payload,
    handler,
    new_key,
    to_message,
)
from hopline.cluster.messages.service import (
    EXTERNAL_ROUTES,
    INTERNAL_ROUTES,
    MESSAGE_ROUTES,
    REQUEST_EXTERNAL_ROUTES,
    REQUEST_INTERNAL_ROUTES,
    REQUEST_MESSAGE_ROUTES,
    contract_of,
    read,
    service_message,
)
from hopline.cluster.messages.service_pb2 import ExternalRoutes, InternalRoutes, MessageRoutes, RequestMessageRoutes
from hopline.node.introspection import NodeStats, Probe, Probed, RequestStats, RequestTail, Tail
from hopline.observers.tail import LONGEST_READER, TailFilter
from hopline.security import Security
from tests.network.processes import free_ports
from tests.node.running import on_loop, until

GREET = MessageIdentifier(b"Greet")


class Greet(Payload):
    name: str


class Greeting(Payload):
    text: str


class Greeter(Actor):
    def __init__(self) -> None:
        self.greeted = 0

    @handler
    def greet(self, request: Greet) -> Greeting:
        self.greeted += 1
        return Greeting(request.name)


def network(port: int, security: Security | None = None) -> Network:
    options = {} if security is None else {"security": security}
    return Network(rendezvous=[f"tcp://127.0.0.1:{port}"], embedded=True, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def two_nodes(actor: Actor, security: Security | None = None) -> AsyncIterator[tuple[Node, Node]]:
    (port,) = free_ports(1)
    async with Node(actor, network=network(port, security)) as one, Node(network=network(port, security)) as other:
        await until(lambda: other.known_nodes and any(node.actors for node in other.known_nodes))
        yield one, other
        assert one.stats().is_balanced
        assert other.stats().is_balanced


async def asked(node: Node, of: Node, question: Message, answer: MessageIdentifier) -> Message:
    return await node.hub.send(question.with_receiver_node(of.identity), callback=answer, timeout=30)


@on_loop
async def test_a_probe_tells_who_would_get_a_message_and_reaches_no_handler() -> None:
    greeter = Greeter()
    async with two_nodes(greeter) as (one, other):
        question = to_message(Probe(GREET)).with_receiver_node(one.identity)
        told = await other.hub.send(question, callback=Probed, timeout=30)
        assert (told.node, told.uri) == (one.identity, one.uri)
        assert [(actor.identity, actor.name, actor.waiting) for actor in told.actors] == [
            (greeter.identity, "Greeter", 0)
        ]
        assert told.arrived_at <= told.answered_at
        assert greeter.greeted == 0
        nothing = to_message(Probe(MessageIdentifier(b"Nothing"))).with_receiver_node(one.identity)
        assert (await other.hub.send(nothing, callback=Probed, timeout=30)).actors == ()


@on_loop
async def test_stats_are_told_to_who_asks() -> None:
    async with two_nodes(Greeter()) as (one, other):
        await other.hub.send(Greet("you"), callback=Greeting)
        question = to_message(RequestStats()).with_receiver_node(one.identity)
        report = (await other.hub.send(question, callback=NodeStats, timeout=30)).report
        assert report.node == one.identity
        assert report.stats.is_balanced
        assert report.stats.handled == 1
        assert report.network is not None
        assert report.network.is_joined
        assert [link.node for link in report.network.links] == [other.identity]


@on_loop
async def test_a_refused_question_for_messages_is_counted_with_what_else_a_node_refused() -> None:
    async with two_nodes(Greeter()) as (one, other):
        reader = b"x" * (LONGEST_READER + 1)
        question = to_message(RequestTail(reader, TailFilter())).with_receiver_node(one.identity)
        fetched = (await other.hub.send(question, callback=Tail, timeout=30)).fetched
        assert "at most 255 bytes" in fetched.problem
        report = one.report().network
        assert report is not None
        assert report.refused_messages == {"tail": 1}


@on_loop
async def test_routes_are_told_byte_for_byte_as_the_reference_does() -> None:
    greeter = Greeter()
    async with two_nodes(greeter) as (one, other):
        internal = await asked(other, one, service_message(REQUEST_INTERNAL_ROUTES, None), INTERNAL_ROUTES)
        content = read(internal, InternalRoutes)
        (hub,) = content.message_hubs
        # A hub that is not kept local: its identity, and no flag.
        assert hub.SerializeToString() == b"\x0a\x25" + hub.identity
        handled = {route.message.identity: list(route.actors) for route in content.message_routes}
        assert handled[b"Greet"] == [greeter.identity]
        assert b"KINO.REQINTROUTES" in handled

        external = await asked(one, other, service_message(REQUEST_EXTERNAL_ROUTES, None), EXTERNAL_ROUTES)
        (known,) = read(external, ExternalRoutes).routes
        assert (known.node_identity, known.node_uri) == (one.identity, one.uri)
        (route,) = known.message_routes
        contract = b"\x08\x01\x12\x05Greet\x1a\x00"
        assert route.SerializeToString() == b"\x0a\x0b" + contract + b"\x12\x25" + greeter.identity

        for route_type, here in (
            (RequestMessageRoutes.ALL, [greeter.identity]),
            (RequestMessageRoutes.INTERNAL, [greeter.identity]),
            (RequestMessageRoutes.EXTERNAL, []),
        ):
            request = RequestMessageRoutes(message_contract=contract_of(GREET), route_type=route_type)
            answer = await asked(other, one, service_message(REQUEST_MESSAGE_ROUTES, request), MESSAGE_ROUTES)
            routes = read(answer, MessageRoutes)
            assert list(routes.internal_routes.actor_identity) == here
            assert not routes.external_routes
        request = RequestMessageRoutes(message_contract=contract_of(GREET))
        answer = await asked(one, other, service_message(REQUEST_MESSAGE_ROUTES, request), MESSAGE_ROUTES)
        (place,) = read(answer, MessageRoutes).external_routes
        assert (place.node_identity, list(place.actor_identity)) == (one.identity, [greeter.identity])


@on_loop
async def test_what_is_built_in_is_nobodys_actor_and_never_announced() -> None:
    greeter = Greeter()
    async with two_nodes(greeter) as (one, other):
        assert one.actors == (greeter,)
        assert [host.actor for host in one.hosts] == [greeter]
        assert other.actors == ()
        (known,) = [node for node in other.known_nodes if node.identity == one.identity]
        assert known.actors == {greeter.identity: (GREET,)}
        assert not one.known_nodes[0].actors


@on_loop
async def test_a_node_without_a_network_has_nobody_to_ask() -> None:
    async with Node() as node:
        with pytest.raises(DeliveryError, match="unroutable"):
            await node.hub.send(Probe(GREET), callback=Probed)
        assert node.report().network is None
        assert (node.is_joined, node.is_serving, node.known_nodes) == (False, False, [])


@on_loop
async def test_domains_need_not_list_what_hopline_asks_itself() -> None:
    security = DomainSecurity([Domain("greetings", new_key(), ["Greet", "Greeting"])], clock=lambda: 1_000.0)
    async with two_nodes(Greeter(), security) as (one, other):
        question = to_message(Probe(GREET)).with_receiver_node(one.identity)
        assert len((await other.hub.send(question, callback=Probed, timeout=30)).actors) == 1
