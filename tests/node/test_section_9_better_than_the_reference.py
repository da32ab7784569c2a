"""Section 9 of the protocol: what is weak in the reference, and must not be here. By number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    Context,
    DeliveryError,
    Distribution,
    LocalError,
    Message,
    MessageIdentifier,
    Node,
    NodeSettings,
    NotRunningError,
    Outcome,
    Settled,
    handler,
    to_message,
)
from hopline.message import EXCEPTION
from hopline.routing import ExternalTable

from .links import Network, advertised, introduce, uri_of
from .orders import Failing, Gated, Invoice, Listener, News, OneByOne, Order, Price, Pricer, Saying
from .running import Clock, in_vain, on_loop, soon, started, turns, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")
NODE, OTHER, ACTOR, SIBLING = b"node", b"other", b"\x01actor", b"\x01sibling"


# -- 1 lifetime --------------------------------------------------------------------------------------------------------


@on_loop
async def test_9_01_an_expired_message_is_dropped_counted_and_reported() -> None:
    clock, listener, outcomes = Clock(), Listener(), list[Settled]()
    async with started(listener, clock=clock, on_outcome=outcomes.append) as node:
        node.hub.try_send_one_way(to_message(News("late"), ttl=timedelta(seconds=1)))
        node.hub.try_send_one_way(to_message(News("in time"), ttl=timedelta(seconds=3)))
        clock.now += 2
        await until(lambda: listener.heard)
    assert listener.texts == ["in time"]
    assert [settled.outcome for settled in outcomes] == [Outcome.EXPIRED, Outcome.DELIVERED]
    assert outcomes[0].waited == 2


@on_loop
async def test_9_01_every_residence_is_taken_from_the_lifetime_and_nearly_none_is_not_no_limit() -> None:
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


# -- 2 external table --------------------------------------------------------------------------------------------------


def test_9_02_the_external_table_forgets_exactly_what_it_is_told_to() -> None:
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


@on_loop
async def test_9_02_asking_for_what_a_forgotten_node_handled_is_no_route_and_no_error() -> None:
    pricer = Pricer(2)
    async with Network().of(a=[], b=[pricer]) as (a, _):
        a.router.directory.forget(b"b", pricer.identity, ORDER)
        a.router.directory.forget_node(b"b")
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(Order(), callback=Price))


# -- 3, 4 keys ---------------------------------------------------------------------------------------------------------


@on_loop
async def test_9_03_hubs_of_one_node_do_not_share_keys() -> None:
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
        await node.stop(drain_time=0.0)


@on_loop
async def test_9_04_a_reply_that_is_not_waited_for_does_not_take_the_promise_with_it() -> None:
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


# -- 5 receipts --------------------------------------------------------------------------------------------------------


@on_loop
async def test_9_05_a_local_message_is_confirmed_and_so_is_a_parked_one() -> None:
    async with started(discover=in_vain) as node:
        parked = node.hub.try_send(News())
        await turns(3)
        assert not parked.done()
        node.add(Listener())
        await soon(parked)
        await soon(node.hub.send(News()))


# -- 6, 7 nothing is lost ----------------------------------------------------------------------------------------------


@on_loop
async def test_9_06_a_sending_that_fails_is_tried_elsewhere_and_reported_when_there_is_no_elsewhere() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.gone.add(b"b")
        assert [await soon(a.hub.send(Order(), callback=Price)) for _ in range(3)] == [Price(3)] * 3
        network.gone.add(b"c")
        with pytest.raises(DeliveryError, match=r"failed: .*unreachable"):
            await soon(a.hub.send(Order(), callback=Price))
        assert a.stats().outcomes[Outcome.FAILED] == 1


@on_loop
async def test_9_06_a_broadcast_that_comes_back_from_a_dead_peer_is_counted() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        network.deaf.add(b"b")
        await a.hub.broadcast(News())
        a.router.take_back(network.sent_to(b"b")[0], b"b", 0.0)
        assert (a.stats().returned, a.stats().outcomes[Outcome.FAILED]) == (1, 1)


@on_loop
async def test_9_06_a_broadcast_copy_that_a_dead_peer_never_got_does_not_end_the_stream_of_the_others() -> None:
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


@on_loop
async def test_9_07_a_message_and_its_reply_are_held_until_a_route_is_found() -> None:
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


# -- 8, 9, 10 hops and copies ------------------------------------------------------------------------------------------


@on_loop
async def test_9_08_two_nodes_that_believe_in_each_other_do_not_bounce_a_message_for_ever() -> None:
    network = Network()
    async with network.of(a=[], b=[]) as (a, b):
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, ORDER)
        b.router.directory.learn(b"a", uri_of(b"a"), ACTOR, ORDER)
        with pytest.raises(DeliveryError, match="hop_limit"):
            await soon(a.hub.send(Order(), callback=Price))
        orders = [message for _, message in network.travelled if message.identifier == ORDER]
        assert len(orders) == NodeSettings().hop_limit == 32


@on_loop
async def test_9_08_hops_never_wrap_around() -> None:
    async with Network().of(a=[], b=[Pricer()]) as (a, _):
        a.router.receive(to_message(Order()).clone(hops=65_535))
        assert a.stats().outcomes[Outcome.HOP_LIMIT] == 1


@on_loop
async def test_9_09_every_peer_gets_a_copy_of_a_broadcast_with_one_hop_and_one_entry() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()], c=[Listener()], d=[Listener()], e=[Listener()]) as (a, *_):
        await a.hub.broadcast(News())
        copies = [message for _, message in network.travelled]
    assert [copy.hops for copy in copies] == [1] * 4
    assert {len(copy.routing) for copy in copies} == {1}
    assert {copy.socket_identity for copy in copies} == {b"b", b"c", b"d", b"e"}


@on_loop
async def test_9_10_no_actor_can_change_what_another_one_gets() -> None:
    class Meddling(Actor):
        def __init__(self) -> None:
            self.texts: list[str] = []

        @handler
        def hear(self, news: News, context: Context) -> None:
            self.texts.append(news.text)
            news.text = "changed"
            with pytest.raises(AttributeError):
                context.message.hops = 9  # type: ignore[misc]

    actors = [Meddling() for _ in range(3)]
    async with started(*actors) as node:
        node.router.receive(to_message(News("as sent"), distribution=Distribution.BROADCAST).add_hop())
        await until(lambda: all(actor.texts for actor in actors))
        assert node.stats().handler_errors == 0
    assert [actor.texts for actor in actors] == [["as sent"]] * 3


# -- 13 order of registration ------------------------------------------------------------------------------------------


@on_loop
async def test_9_13_a_message_right_after_its_actor_was_added_is_handled() -> None:
    async with started() as node:
        for number in range(20):
            actor = Pricer(number)
            node.add(actor)
            promise = node.hub.try_send(Order(), callback=Price)  # with no turn of the loop between
            assert await soon(promise) == Price(number)
            await node.remove(actor)


# -- 20 aliasing -------------------------------------------------------------------------------------------------------


@on_loop
async def test_9_20_a_handler_may_return_its_own_message_and_the_trace_stays() -> None:
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


# -- 21 backpressure ---------------------------------------------------------------------------------------------------


@on_loop
async def test_9_21_a_full_mailbox_makes_senders_wait_and_none_is_lost() -> None:
    class Small(Listener):
        mailbox_capacity = 3

    small = Small()
    async with started(small) as node:
        senders = [asyncio.create_task(node.hub.send_one_way(News(str(number)))) for number in range(50)]
        await turns(1)
        assert node.stats().waiting <= 3
        await soon(asyncio.gather(*senders))
        await until(lambda: len(small.heard) == 50)
    assert sorted(map(int, small.texts)) == list(range(50))


@on_loop
async def test_9_21_a_full_receiver_slows_its_senders_down() -> None:
    class Flooding(Actor):
        concurrency = 1
        sent = 0

        @handler
        async def flood(self, order: Order) -> AsyncIterator[Price]:
            for number in range(100):
                self.sent += 1
                yield Price(number)

    class Full(Actor):
        concurrency = 1
        mailbox_capacity = 2

        def __init__(self) -> None:
            self.gate = asyncio.Event()
            self.seen: list[int] = []

        @handler
        async def take(self, price: Price) -> None:
            await self.gate.wait()
            self.seen.append(price.cents)

    flooding, full = Flooding(), Full()
    async with started(flooding, full) as node:
        await node.hub.send_one_way(Order())
        await turns(50)
        assert flooding.sent <= 5
        full.gate.set()
        await until(lambda: len(full.seen) == 100)
    assert full.seen == list(range(100))


@on_loop
async def test_9_21_a_stream_that_nobody_reads_holds_only_so_many_answers() -> None:
    class Endless(Actor):
        @handler
        def flood(self, order: Order) -> Iterator[Price]:
            yield from map(Price, range(10_100))

    async with started(Endless()) as node:
        stream = node.hub.stream(Order(), callback=Price, timeout=60)
        assert await anext(stream) == Price(0)
        await until(lambda: node.stats().handled == 1)
        assert node.stats().outcomes[Outcome.OVERFLOW] > 0
        stream.close()


@on_loop
async def test_9_21_a_sender_that_gives_up_while_room_is_made_is_cancelled_and_nothing_else() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        await node.hub.send_one_way(Order(0))
        await until(lambda: actor.started)
        await node.hub.send_one_way(Order(1))
        waiting = [asyncio.create_task(node.hub.send_one_way(Order(sku))) for sku in (2, 3)]
        await turns(2)
        actor.gate.set()
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        await soon(waiting[1])
        await until(lambda: actor.ended == 3)


# -- 24, 25, 26 promises and threads -----------------------------------------------------------------------------------


@on_loop
async def test_9_24_what_a_caller_does_with_its_answer_does_not_run_where_the_answer_came_in() -> None:
    order: list[str] = []
    gated = Gated()
    async with started(gated) as node:

        async def ask() -> None:
            await node.hub.send(Order(), callback=Price)
            order.append("continued")

        asking = asyncio.create_task(ask())
        await until(lambda: gated.started)
        answer = to_message(Price(1)).clone(
            receiver_identity=node.hub.identity, receiver_node_identity=node.identity, callback_key=1
        )
        node.hub.try_send_one_way(answer)  # is put before the hub at once
        order.append("taken")
        await soon(asking)
        gated.gate.set()
    assert order == ["taken", "continued"]


@on_loop
async def test_9_24_a_caller_may_ask_again_from_within_its_answer() -> None:
    async with started(Pricer(1)) as node:
        for _ in range(3):
            promise = node.hub.try_send(Order(), callback=Price)
            await promise
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(1)


@on_loop
async def test_9_25_promises_end_by_themselves_and_leave_nothing() -> None:
    gated = Gated()
    async with started(gated, settings=NodeSettings(answer_time=0.02)) as node:
        forgotten = [node.hub.try_send(Order(), callback=Price) for _ in range(5)]
        assert node.hub.waiting == 5
        await until(lambda: node.hub.waiting == 0)
        assert all(promise.done() for promise in forgotten)
        gated.gate.set()


@on_loop
async def test_9_25_stopping_the_node_fails_what_is_still_promised() -> None:
    gated = Gated()
    node = Node(gated)
    await node.start()
    asking = asyncio.create_task(node.hub.send(Order(), callback=Price))
    await until(lambda: gated.started)
    report = await soon(node.stop(drain_time=0.0))
    with pytest.raises((NotRunningError, ActorError)):
        await soon(asking)
    assert report.cancelled_handlers == 1


@on_loop
async def test_9_25_a_request_to_another_node_is_failed_when_this_one_stops() -> None:
    network = Network()
    async with network.of(a=[], b=[Gated()]) as (a, b):
        promise = a.hub.try_send(Order(), callback=Price)
        report = await soon(a.stop(drain_time=0.0))
        assert report.failed_promises == 1
        with pytest.raises(NotRunningError, match="stopped before the answer came"):
            await soon(promise)
        await b.stop(drain_time=0.0)


@on_loop
async def test_9_26_a_blocking_handler_reaches_the_node_through_its_loop_only() -> None:
    class Threaded(Actor):
        def __init__(self) -> None:
            self.threads: list[threading.Thread] = []

        @handler(blocking=True)
        def bill(self, price: Price, context: Context) -> Invoice:
            self.threads.append(threading.current_thread())
            with pytest.raises(LocalError, match="in a blocking handler"):
                context.try_send(News())
            asked = context.wait(context.hub.send(Order(), callback=Price))
            return Invoice(price.cents + asked.cents)

    threaded = Threaded()
    async with started(threaded, Pricer(1)) as node:
        promises = [node.hub.try_send(Price(number), callback=Invoice) for number in range(20)]
        assert [(await soon(promise)).cents for promise in promises] == [number + 1 for number in range(20)]
    assert threading.main_thread() not in threaded.threads


@on_loop
async def test_9_26_a_handler_that_is_not_blocking_is_told_to_await() -> None:
    class Confused(Actor):
        @handler
        def price(self, order: Order, context: Context) -> Price:
            context.wait(context.send(News()))
            return Price()

    async with started(Confused()) as node:
        with pytest.raises(ActorError, match="await in a handler that is not blocking"):
            await soon(node.hub.send(Order(), callback=Price))


# -- 27, 28 errors -----------------------------------------------------------------------------------------------------


@on_loop
async def test_9_27_a_message_that_nobody_handles_is_no_exception_of_an_actor() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        with pytest.raises(DeliveryError) as error:
            await soon(node.hub.send(News(), callback=Price))
        assert error.value.outcome == Outcome.UNROUTABLE
        astray = to_message(News()).with_receiver_actor(node.identity, pricer.identity)
        with pytest.raises(DeliveryError, match="unroutable: News/1: its receiver is not known"):
            await soon(node.hub.send(astray, callback=Price))
        assert node.stats().handled == 0


@on_loop
async def test_9_28_a_result_that_cannot_be_sent_is_reported_whenever_the_handler_returned_it() -> None:
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
            await context.send(object())

    async with started(Senseless()) as node:
        for partition in (b"1", b"2", b"3", b"4", b"5"):
            with pytest.raises(ActorError, match="payloads, messages or nothing"):
                await soon(node.hub.send(to_message(Order(), partition=partition), callback=Price))
        assert node.stats().handler_errors == 5


# -- 29, 30 stopping ---------------------------------------------------------------------------------------------------


@on_loop
async def test_9_29_stopping_waits_for_handlers_under_way_and_sends_what_they_return() -> None:
    gated = Gated()
    node = Node(gated)
    await node.start()
    promises = [node.hub.try_send(Order(sku), callback=Price) for sku in range(3)]
    await until(lambda: gated.started == 3)
    stopping = asyncio.create_task(node.stop())
    await turns(5)
    assert not stopping.done()
    gated.gate.set()
    report = await soon(stopping)
    assert report.is_clean
    assert [await promise for promise in promises] == [Price(0), Price(1), Price(2)]
    assert node.stats().is_balanced


@on_loop
async def test_9_29_what_is_not_done_in_time_is_failed_and_counted() -> None:
    slow = OneByOne()
    node = Node(slow)
    await node.start()
    first = node.hub.try_send(Order(), callback=Price)
    await until(lambda: slow.started)
    second = node.hub.try_send(Order(), callback=Price)
    report = await soon(node.stop(drain_time=0.01))
    assert (report.failed_messages, report.cancelled_handlers, report.is_clean) == (1, 1, False)
    with pytest.raises(ActorError, match="was stopped before it ended"):
        await soon(first)
    with pytest.raises(DeliveryError):
        await soon(second)
    assert node.stats().is_balanced


@on_loop
async def test_9_29_a_message_that_failed_at_the_stop_is_counted_once_however_many_could_have_handled_it() -> None:
    class Slow(Gated):
        concurrency = 1

    actors = [Slow(), Slow()]
    node = Node(*actors)
    await node.start()
    for _ in range(2 + 10):
        node.hub.try_send_one_way(Order())
    await until(lambda: all(actor.started for actor in actors))
    report = await soon(node.stop(drain_time=0.0))
    assert node.stats().is_balanced
    assert (report.failed_messages, report.cancelled_handlers) == (10, 2)


@on_loop
async def test_9_29_a_handler_that_is_stopped_before_its_first_step_is_reported_too() -> None:
    class Waiting(Actor):
        @handler
        async def price(self, order: Order) -> Price:
            await asyncio.Event().wait()
            return Price()

    node = Node(Waiting())
    await node.start()
    hub = node.hub

    async def keep_sending() -> None:
        while True:
            hub.try_send_one_way(Order())
            await asyncio.sleep(0)

    sending = asyncio.create_task(keep_sending())
    await turns(3)
    await soon(node.stop(drain_time=0.01))
    sending.cancel()
    stats = node.stats()
    assert stats.is_balanced
    assert stats.handled == stats.outcomes[Outcome.DELIVERED]


@on_loop
async def test_9_29_stopping_does_not_spin_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(discover=in_vain)
    await node.start()
    await node.hub.send_one_way(Order())  # is parked
    loop, turned = asyncio.get_running_loop(), 0
    run_once = loop._run_once  # type: ignore[attr-defined]

    def counted() -> None:
        nonlocal turned
        turned += 1
        run_once()

    monkeypatch.setattr(loop, "_run_once", counted)
    await soon(node.stop(drain_time=0.1))
    assert turned < 100


@on_loop
async def test_9_29_a_handler_may_still_ask_others_while_its_node_stops() -> None:
    class Asking(Actor):
        def __init__(self) -> None:
            self.gate = asyncio.Event()
            self.started = False

        @handler
        async def bill(self, price: Price, context: Context) -> Invoice:
            self.started = True
            await self.gate.wait()
            asked = await context.hub.send(Order(), callback=Price)
            return Invoice(asked.cents)

    asking = Asking()
    node = Node(asking, Pricer(7))
    await node.start()
    promise = node.hub.try_send(Price(), callback=Invoice)
    await until(lambda: asking.started)
    stopping = asyncio.create_task(node.stop())
    await turns(3)
    asking.gate.set()
    assert (await soon(stopping)).is_clean
    assert await promise == Invoice(7)


@on_loop
async def test_9_30_an_actor_can_be_taken_away_and_a_node_that_stopped_has_nothing_left() -> None:
    pricer = Pricer()
    node = Node(pricer)
    await node.start()
    hub, router = node.hub, node.router
    assert {route.receiver for route in advertised(node)} == {hub.identity, pricer.identity}
    await node.remove(pricer)
    assert {route.receiver for route in advertised(node)} == {hub.identity}
    node.add(pricer)
    await node.stop()
    assert router._tables.internal.handlers(ORDER) is None
    assert hub.waiting == 0
    with pytest.raises(NotRunningError):
        await hub.send(Order())
    assert (await node.stop()).is_clean


@on_loop
async def test_9_30_a_node_may_be_started_again_with_the_same_actors() -> None:
    pricer = Pricer(3)
    node = Node(pricer)
    for _ in range(3):
        async with node:
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(3)
        assert not node.is_running
        assert node.stats().submitted == 2
    assert len(pricer.seen) == 3


# -- 38 stacks ---------------------------------------------------------------------------------------------------------


@on_loop
async def test_9_38_stacks_are_told_only_when_the_node_is_set_to() -> None:
    outcomes: list[Settled] = []
    for tell_stacks in (False, True):
        settings = NodeSettings(tell_stacks=tell_stacks)
        async with started(Failing(), settings=settings, on_outcome=outcomes.append) as node:
            with pytest.raises(ActorError) as error:
                await soon(node.hub.send(Order(), callback=Price))
            assert ("Traceback" in error.value.stack) is tell_stacks
            assert bool(error.value.stack) is tell_stacks
    quiet, loud = [settled.message.body for settled in outcomes if settled.message.identifier == EXCEPTION]
    assert b"orders.py" not in quiet
    assert b"orders.py" in loud


@on_loop
async def test_9_38_a_message_that_reached_nobody_is_reported_without_a_stack() -> None:
    outcomes: list[Settled] = []
    async with started(Saying(News()), on_outcome=outcomes.append) as node:
        with pytest.raises(DeliveryError):
            await soon(node.hub.send(Order(), callback=Price))
    assert all(b"Traceback" not in settled.message.body for settled in outcomes)
