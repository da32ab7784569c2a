"""Section 4 of the protocol: the message hub, its callbacks, keys, promises and receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
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
    NoRoomError,
    NotRunningError,
    Outcome,
    Promise,
    Settled,
    WireFormat,
    from_message,
    handler,
    payload,
    to_message,
)
from hopline.message import EXCEPTION, RECEIPT

from .links import Network, advertised, introduce
from .orders import Failing, Gated, Invoice, Listener, News, OneByOne, Order, Price, Pricer, Saying
from .running import on_loop, soon, started, turns, until

PRICE, INVOICE = MessageIdentifier(b"Price"), MessageIdentifier(b"Invoice")


def replies(outcomes: list[Settled]) -> list[Message]:
    return [settled.message for settled in outcomes if settled.receiver[:1] == b"\x00"]


# -- 4.1 lifecycle -----------------------------------------------------------------------------------------------------


@on_loop
async def test_4_1_a_hub_has_an_identity_of_its_own_of_00_and_a_guid() -> None:
    async with started() as node:
        hubs = [node.hub, node.new_hub(), node.new_hub()]
        assert {hub.identity[:1] for hub in hubs} == {b"\x00"}
        assert {len(hub.identity) for hub in hubs} == {37}
        assert len({hub.identity for hub in hubs}) == 3
        assert {hub.identity for hub in hubs} <= {route.receiver for route in advertised(node)}


@on_loop
async def test_4_1_there_is_no_hub_before_the_node_starts_and_none_that_sends_after_it_stopped() -> None:
    # The reference queues what is sent before the start; here there is nothing to queue it.
    node = Node(Pricer())
    with pytest.raises(NotRunningError):
        _ = node.hub
    await node.start()
    hub = node.hub
    assert await hub.send(Order(), callback=Price) == Price(100)
    await node.stop()
    with pytest.raises(NotRunningError):
        await hub.send(Order(), callback=Price)
    with pytest.raises(NotRunningError):
        await hub.send_one_way(Order())
    with pytest.raises(NotRunningError):
        hub.try_send(Order())
    await node.start()
    assert await node.hub.send(Order(), callback=Price) == Price(100)
    await node.stop()


# -- 4.2 send variants -------------------------------------------------------------------------------------------------


@on_loop
async def test_4_2_a_request_with_a_callback_may_have_any_distribution() -> None:
    async with started(Pricer(1), Pricer(2)) as node:
        assert await node.hub.send(Order(), callback=Price) == Price(1)
        everyone = to_message(Order(), distribution=Distribution.BROADCAST)
        assert await node.hub.send(everyone, callback=Price) in (Price(1), Price(2))
        await until(lambda: node.stats().unexpected == 1)


@on_loop
async def test_4_2_a_broadcast_has_no_receipt() -> None:
    async with started(Listener()) as node:
        with pytest.raises(LocalError, match="a broadcast has no receipt"):
            await node.hub.send(to_message(News(), distribution=Distribution.BROADCAST))
        assert node.hub.waiting == 0


@on_loop
async def test_4_2_one_way_carries_no_callback_data() -> None:
    listener = Listener()
    async with started(listener) as node:
        await node.hub.send_one_way(News())
        node.hub.try_send_one_way(News())
        await until(lambda: len(listener.heard) == 2)
        assert node.hub.waiting == 0
    for message in listener.heard:
        assert (message.callback_point, message.callback_key) == ((), 0)
        assert (message.callback_receiver_identity, message.callback_receiver_node_identity) == (b"", b"")
        assert message.distribution == Distribution.UNICAST


@on_loop
async def test_4_2_a_broadcast_reaches_every_actor_once() -> None:
    listeners = [Listener() for _ in range(5)]
    async with started(*listeners) as node:
        await node.hub.broadcast(News("all"))
        await until(lambda: all(listener.heard for listener in listeners))
    assert [listener.texts for listener in listeners] == [["all"]] * 5


@on_loop
async def test_4_2_a_message_with_a_receiver_cannot_be_broadcast() -> None:
    async with started(Listener()) as node:
        with pytest.raises(LocalError, match="no receiver on a broadcast"):
            await node.hub.broadcast(to_message(News()).with_receiver_node(node.identity))


@on_loop
async def test_4_2_a_stream_gives_the_answers_of_all_and_the_errors_apart() -> None:
    async with started(Pricer(1), Failing(), Pricer(2), Pricer(3)) as node:
        stream = node.hub.stream(Order(7), callback=Price, limit=4, timeout=5)
        assert sorted([price.cents async for price in stream]) == [1, 2, 3]
        assert [error.text for error in stream.errors if isinstance(error, ActorError)] == ["no article 7"]
        assert node.hub.waiting == 0


@on_loop
async def test_4_2_a_stream_ends_when_its_time_is_over() -> None:
    async with started(Pricer(1), Pricer(2)) as node:
        assert len([price async for price in node.hub.stream(Order(), callback=Price, timeout=0.05)]) == 2
        assert node.hub.waiting == 0


@on_loop
async def test_4_2_what_comes_after_the_time_of_a_stream_is_no_part_of_it() -> None:
    slow = Gated()
    async with started(Pricer(1), slow) as node:
        stream = node.hub.stream(Order(2), callback=Price, timeout=0.05)
        assert await anext(stream) == Price(1)
        await until(lambda: stream._gathering.is_over)
        slow.gate.set()
        await until(lambda: slow.ended)
        await turns(5)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert node.stats().unexpected == 1


@on_loop
async def test_4_2_a_stream_that_reaches_nobody_raises() -> None:
    async with started() as node:
        with pytest.raises(DeliveryError, match="unroutable"):
            await anext(node.hub.stream(Order(), callback=Price, timeout=5))
        assert node.hub.waiting == 0


@on_loop
async def test_4_2_try_send_says_no_instead_of_waiting_and_leaves_nothing_behind() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        first = node.hub.try_send(Order(1), callback=Price)
        await until(lambda: actor.started)
        second = node.hub.try_send(Order(2), callback=Price)
        with pytest.raises(NoRoomError):
            node.hub.try_send(Order(3), callback=Price)
        with pytest.raises(NoRoomError):
            node.hub.try_send_one_way(Order(4))
        assert (node.hub.waiting, node.stats().submitted) == (2, 2)
        actor.gate.set()
        assert [await first, await second] == [Price(1), Price(2)]


# -- 4.3 what is put on the message ------------------------------------------------------------------------------------


@on_loop
async def test_4_3_the_message_carries_the_callbacks_with_the_exception_last_and_who_waits() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        promise = node.hub.try_send(Order(), callback=[Price, Invoice])
        await promise
        (message,) = pricer.seen
        assert message.callback_point == (PRICE, INVOICE, EXCEPTION)
        assert message.callback_receiver_identity == node.hub.identity
        assert message.callback_receiver_node_identity == node.identity
        assert message.callback_key == promise.key


@on_loop
async def test_4_3_the_exception_is_not_added_twice_and_a_callback_named_twice_counts_once() -> None:
    # The reference refuses to send in either case, and its promise hangs.
    pricer = Pricer()
    async with started(pricer) as node:
        await soon(node.hub.send(Order(), callback=[EXCEPTION, Price, Price]))
        assert pricer.seen[0].callback_point == (EXCEPTION, PRICE)


@on_loop
async def test_4_3_a_message_of_the_callers_own_is_not_changed() -> None:
    # The reference writes the callback into the caller's object.
    async with started(Pricer()) as node:
        request = to_message(Order())
        before = request.clone()
        await node.hub.send(request, callback=Price)
        assert request == before
        assert await node.hub.send(request, callback=Price) == Price(100)


@on_loop
async def test_4_3_registering_replaces_the_callback_point_that_a_message_had() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        request = to_message(Order()).register_callback_point(b"elsewhere", b"\x00other", [INVOICE], 77)
        assert await soon(node.hub.send(request, callback=Price)) == Price(100)
        assert pricer.seen[0].callback_point == (PRICE, EXCEPTION)


@on_loop
async def test_4_3_a_message_that_is_its_own_callback_goes_straight_back_to_its_hub() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        assert await soon(node.hub.send(to_message(Order(5)), callback=Order)) == Order(5)
        elsewhere = to_message(Order(6)).with_receiver_node(b"elsewhere")
        assert await soon(node.hub.send(elsewhere, callback=Order)) == Order(6)
    assert pricer.seen == []


@payload("RATE", version=3, partition=b"eu")
class Rate(msgspec.Struct):
    percent: int = 0


@on_loop
async def test_4_3_a_callback_class_stands_for_its_version_and_its_partition_too() -> None:
    # The reference takes the empty partition whatever the class says.
    class NearMisses(Actor):
        @handler(MessageIdentifier(b"RATE", 2, b"eu"))
        @handler(MessageIdentifier(b"RATE", 3, b"us"))
        @handler(MessageIdentifier(b"RATE", 3))
        def take(self, message: Message) -> None: ...

    near_misses = [
        to_message(Rate(1)).clone(version=2),
        to_message(Rate(1), partition=b"us"),
        to_message(Rate(1), partition=b""),
    ]
    saying = Saying(*near_misses, Rate(3))
    async with started(saying, NearMisses()) as node:
        assert await soon(node.hub.send(Order(), callback=Rate)) == Rate(3)
        assert saying.seen[0].callback_point == (MessageIdentifier(b"RATE", 3, b"eu"), EXCEPTION)


@on_loop
async def test_4_3_an_identifier_as_callback_gives_the_message_itself() -> None:
    async with started(Pricer(7)) as node:
        promise = node.hub.try_send(Order(), callback=PRICE)
        answer = await promise
        assert from_message(answer, Price) == Price(7)
        assert answer.callback_point == (PRICE, EXCEPTION)  # the matched entry stays
        assert answer.correlation_id == promise.message.correlation_id


@on_loop
async def test_4_3_callbacks_that_make_no_sense_are_refused() -> None:
    async with started(Pricer()) as node:
        for callback in ([], [b"Price"], b"Price", [int]):
            with pytest.raises(LocalError):
                await node.hub.send(Order(), callback=callback)  # type: ignore[arg-type]
        assert (node.hub.waiting, node.stats().submitted) == (0, 0)


# -- 4.4 keys and promises ---------------------------------------------------------------------------------------------


@on_loop
async def test_4_4_keys_count_from_one_on_each_hub() -> None:
    async with started(Pricer()) as node:
        assert [node.hub.try_send(Order(), callback=Price).key for _ in range(3)] == [1, 2, 3]
        assert node.new_hub().try_send(Order(), callback=Price).key == 1


@on_loop
async def test_4_4_hubs_of_one_node_with_the_same_key_get_their_own_answers() -> None:
    # The reference keeps one stack for all of them.
    class Echo(Actor):
        @handler
        def price(self, order: Order) -> Price:
            return Price(order.sku)

    async with started(Echo()) as node:
        hubs = [node.new_hub() for _ in range(10)]
        promises = [hub.try_send(Order(number), callback=Price) for number, hub in enumerate(hubs)]
        assert {promise.key for promise in promises} == {1}
        assert [await soon(promise) for promise in promises] == [Price(number) for number in range(10)]


@on_loop
async def test_4_4_an_unexpected_reply_leaves_the_promise_in_place() -> None:
    # The reference takes the key away, and the promise never completes.
    async with started(Pricer(1)) as node:
        promise = node.hub.try_send(to_message(Order()), callback=Price)
        for stray in (Message(b"Price", version=2), Message(b"Price", partition=b"eu"), Message(b"Other")):
            await node.hub.send_one_way(
                stray.clone(
                    receiver_identity=node.hub.identity,
                    receiver_node_identity=node.identity,
                    callback_key=promise.key,
                )
            )
        assert node.stats().unexpected == 3
        assert not promise.done()
        assert await soon(promise) == Price(1)


@on_loop
async def test_4_4_the_first_answer_wins_and_later_ones_are_counted() -> None:
    async with started(Saying(Price(1), Invoice(2), Price(3))) as node:
        assert await node.hub.send(Order(), callback=(Price, Invoice)) == Price(1)
        await until(lambda: node.stats().unexpected == 2)
        assert node.hub.waiting == 0


@on_loop
async def test_4_4_an_exception_fails_the_promise_with_its_text_and_type() -> None:
    async with started(Failing()) as node:
        promise = node.hub.try_send(Order(4), callback=Price)
        for _ in range(2):  # however often it is awaited
            with pytest.raises(ActorError, match="LookupError: no article 4"):
                await promise


@on_loop
async def test_4_4_a_promise_that_is_cancelled_leaves_no_key_behind() -> None:
    gated = Gated()
    async with started(gated) as node:
        promise = node.hub.try_send(Order(), callback=Price)
        assert node.hub.waiting == 1
        promise.cancel()
        assert node.hub.waiting == 0
        with pytest.raises(asyncio.CancelledError):
            await promise
        gated.gate.set()
        await until(lambda: node.stats().unexpected == 1)


@on_loop
async def test_4_4_a_caller_that_is_cancelled_leaves_no_key_behind() -> None:
    gated = Gated()
    async with started(gated) as node:
        asking = asyncio.create_task(node.hub.send(Order(), callback=Price))
        await until(lambda: gated.started)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert node.hub.waiting == 0
        gated.gate.set()


@on_loop
async def test_4_4_a_promise_gives_up_after_its_timeout() -> None:
    gated = Gated()
    async with started(gated) as node:
        with pytest.raises(AnswerTimeoutError, match=r"no answer to Order/1 within 0.02 s"):
            await soon(node.hub.send(Order(), callback=Price, timeout=0.02))
        with pytest.raises(TimeoutError):
            await soon(node.hub.send(Order(), callback=Price, timeout=timedelta(milliseconds=20)))
        assert node.hub.waiting == 0
        gated.gate.set()


@on_loop
async def test_4_4_without_a_timeout_a_promise_lives_as_long_as_its_message_or_as_the_node_says() -> None:
    gated = Gated()
    async with started(gated, settings=NodeSettings(answer_time=0.03)) as node:
        message = to_message(Order(), ttl=timedelta(seconds=0.02))
        with pytest.raises(AnswerTimeoutError, match=r"within 0.02 s"):
            await soon(node.hub.send(message, callback=Price))
        with pytest.raises(AnswerTimeoutError, match=r"within 0.03 s"):
            await soon(node.hub.send(Order(), callback=Price))
        gated.gate.set()


@on_loop
async def test_4_4_a_payload_lives_as_long_as_its_sender_waits() -> None:
    async with started(Pricer()) as node:
        assert node.hub.try_send(Order(), callback=Price, timeout=1.5).message.ttl_ticks == 15_000_000
        assert node.hub.try_send(Order(), callback=Price, timeout=float("inf")).message.ttl_ticks == 0
        with pytest.raises(LocalError, match="timeout"):
            node.hub.try_send(Order(), callback=Price, timeout=-1)


# -- 4.5 replies -------------------------------------------------------------------------------------------------------


@on_loop
async def test_4_5_a_reply_finds_the_hub_on_the_node_that_it_names() -> None:
    outcomes: list[Settled] = []
    async with started(Pricer(), on_outcome=outcomes.append) as node:
        hub = node.new_hub()
        await hub.send(Order(), callback=Price)
        (reply,) = replies(outcomes)
        assert (reply.receiver_identity, reply.receiver_node_identity) == (hub.identity, node.identity)


@on_loop
async def test_4_5_a_reply_of_another_node_comes_home() -> None:
    async with Network().of(a=[], b=[Pricer(3)], c=[]) as (a, b, c):
        for node in (a, b, c):
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(3)


@on_loop
async def test_4_5_a_reply_passes_through_actors_that_know_nothing_of_it() -> None:
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents + 1)

    async with Network().of(a=[], b=[Pricer(3)], c=[Billing()]) as (a, _, _):
        assert await soon(a.hub.send(Order(), callback=Invoice)) == Invoice(4)


@on_loop
async def test_4_5_a_reply_waits_for_its_node_to_become_known() -> None:
    # The reference drops it. It is parked while discovery runs.
    network = Network()
    sought: list[Message] = []
    async with network.node("a") as a, network.node("b", Pricer(3), discover=sought.append) as b:
        introduce(b, to=a)
        promise = a.hub.try_send(Order(), callback=Price)
        await until(lambda: sought)
        assert [message.identifier for message in sought] == [PRICE]
        assert not promise.done()
        introduce(a, to=b)
        assert await soon(promise) == Price(3)
        network.gone |= {b"a", b"b"}


# -- 4.6 exceptions surfacing ------------------------------------------------------------------------------------------


@on_loop
async def test_4_6_an_exception_surfaces_without_being_asked_for_wherever_it_was_raised() -> None:
    class Refusing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            raise PermissionError("no credit")

    async with Network().of(a=[], b=[Pricer()], c=[Refusing()]) as (a, _, _):
        with pytest.raises(ActorError, match="PermissionError: no credit"):
            await soon(a.hub.send(Order(), callback=Invoice))


# -- 4.7 the first format ----------------------------------------------------------------------------------------------


@on_loop
async def test_4_7_an_answer_of_the_first_format_is_found_by_its_flow_for_it_carries_no_key() -> None:
    network = Network(WireFormat.FIRST)
    async with network.of(a=[], b=[Pricer(3)]) as (a, _):
        one, other = (a.hub.try_send(Order(), callback=Price) for _ in range(2))
        assert [await soon(one), await soon(other)] == [Price(3), Price(3)]
        answers = network.sent_to(b"a")
        assert {message.callback_key for message in answers} == {0}
        assert [message.correlation_id for message in answers] == [
            one.message.correlation_id,
            other.message.correlation_id,
        ]


@on_loop
async def test_4_7_requests_of_one_flow_in_the_first_format_get_each_what_they_wait_for() -> None:
    # The reference drops the second request.
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents)

    async with Network(WireFormat.FIRST).of(a=[], b=[Pricer(3), Billing()]) as (a, _):
        one = a.hub.try_send(to_message(Order(), correlation_id=b"flow"), callback=Price, timeout=0.3)
        other = a.hub.try_send(to_message(Price(7), correlation_id=b"flow"), callback=Invoice, timeout=0.3)
        assert [await soon(one), await soon(other)] == [Price(3), Invoice(7)]


@on_loop
async def test_4_7_a_later_request_of_one_flow_is_answered_first_in_the_first_format() -> None:
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents)

    gated = Gated()
    async with Network(WireFormat.FIRST).of(a=[], b=[gated, Billing()]) as (a, _):
        one = a.hub.try_send(to_message(Order(3), correlation_id=b"flow"), callback=Price, timeout=1)
        await until(lambda: gated.started)
        other = a.hub.try_send(to_message(Price(7), correlation_id=b"flow"), callback=Invoice, timeout=0.3)
        assert await soon(other) == Invoice(7)
        gated.gate.set()
        assert await soon(one) == Price(3)


# -- 4.8 receipts ------------------------------------------------------------------------------------------------------


@on_loop
async def test_4_8_a_local_delivery_is_confirmed_too() -> None:
    # The reference confirms only what came from another node.
    outcomes: list[Settled] = []
    listener = Listener()
    async with started(listener, on_outcome=outcomes.append) as node:
        promise: Promise[Any] = node.hub.try_send(News())
        assert promise.message.callback_point == (RECEIPT, EXCEPTION)
        assert await soon(promise) is None
        await until(lambda: listener.heard)
    (receipt,) = replies(outcomes)
    assert receipt.identifier == MessageIdentifier(b"KINO.RCPTCONFIRM", 1, b"")
    assert receipt.callback_point == (RECEIPT,)
    assert (receipt.callback_key, receipt.correlation_id) == (promise.key, promise.message.correlation_id)


@on_loop
async def test_4_8_the_actor_does_not_see_the_receipt_among_the_callbacks() -> None:
    listener = Listener()
    async with started(listener) as node:
        await node.hub.send(News())
        await until(lambda: listener.heard)
    assert listener.heard[0].callback_point == (EXCEPTION,)


@on_loop
async def test_4_8_a_receipt_is_given_on_arrival_not_after_handling() -> None:
    gated = Gated()
    async with Network().of(a=[], b=[gated]) as (a, b):
        for node in (a, b):
            await soon(node.hub.send(Order()))
        assert gated.ended == 0
        gated.gate.set()
        await until(lambda: gated.ended == 2)


@on_loop
async def test_4_8_a_receipt_of_another_node_says_the_way_it_went() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        promise = a.hub.try_send(to_message(News()).clone(trace_options=1))
        await soon(promise)
        (receipt,) = network.sent_to(b"a")
    assert receipt.identifier == RECEIPT
    assert [entry.identity for entry in receipt.routing] == [b"a", b"b"]
    assert (receipt.hops, receipt.trace_options) == (1, 1)
    assert (receipt.correlation_id, receipt.callback_key) == (promise.message.correlation_id, promise.key)


@on_loop
async def test_4_8_when_the_actor_fails_after_the_receipt_nobody_waits_any_more() -> None:
    failing = Failing()
    async with started(failing) as node:
        await soon(node.hub.send(Order()))
        await until(lambda: failing.calls == 1 and node.stats().unexpected == 1)


@on_loop
async def test_4_8_what_reaches_nobody_is_not_confirmed() -> None:
    async with started() as node:
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(node.hub.send(Order()))


@on_loop
async def test_4_8_a_receipt_waits_until_there_is_room_for_the_message() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        await soon(node.hub.send(Order()))
        await until(lambda: actor.started)
        await soon(node.hub.send(Order()))
        third = asyncio.create_task(node.hub.send(Order()))
        await turns(10)
        assert not third.done()
        actor.gate.set()
        await soon(third)


@on_loop
async def test_4_8_results_of_a_confirmed_message_still_belong_to_the_flow() -> None:
    class Chatty(Actor):
        @handler
        def price(self, order: Order, context: Context) -> Iterator[News]:
            yield News("a")

    listener = Listener()
    async with started(Chatty(), listener) as node:
        promise = node.hub.try_send(Order())
        await soon(promise)
        await until(lambda: listener.heard)
    assert listener.heard[0].correlation_id == promise.message.correlation_id
    assert listener.heard[0].callback_point == (EXCEPTION,)


@on_loop
async def test_4_8_every_sending_has_one_outcome() -> None:
    outcomes: list[Settled] = []
    async with started(Pricer(), Listener(), Failing(), on_outcome=outcomes.append) as node:
        await node.hub.send(News())
        await node.hub.broadcast(News())
        with pytest.raises(DeliveryError):
            await node.hub.send(Invoice())
        await until(lambda: node.stats().waiting == 0)
        assert node.stats().outcomes[Outcome.DELIVERED] + node.stats().outcomes[Outcome.UNROUTABLE] == len(outcomes)
