"""Handlers: how they are declared, which message each gets, and which stay local."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from hopline import (
    Actor,
    ActorError,
    ArgumentError,
    DeliveryError,
    Message,
    MessageIdentifier,
    Node,
    WireFormat,
    handler,
    payload,
    to_message,
)
from hopline.actors import HandlerDefinition, handler_map

from .links import Network, advertised
from .orders import Invoice, News, Order, Price, Pricer
from .running import on_loop, soon, started

ORDER, PRICE = MessageIdentifier(b"Order"), MessageIdentifier(b"Price")


@payload("RATE", version=2, partition=b"eu")
class Rate(msgspec.Struct):
    percent: int = 0


class Seller(Actor):
    @handler
    def price(self, order: Order) -> Price:
        return Price(order.sku)

    @handler
    def _bill(self, price: Price) -> Invoice:
        return Invoice(price.cents)


class Discounter(Seller):
    def price(self, order: Order) -> Price:
        return Price(order.sku // 2)

    @handler
    def rate(self, rate: Rate) -> None: ...


# -- definition --------------------------------------------------------------------------------------------------------


# Protocol 3.1
def test_an_actor_has_an_identity_of_its_own_of_01_and_a_guid() -> None:
    one, other = Seller(), Seller()
    assert len(one.identity) == 37
    assert one.identity[:1] == b"\x01"
    assert one.identity == one.identity != other.identity


# Protocol 3.1
def test_handlers_are_found_on_the_class_and_on_its_bases_public_or_not() -> None:
    assert set(handler_map(Seller())) == {ORDER, PRICE}
    assert set(handler_map(Discounter())) == {ORDER, PRICE, MessageIdentifier(b"RATE", 2, b"eu")}


# Protocol 3.1
@on_loop
async def test_a_method_that_overrides_a_handler_is_the_handler() -> None:
    async with started(Discounter()) as node:
        assert await node.hub.send(Order(10), callback=Price) == Price(5)


# Protocol 3.1
def test_a_handler_is_for_the_empty_partition_unless_its_payload_or_its_decorator_names_one() -> None:
    class Partitioned(Actor):
        @handler(Order, partition=b"us")
        def american(self, message: Message) -> None: ...

        @handler(Rate, partition=b"")
        def everywhere(self, message: Message) -> None: ...

    assert set(handler_map(Partitioned())) == {MessageIdentifier(b"Order", 1, b"us"), MessageIdentifier(b"RATE", 2)}


# Protocol 3.1
@on_loop
async def test_an_actor_may_bind_its_handlers_to_a_partition_of_its_own() -> None:
    class Regional(Pricer):
        def __init__(self, region: bytes, cents: int) -> None:
            super().__init__(cents)
            self.region = region

        def definitions(self) -> Iterable[HandlerDefinition]:
            return [definition.bound_to(self.region) for definition in super().definitions()]

    async with started(Regional(b"eu", 1), Regional(b"us", 2)) as node:
        for region, cents in ((b"eu", 1), (b"us", 2), (b"us", 2)):
            request = to_message(Order(), partition=region)
            assert await node.hub.send(request, callback=Price) == Price(cents)
        with pytest.raises(DeliveryError, match="unroutable"):
            await node.hub.send(Order(), callback=Price)


# Protocol 3.1
def test_keep_local_is_off_unless_told() -> None:
    class Shy(Actor):
        @handler
        def order(self, order: Order) -> None: ...

        @handler(keep_local=True)
        def price(self, price: Price) -> None: ...

    handlers = handler_map(Shy())
    assert (handlers[ORDER].keep_local, handlers[PRICE].keep_local) == (False, True)


# -- handler map -------------------------------------------------------------------------------------------------------


# Protocol 3.2
@on_loop
async def test_the_handler_is_found_by_identity_version_and_partition_together() -> None:
    class Versions(Actor):
        @handler(MessageIdentifier(b"RATE", 1, b"eu"))
        def first(self, message: Message) -> Price:
            return Price(1)

        @handler(MessageIdentifier(b"RATE", 2, b""))
        def everywhere(self, message: Message) -> Price:
            return Price(2)

        @handler
        def rate(self, rate: Rate) -> Price:
            return Price(3)

    async with started(Versions()) as node:
        for identifier, cents in (((1, b"eu"), 1), ((2, b""), 2), ((2, b"eu"), 3)):
            version, partition = identifier
            request = to_message(Rate()).clone(version=version, partition=partition)
            assert await node.hub.send(request, callback=Price) == Price(cents)


# Protocol 3.2
@on_loop
async def test_an_actor_with_two_handlers_for_one_message_is_refused_as_a_whole() -> None:
    class Torn(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(1)

        @handler
        def one(self, order: Order) -> None: ...

        @handler
        def other(self, order: Order) -> None: ...

    with pytest.raises(ArgumentError, match="one handler for Order/1"):
        Node(Torn())
    async with started() as node:
        with pytest.raises(ArgumentError, match=r"Torn: expected one handler for Order/1"):
            node.add(Torn())
        with pytest.raises(DeliveryError, match="unroutable"):
            await node.hub.send(Price(), callback=Invoice)


# Protocol 3.2
@on_loop
async def test_an_actor_without_handlers_is_legal() -> None:
    async with started(Actor(), Pricer()) as node:
        assert await node.hub.send(Order(), callback=Price) == Price(100)


# Protocol 3.2
@on_loop
async def test_an_actor_that_is_on_the_node_already_is_refused() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        with pytest.raises(ArgumentError, match="not on this node already"):
            node.add(pricer)


# Protocol 3.2
@on_loop
async def test_a_message_that_its_actor_does_not_handle_is_reported_to_the_caller() -> None:
    # Only the first format addresses an actor whatever it handles; the others do not get that far.
    pricer = Pricer()
    async with started(pricer) as node:
        astray = to_message(News()).clone(receiver_identity=pricer.identity, wire_format=WireFormat.FIRST)
        with pytest.raises(ActorError, match="a message that it handles, found 'News/1'"):
            await soon(node.hub.send(astray, callback=Price))
        assert await node.hub.send(Order(), callback=Price) == Price(100)


class Secretive(Actor):
    @handler(keep_local=True)
    def price(self, order: Order) -> Price:
        return Price(1)

    @handler
    def bill(self, price: Price) -> Invoice:
        return Invoice(2)


# -- keep local --------------------------------------------------------------------------------------------------------


# Protocol 3.6
@on_loop
async def test_what_is_kept_local_is_handled_here_and_never_advertised() -> None:
    secretive = Secretive()
    async with started(secretive) as node:
        assert await node.hub.send(Order(), callback=Price) == Price(1)
        routes = {route.identifier for route in advertised(node) if route.receiver == secretive.identity}
    assert routes == {PRICE}


# Protocol 3.6
@on_loop
async def test_what_is_kept_local_is_out_of_reach_for_other_nodes() -> None:
    async with Network().of(a=[], b=[Secretive()]) as (a, b):
        assert await soon(a.hub.send(Price(), callback=Invoice)) == Invoice(2)
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(Order(), callback=Price))
        assert await soon(b.hub.send(Order(), callback=Price)) == Price(1)


# Protocol 3.6
def test_keep_local_is_told_for_each_message_of_a_method() -> None:
    class Half(Actor):
        @handler(ORDER, keep_local=True)
        @handler(PRICE)
        def either(self, message: Message) -> None: ...

    handlers = handler_map(Half())
    assert {identifier: one.keep_local for identifier, one in handlers.items()} == {ORDER: True, PRICE: False}
