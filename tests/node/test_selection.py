"""The selection of a handler, in each generation of the format."""

from __future__ import annotations

import pytest

from hopline import (
    Actor,
    ActorError,
    DeliveryError,
    Message,
    MessageIdentifier,
    Outcome,
    WireFormat,
    handler,
    to_message,
)

from .links import Network
from .orders import Invoice, News, Order, Price, Pricer
from .running import on_loop, soon, started, until

FIRST, V5 = WireFormat.FIRST, WireFormat.V5


class TwoWays(Actor):
    """Handles the same message in two versions and two partitions, each by a method of its own."""

    @handler(MessageIdentifier(b"Order", 1))
    def first(self, message: Message) -> Price:
        return Price(1)

    @handler(MessageIdentifier(b"Order", 2))
    def second(self, message: Message) -> Price:
        return Price(2)

    @handler(MessageIdentifier(b"Order", 2, b"eu"))
    def european(self, message: Message) -> Price:
        return Price(3)


# -- the first format --------------------------------------------------------------------------------------------------


# Protocol 6
@on_loop
async def test_in_the_first_format_a_receiver_is_found_by_its_identity_alone_and_beats_the_message() -> None:
    one, other = Pricer(1), Pricer(2)
    async with started(one, other) as node:
        for _ in range(3):
            request = to_message(Order()).clone(receiver_identity=other.identity, wire_format=FIRST)
            assert await soon(node.hub.send(request, callback=Price)) == Price(2)


# Protocol 6
@on_loop
async def test_in_the_first_format_a_receiver_that_matches_nothing_is_not_replaced_by_the_message() -> None:
    async with Network(FIRST).of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        request = to_message(Order()).clone(receiver_identity=b"\x01nobody", wire_format=FIRST)
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(request, callback=Price))
        assert a.stats().outcomes[Outcome.SENT] == 0


# Protocol 6
@on_loop
async def test_in_the_first_format_an_answer_crosses_nodes_without_a_node_identity() -> None:
    network = Network(FIRST)
    async with network.of(a=[], b=[Pricer(2)]) as (a, _):
        assert await soon(a.hub.send(Order(), callback=Price)) == Price(2)
        (reply,) = network.sent_to(b"a")
        assert (reply.receiver_identity, reply.receiver_node_identity) == (a.hub.identity, b"")


# Protocol 6
@on_loop
async def test_in_the_first_format_without_a_receiver_the_message_is_found_by_version_and_identity() -> None:
    async with started(TwoWays()) as node:
        for version in (1, 2):
            request = Message.flow_start(b"Order", version=version).clone(wire_format=FIRST)
            assert await soon(node.hub.send(request, callback=Price)) == Price(version)
        with pytest.raises(DeliveryError, match=r"unroutable: Order/1.1"):
            await soon(node.hub.send(Message.flow_start(b"Order", version=b"1.1").clone(wire_format=FIRST)))


# Protocol 6
@on_loop
async def test_in_the_first_format_versions_of_text_are_kinds_of_their_own() -> None:
    class Textual(Actor):
        @handler(MessageIdentifier(b"Order", b"1.1"))
        def order(self, message: Message) -> Price:
            return Price(11)

    async with Network(FIRST).of(a=[], b=[Textual()]) as (a, _):
        request = Message.flow_start(b"Order", version=b"1.1")
        assert await soon(a.hub.send(request, callback=Price)) == Price(11)


# -- the later formats -------------------------------------------------------------------------------------------------


# Protocol 6
@pytest.mark.parametrize("wire_format", [WireFormat.V4, WireFormat.V5, WireFormat.V6])
def test_in_later_formats_the_node_comes_first_then_the_receiver(wire_format: WireFormat) -> None:
    @on_loop
    async def run() -> None:
        wanted = Pricer(7)
        async with Network(wire_format).of(a=[Pricer(1)], b=[Pricer(2), wanted], c=[Pricer(3)]) as (a, _, _):
            for _ in range(3):
                to_actor = to_message(Order()).with_receiver_actor(b"b", wanted.identity)
                assert await soon(a.hub.send(to_actor, callback=Price)) == Price(7)
                to_node = to_message(Order()).with_receiver_node(b"c")
                assert await soon(a.hub.send(to_node, callback=Price)) == Price(3)

    run()


# Protocol 6
@on_loop
async def test_in_later_formats_an_actor_must_be_listed_for_the_message_in_its_version_and_partition() -> None:
    pricer = Pricer()
    async with started(pricer, TwoWays()) as node:
        for near_miss in (Message(b"Order", 2), Message(b"Order", 2, b"eu"), Message(b"Other")):
            request = near_miss.with_receiver_actor(node.identity, pricer.identity)
            with pytest.raises(DeliveryError, match="unroutable"):
                await soon(node.hub.send(request, callback=Price))
    assert pricer.seen == []


# Protocol 6
@on_loop
async def test_in_later_formats_a_receiver_that_is_gone_is_not_replaced_by_its_sibling() -> None:
    gone, sibling = Pricer(1), Pricer(2)
    async with started(gone, sibling) as node:
        await node.remove(gone)
        request = to_message(Order()).with_receiver_actor(node.identity, gone.identity)
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(node.hub.send(request, callback=Price))
    assert sibling.seen == []


# Protocol 6
@on_loop
async def test_in_later_formats_a_hub_is_found_by_its_identity_alone() -> None:
    async with Network().of(a=[], b=[]) as (a, b):
        for number in range(3):
            stray = Message.create(f"Anything{number}".encode(), version=number)
            await a.hub.send_one_way(stray.with_receiver_actor(b"b", b.hub.identity))
            await a.hub.send_one_way(stray.with_receiver_actor(b"a", a.hub.identity))
        assert a.hub.unexpected == 3
        await until(lambda: b.hub.unexpected == 3)


# Protocol 6
@on_loop
async def test_in_later_formats_without_a_receiver_identity_version_and_partition_decide() -> None:
    async with started(TwoWays()) as node:
        for request, cents in ((Message(b"Order"), 1), (Message(b"Order", 2), 2), (Message(b"Order", 2, b"eu"), 3)):
            assert await soon(node.hub.send(request, callback=Price)) == Price(cents)
        with pytest.raises(DeliveryError, match="unroutable: Order/1/eu: nobody handles it"):
            await soon(node.hub.send(Message(b"Order", 1, b"eu"), callback=Price))


# -- the host ----------------------------------------------------------------------------------------------------------


# Protocol 6
@on_loop
async def test_the_message_selects_the_handler_even_when_the_actor_is_addressed() -> None:
    actor = TwoWays()
    async with started(actor) as node:
        for request, cents in ((Message(b"Order"), 1), (Message(b"Order", 2), 2), (Message(b"Order", 2, b"eu"), 3)):
            addressed = request.with_receiver_actor(node.identity, actor.identity)
            assert await soon(node.hub.send(addressed, callback=Price)) == Price(cents)


# Protocol 6
@on_loop
async def test_in_the_first_format_an_actor_may_get_what_it_does_not_handle_and_says_so() -> None:
    actor = TwoWays()
    async with started(actor) as node:
        astray = to_message(News()).clone(receiver_identity=actor.identity, wire_format=FIRST)
        with pytest.raises(ActorError, match="News/1"):
            await soon(node.hub.send(astray, callback=Invoice))
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(node.hub.send(astray.clone(wire_format=V5), callback=Invoice))
