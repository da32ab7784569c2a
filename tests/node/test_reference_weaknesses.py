"""Weaknesses of the reference that Hopline does not have, by the number of the protocol's section 9."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    Context,
    DeliveryError,
    Distribution,
    Message,
    MessageIdentifier,
    MessageOutcome,
    NodeSettings,
    Outcome,
    handler,
    payload,
    to_message,
)
from hopline.message import EXCEPTION
from hopline.routing import ExternalTable

from .links import Network, introduce, uri_of
from .orders import Failing, Gated, Invoice, Listener, News, OneByOne, Order, Price, Pricer, Saying
from .running import Clock, in_vain, on_loop, soon, started, turns, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


NODE, OTHER, ACTOR, SIBLING = b"node", b"other", b"\x01actor", b"\x01sibling"


# -- lifetime ----------------------------------------------------------------------------------------------------------


# Protocol 9.1
@on_loop
async def test_an_expired_message_is_dropped_counted_and_reported() -> None:
    clock, listener, outcomes = Clock(), Listener(), list[MessageOutcome]()
    async with started(listener, clock=clock, on_outcome=outcomes.append) as node:
        node.hub.try_send_one_way(to_message(News("late"), ttl=timedelta(seconds=1)))
        node.hub.try_send_one_way(to_message(News("in time"), ttl=timedelta(seconds=3)))
        clock.now += 2
        await until(lambda: listener.heard)
    assert listener.texts == ["in time"]
    assert [settled.outcome for settled in outcomes] == [Outcome.EXPIRED, Outcome.DELIVERED]
    assert outcomes[0].waited == 2


# Protocol 9.1
@on_loop
async def test_every_residence_is_taken_from_the_lifetime_and_nearly_none_is_not_no_limit() -> None:
    network, clock = Network(), Clock()
    seen: list[int] = []

    class Watching(OneByOne):
        @handler
        def bill(self, invoice: Invoice, context: Context) -> None:
            seen.append(context.message.ttl_ticks)

    watching = Watching()
    async with network.node("a", clock=clock) as a, network.node("b", watching, clock=clock) as b:
        b.hub.try_send_one_way(Order())
        await until(lambda: watching.started)
        introduce(b, to=a)
        network.full.add(b"b")
        sending = asyncio.create_task(a.hub.send_one_way(to_message(Invoice(), ttl=timedelta(seconds=10))))
        await turns(5)
        clock.now += 4  # in the queue of its sender
        network.full.clear()
        network.change()
        await soon(sending)
        await until(lambda: b.stats().waiting == 1)
        clock.now += 5.9999999  # in the mailbox
        watching.gate.set()
        await until(lambda: seen)
        network.gone |= {b"a", b"b"}
    assert network.sent_to(b"b")[0].ttl == timedelta(seconds=6)
    assert len(seen) == 1
    assert 1 <= seen[0] <= 10


# -- external table ----------------------------------------------------------------------------------------------------


# Protocol 9.2
def test_the_external_table_forgets_exactly_what_it_is_told_to() -> None:
    table = ExternalTable()
    table.add(NODE, "tcp://node:1", ACTOR, ORDER)
    table.add(NODE, "tcp://node:1", ACTOR, PRICE)
    table.add(NODE, "tcp://node:1", SIBLING, PRICE)
    table.remove_route(NODE, ACTOR, ORDER)
    assert table.handlers(ORDER) is None
    table.remove_route(NODE, ACTOR, PRICE)
    assert list(table.handlers(PRICE) or ()) == [NODE]  # a sibling still handles it
    table.remove_node(NODE)
    assert (table.handlers(ORDER), table.handlers(PRICE), list(table)) == (None, None, [])


# Protocol 9.2
@on_loop
async def test_asking_for_what_a_forgotten_node_handled_is_no_route_and_no_error() -> None:
    pricer = Pricer(2)
    async with Network().of(a=[], b=[pricer]) as (a, _):
        a.router.directory.forget(b"b", pricer.identity, ORDER)
        a.router.directory.forget_node(b"b")
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(Order(), callback=Price))


# -- keys --------------------------------------------------------------------------------------------------------------


# Protocol 9.3
@on_loop
async def test_hubs_of_one_node_do_not_share_keys() -> None:
    async with started(Gated()) as node:
        hubs = [node.hub, node.new_hub(), node.new_hub()]
        promises = [hub.try_send(Order(), callback=Price, timeout=0.02) for hub in hubs]
        assert [promise.key for promise in promises] == [1, 1, 1]
        assert [hub.waiting for hub in hubs] == [1, 1, 1]
        promises[1].cancel()
        assert [hub.waiting for hub in hubs] == [1, 0, 1]
        for promise in (promises[0], promises[2]):
            with pytest.raises(AnswerTimeoutError):
                await promise
        await node.stop(drain_timeout=0.0)


# Protocol 9.4
@on_loop
async def test_a_reply_that_is_not_waited_for_does_not_take_the_promise_with_it() -> None:
    gated = Gated()
    async with started(gated) as node:
        promise = node.hub.try_send(Order(5), callback=Price)
        await until(lambda: gated.started)
        stray = to_message(Invoice()).clone(
            receiver_identity=node.hub.identity, receiver_node_identity=node.identity, callback_key=promise.key
        )
        await node.hub.send_one_way(stray)
        assert (node.hub.unexpected, node.hub.waiting) == (1, 1)
        gated.gate.set()
        assert await soon(promise) == Price(5)


# -- receipts ----------------------------------------------------------------------------------------------------------


# Protocol 9.5
@on_loop
async def test_a_local_message_is_confirmed_and_so_is_a_parked_one() -> None:
    async with started(discover=in_vain) as node:
        parked = node.hub.try_send(News())
        await turns(3)
        assert not parked.done()
        node.add(Listener())
        await soon(parked)
        await soon(node.hub.send(News()))


# -- nothing is lost ---------------------------------------------------------------------------------------------------


# Protocol 9.6
@on_loop
async def test_a_sending_that_fails_is_tried_elsewhere_and_reported_when_there_is_no_elsewhere() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.gone.add(b"b")
        assert [await soon(a.hub.send(Order(), callback=Price)) for _ in range(3)] == [Price(3)] * 3
        network.gone.add(b"c")
        with pytest.raises(DeliveryError, match=r"failed: .*unreachable"):
            await soon(a.hub.send(Order(), callback=Price))
        assert a.stats().outcomes[Outcome.FAILED] == 1


# Protocol 9.6
@on_loop
async def test_a_broadcast_that_comes_back_from_a_dead_peer_is_counted() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        network.deaf.add(b"b")
        await a.hub.broadcast(News())
        a.router.take_back(network.sent_to(b"b")[0], b"b", 0.0)
        assert (a.stats().returned, a.stats().outcomes[Outcome.FAILED]) == (1, 1)


# Protocol 9.6
@on_loop
async def test_a_broadcast_copy_that_a_dead_peer_never_got_does_not_end_the_stream_of_the_others() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.deaf.add(b"b")
        answers = []
        async for answer in a.hub.stream(Order(), callback=Price, timeout=0.3):
            answers.append(answer)
            a.router.take_back(network.sent_to(b"b")[0], b"b", 0.0)
        assert answers == [Price(3)]
        a.router.take_back(network.sent_to(b"b")[0], b"b", 1.0)
        assert (a.stats().outcomes[Outcome.FAILED], a.stats().outcomes[Outcome.EXPIRED]) == (1, 1)


# Protocol 9.7
@on_loop
async def test_a_message_and_its_reply_are_held_until_a_route_is_found() -> None:
    network = Network()
    async with (
        network.node("a", discover=in_vain) as a,
        network.node("b", Pricer(2), discover=in_vain) as b,
    ):
        promise = a.hub.try_send(Order(), callback=Price)
        assert a.stats().waiting == 1
        introduce(b, to=a)
        await until(lambda: b.stats().waiting == 1)
        assert not promise.done()
        introduce(a, to=b)
        assert await soon(promise) == Price(2)
        network.gone |= {b"a", b"b"}


# -- hops and copies ---------------------------------------------------------------------------------------------------


# Protocol 9.8
@on_loop
async def test_two_nodes_that_believe_in_each_other_do_not_bounce_a_message_for_ever() -> None:
    network = Network()
    async with network.of(a=[], b=[]) as (a, b):
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, ORDER)
        b.router.directory.learn(b"a", uri_of(b"a"), ACTOR, ORDER)
        with pytest.raises(DeliveryError, match="hop_limit"):
            await soon(a.hub.send(Order(), callback=Price))
        orders = [message for _, message in network.travelled if message.identifier == ORDER]
        assert len(orders) == NodeSettings().hop_limit == 32


# Protocol 9.8
@on_loop
async def test_hops_never_wrap_around() -> None:
    async with Network().of(a=[], b=[Pricer()]) as (a, _):
        a.router.receive(to_message(Order()).clone(hops=65_535))
        assert a.stats().outcomes[Outcome.HOP_LIMIT] == 1


# Protocol 9.9
@on_loop
async def test_every_peer_gets_a_copy_of_a_broadcast_with_one_hop_and_one_entry() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()], c=[Listener()], d=[Listener()], e=[Listener()]) as (a, *_):
        await a.hub.broadcast(News())
        copies = [message for _, message in network.travelled]
    assert [copy.hops for copy in copies] == [1] * 4
    assert {len(copy.routing) for copy in copies} == {1}
    assert {copy.socket_identity for copy in copies} == {b"b", b"c", b"d", b"e"}


@payload
class Notice(msgspec.Struct):  # which can be changed, as what derives from Payload cannot
    text: str


# Protocol 9.10
@on_loop
async def test_no_actor_can_change_what_another_one_gets() -> None:
    class Meddling(Actor):
        def __init__(self) -> None:
            self.texts: list[str] = []

        @handler
        def hear(self, notice: Notice, context: Context) -> None:
            self.texts.append(notice.text)
            notice.text = "changed"
            with pytest.raises(AttributeError):
                context.message.hops = 9  # type: ignore[misc]

    actors = [Meddling() for _ in range(3)]
    async with started(*actors) as node:
        node.router.receive(to_message(Notice("as sent"), distribution=Distribution.BROADCAST).add_hop())
        await until(lambda: all(actor.texts for actor in actors))
        assert node.stats().handler_errors == 0
    assert [actor.texts for actor in actors] == [["as sent"]] * 3


# -- order of registration ---------------------------------------------------------------------------------------------


# Protocol 9.13
@on_loop
async def test_a_message_right_after_its_actor_was_added_is_handled() -> None:
    async with started() as node:
        for number in range(20):
            actor = Pricer(number)
            node.add(actor)
            promise = node.hub.try_send(Order(), callback=Price)  # with no turn of the loop between
            assert await soon(promise) == Price(number)
            await node.remove(actor)


# -- aliasing ----------------------------------------------------------------------------------------------------------


# Protocol 9.20
@on_loop
async def test_a_handler_may_return_its_own_message_and_the_trace_stays() -> None:
    class Mirror(Actor):
        @handler(ORDER)
        def mirror(self, message: Message) -> Message:
            return message

    network = Network()
    async with network.of(a=[], b=[Mirror()]) as (a, _):
        request = to_message(Order()).clone(
            callback_point=(ORDER,), callback_receiver_identity=a.hub.identity, callback_receiver_node_identity=b"a"
        )
        await a.hub.send_one_way(request)
        await until(lambda: a.hub.unexpected == 1)
        (returned,) = network.sent_to(b"a")
    assert [entry.identity for entry in returned.routing] == [b"a", b"b"]
    assert (returned.hops, returned.correlation_id) == (1, request.correlation_id)


# -- errors ------------------------------------------------------------------------------------------------------------


# Protocol 9.27
@on_loop
async def test_a_message_that_nobody_handles_is_no_exception_of_an_actor() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        with pytest.raises(DeliveryError) as error:
            await soon(node.hub.send(News(), callback=Price))
        assert error.value.outcome == Outcome.UNROUTABLE
        astray = to_message(News()).with_receiver_actor(node.identity, pricer.identity)
        with pytest.raises(DeliveryError, match="unroutable: News/1: its receiver is not known"):
            await soon(node.hub.send(astray, callback=Price))
        assert node.stats().handled == 0


# Protocol 9.28
@on_loop
async def test_a_result_that_cannot_be_sent_is_reported_whenever_the_handler_returned_it() -> None:
    class Senseless(Actor):
        @handler(Order, partition=b"1")
        def plain(self, message: Message) -> object:
            return object()

        @handler(Order, partition=b"2")
        async def later(self, message: Message) -> object:
            await asyncio.sleep(0)
            return object()

        @handler(Order, partition=b"3")
        async def yielding(self, message: Message) -> AsyncIterator[object]:
            yield object()

        @handler(Order, partition=b"4", blocking=True)
        def threaded(self, message: Message) -> object:
            return [object()]

        @handler(Order, partition=b"5")
        async def sending(self, message: Message, context: Context) -> None:
            await context.send(object())  # type: ignore[arg-type]

    async with started(Senseless()) as node:
        for partition in (b"1", b"2", b"3", b"4", b"5"):
            with pytest.raises(ActorError, match="payloads, messages or nothing"):
                await soon(node.hub.send(to_message(Order(), partition=partition), callback=Price))
        assert node.stats().handler_errors == 5


# -- stacks ------------------------------------------------------------------------------------------------------------


# Protocol 9.38
@on_loop
async def test_stacks_are_told_only_when_the_node_is_set_to() -> None:
    outcomes: list[MessageOutcome] = []
    for include_tracebacks in (False, True):
        settings = NodeSettings(include_tracebacks=include_tracebacks)
        async with started(Failing(), settings=settings, on_outcome=outcomes.append) as node:
            with pytest.raises(ActorError) as error:
                await soon(node.hub.send(Order(), callback=Price))
            assert ("Traceback" in error.value.stack) is include_tracebacks
            assert bool(error.value.stack) is include_tracebacks
    quiet, loud = [settled.message.body for settled in outcomes if settled.message.identifier == EXCEPTION]
    assert b"orders.py" not in quiet
    assert b"orders.py" in loud


# Protocol 9.38
@on_loop
async def test_a_message_that_reached_nobody_is_reported_without_a_stack() -> None:
    outcomes: list[MessageOutcome] = []
    async with started(Saying(News()), on_outcome=outcomes.append) as node:
        with pytest.raises(DeliveryError):
            await soon(node.hub.send(Order(), callback=Price))
    assert all(b"Traceback" not in settled.message.body for settled in outcomes)
