"""The 24 points of the protocol that are easy to get wrong, by the number of its section 8."""

from __future__ import annotations

import re
import struct
from datetime import timedelta
from pathlib import Path

import pytest

from hopline import (
    Actor,
    DeliveryError,
    Distribution,
    Message,
    MessageIdentifier,
    MessageOutcome,
    Outcome,
    WireFormat,
    handler,
    to_message,
)
from hopline.actors import handler_map
from hopline.message import EXCEPTION, NO_FLOW, RECEIPT, ExceptionReport, RoutingEntry, TraceOptions
from hopline.routing import InternalTable, Route
from hopline.wire import MacAlgorithm, decode, encode, has_valid_signature, layouts, mac_input, sign, signature_of

from .links import Network, advertised, introduce, uri_of
from .orders import Failing, Gated, Invoice, Listener, News, Order, Price, Pricer, Saying
from .running import on_loop, soon, started, turns, until

FIRST, V4, V5, V6 = WireFormat.FIRST, WireFormat.V4, WireFormat.V5, WireFormat.V6


LATER = [V4, V5, V6]


ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


A, B, C = (RoutingEntry(f"tcp://{name}:1", name.encode()) for name in "abc")


FULL = Message(
    identity=b"ORDER",
    version=0x0102,
    partition=b"eu",
    bodies=(b"body",),
    correlation_id=b"flow",
    ttl_ticks=15_000_000,
    trace_options=TraceOptions.ROUTING,
    hops=3,
    receiver_identity=b"\x01actor",
    receiver_node_identity=b"there",
    callback_point=(ORDER, PRICE, EXCEPTION),
    callback_key=77,
    callback_receiver_identity=b"\x00hub",
    callback_receiver_node_identity=b"home",
    domain="shop",
    routing=(A, B, C),
)


class Billing(Actor):
    @handler
    def bill(self, price: Price) -> Invoice:
        return Invoice(price.cents)


# -- on the wire -------------------------------------------------------------------------------------------------------


# Protocol 8.1
def test_v4_and_v5_are_one_layout_and_either_width_of_the_version_is_read() -> None:
    v4, v5 = encode(FULL, V4), encode(FULL, V5)
    assert v4[:-1] == v5[:-1]
    for version in (b"\x04\0\0\0", b"\x05\0\0\0", b"\x04\0", b"\x05\0"):
        assert decode([*v5[:-1], version]) == FULL


# Protocol 8.2
@pytest.mark.parametrize("wire_format", LATER)
def test_entries_keep_the_order_of_their_writer_and_are_written_top_down(wire_format: WireFormat) -> None:
    # The reference reads them in reverse. What is written is the same as its.
    frames = encode(FULL, wire_format)
    assert decode(frames).routing == FULL.routing
    assert decode(frames).callback_point == FULL.callback_point
    if wire_format is not V6:
        assert [frames.index(entry.identity) for entry in (A, B, C)] == [4, 6, 8]


# Protocol 8.2
@on_loop
async def test_the_trace_of_a_flow_over_several_nodes_is_in_the_order_of_its_way() -> None:
    network = Network(V5)
    async with network.of(a=[], b=[Pricer()], c=[Billing()]) as (a, _, _):
        await soon(a.hub.send(Order(), callback=Invoice))
        (reply,) = network.sent_to(b"a")
    assert [entry.identity for entry in reply.routing] == [b"a", b"b", b"c"]


# Protocol 8.3
def test_offsets_and_divisors_are_read_not_computed() -> None:
    frames = encode(FULL, V5)
    # A newer writer puts a frame on top of each routing entry, and says so in the divisor.
    top = 3  # after the envelope and the body
    entries = [frame for entry in (A, B, C) for frame in (b"new", entry.uri.encode(), entry.identity)]
    newer = [*frames[:top], *entries, *frames[top + 6 :]]
    offset, count, divisor, hops = struct.unpack("<4H", newer[-13])
    assert (count, divisor, hops) == (3, 2, 3)
    newer[-13] = struct.pack("<4H", offset, count, 3, hops)
    body_offset, bodies = struct.unpack("<HH4x", newer[-2])
    newer[-2] = struct.pack("<HH4x", body_offset + 3, bodies)
    assert decode(newer) == FULL
    # And one more fixed frame above all that are known moves every offset.
    at = len(frames) - 17
    moved = [*frames[:at], b"new", *frames[at:]]
    for row in (-13, -12, -2):
        (word,) = struct.unpack("<Q", moved[row])
        moved[row] = struct.pack("<Q", word + 1)
    assert decode(moved) == FULL


# Protocol 8.4
def test_absent_counts_are_empty_frames_in_the_first_format_and_full_words_in_the_later_ones() -> None:
    bare = Message(b"ORDER")
    first = encode(bare, FIRST)
    assert [first[-row] for row in (14, 13, 6, 5)] == [b""] * 4
    later = encode(bare, V5)
    assert [later[-13], later[-12]] == [struct.pack("<4H", 0, 0, 2, 0), struct.pack("<4H", 0, 0, 3, 0)]
    zero = [b"\0\0\0\0" if -row in (-14, -6) else first[-row] for row in range(len(first), 0, -1)]
    assert decode(zero) == bare  # a count of zero says the same


# Protocol 8.5
def test_the_routing_flag_the_unit_of_lifetime_and_the_width_of_words_are_the_formats_own() -> None:
    message = Message(b"ORDER", trace_options=TraceOptions.ROUTING, ttl_ticks=15_000_000)
    first, later = encode(message, FIRST), encode(message, V5)
    assert (first[-12], first[-3]) == (struct.pack("<q", 2), struct.pack("<q", 1_500))  # milliseconds
    assert encode(message, layouts.FIRST_TICKS)[-3] == later[-3] == struct.pack("<q", 15_000_000)
    assert later[-5] == struct.pack("<Q", 1)
    assert {len(later[-row]) for row in (13, 12, 5, 2)} == {8}
    assert decode(first) == decode(later) == message


# Protocol 8.6
def test_integers_are_little_endian() -> None:
    frames = encode(FULL, V5)
    assert (frames[-7], frames[-16]) == (b"\x02\x01", b"\x4d\0\0\0\0\0\0\0")
    assert frames[-3] == bytes.fromhex("c0e1e40000000000")


# Protocol 8.7
@pytest.mark.parametrize("wire_format", list(WireFormat))
def test_frames_in_front_may_come_and_go_on_the_way(wire_format: WireFormat) -> None:
    frames = encode(FULL, wire_format)
    read = decode(frames)
    assert decode([b"sender", *frames[1:]]) == read  # from router to router
    assert decode([b"dealer", *frames]) == read  # a router puts the sender in front
    assert decode(frames[1:]) == read  # a dealer takes it away


# -- callbacks ---------------------------------------------------------------------------------------------------------


# Protocol 8.8
def test_a_callback_matches_on_identity_version_and_partition() -> None:
    for near_miss in (Message(b"Price", 2), Message(b"Price", 1, b"eu"), Message(b"price")):
        assert near_miss.register_callback_point(b"home", b"\x00hub", [PRICE], 1).receiver_identity == b""
    assert Message(b"Price").register_callback_point(b"home", b"\x00hub", [PRICE], 1).receiver_identity == b"\x00hub"
    assert {identifier.partition for identifier in handler_map(Pricer())} == {b""}


# Protocol 8.8
@on_loop
async def test_an_answer_of_another_version_or_partition_is_no_answer() -> None:
    class Others(Actor):
        @handler(MessageIdentifier(b"Price", 2))
        @handler(MessageIdentifier(b"Price", 1, b"eu"))
        def take(self, message: Message) -> None: ...

    near_misses = [to_message(Price(1)).clone(version=2), to_message(Price(1), partition=b"eu")]
    async with Network().of(a=[], b=[Saying(*near_misses, Price(3)), Others()]) as (a, _):
        assert await soon(a.hub.send(Order(), callback=Price)) == Price(3)


# Protocol 8.9
@on_loop
async def test_the_callback_point_stays_after_a_match_and_goes_through_actors_between() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer()], c=[Billing()]) as (a, _, _):
        answer = await soon(a.hub.send(Order(), callback=MessageIdentifier(b"Invoice")))
        (between,) = [message for message in network.sent_to(b"c") if message.identifier == PRICE]
    expected = (MessageIdentifier(b"Invoice"), EXCEPTION)
    assert between.callback_point == answer.callback_point == expected
    assert (between.receiver_identity, answer.callback_key) == (b"", 1)


# Protocol 8.9
@on_loop
async def test_nothing_is_matched_on_arrival() -> None:
    # The message is among its own callbacks, but nobody registered them here: it goes to the actor.
    listener = Listener()
    async with started(listener) as node:
        arrived = to_message(News()).clone(
            callback_point=(NEWS,),
            callback_receiver_identity=node.hub.identity,
            callback_receiver_node_identity=node.identity,
            hops=1,
        )
        node.router.receive(decode(encode(arrived, V5)))
        await until(lambda: listener.heard)
        assert node.hub.unexpected == 0


# Protocol 8.10
@on_loop
async def test_broadcast_results_get_no_callback_data_and_no_result_gets_hops_lifetime_or_receivers() -> None:
    listener = Listener()
    everyone = to_message(News("all"), distribution=Distribution.BROADCAST)
    saying = Saying(everyone, News("one"))
    async with Network().of(a=[], b=[saying], c=[listener]) as (a, _, _):
        request = to_message(Order(), ttl=timedelta(seconds=60)).with_receiver_actor(b"b", saying.identity)
        promise = a.hub.try_send(request, callback=Price, timeout=0.05)
        await until(lambda: len(listener.heard) == 2)
        promise.cancel()
    by_all, by_one = listener.heard
    assert (by_all.callback_point, by_all.callback_key, by_all.callback_receiver_identity) == ((), 0, b"")
    assert (by_one.callback_point, by_one.callback_key) == ((PRICE, EXCEPTION), 1)
    for result in listener.heard:
        assert (result.hops, result.ttl_ticks, result.receiver_identity, result.receiver_node_identity) == (
            1,
            0,
            b"",
            b"",
        )


# Protocol 8.11
@on_loop
async def test_trace_options_add_up() -> None:
    listener = Listener()
    own = to_message(News()).clone(trace_options=TraceOptions.ROUTING)
    async with started(Saying(own), listener) as node:
        for options in (0, 4):
            await node.hub.send_one_way(to_message(Order()).clone(trace_options=options))
        await until(lambda: len(listener.heard) == 2)
    assert [message.trace_options for message in listener.heard] == [1, 1 | 4]


# Protocol 8.12
@on_loop
async def test_promises_have_keys_and_the_exception_is_among_the_callbacks_on_the_message() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(1)]) as (a, _):
        same_flow = [to_message(Order(), correlation_id=b"flow") for _ in range(3)]
        promises = [a.hub.try_send(message, callback=Price) for message in same_flow]
        assert [await soon(promise) for promise in promises] == [Price(1)] * 3
        assert [message.callback_key for message in network.sent_to(b"a")] == [1, 2, 3]
        assert {message.callback_point[-1] for message in network.sent_to(b"b")} == {EXCEPTION}


# -- routing -----------------------------------------------------------------------------------------------------------


# Protocol 8.13
@on_loop
async def test_a_broadcast_is_sent_on_by_its_own_node_only_even_when_that_one_handles_it_too() -> None:
    listeners = [Listener(), Listener(), Listener()]
    network = Network()
    async with network.of(a=[listeners[0]], b=[listeners[1]], c=[listeners[2]]) as (a, _, _):
        await a.hub.broadcast(News("x"))
        await until(lambda: all(listener.heard for listener in listeners))
        await turns(20)
        assert [listener.texts for listener in listeners] == [["x"]] * 3
        assert [peer for peer, _ in network.travelled] == [b"b", b"c"]


# Protocol 8.14
@on_loop
async def test_a_unicast_from_another_node_is_not_passed_on_when_it_can_be_handled_here() -> None:
    here, there = Pricer(1), Pricer(2)
    async with Network().of(a=[here], b=[there]) as (a, _):
        for _ in range(5):
            a.router.receive(to_message(Order()).add_hop())
        await until(lambda: len(here.seen) == 5)
    assert there.seen == []


# Protocol 8.15
@on_loop
async def test_no_other_node_stands_in_for_the_one_that_was_asked_for() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        with pytest.raises(DeliveryError, match="its receiver is not known"):
            await soon(a.hub.send(to_message(Order()).with_receiver_node(b"c"), callback=Price))
        with pytest.raises(DeliveryError, match="its receiver is not known"):
            await soon(a.hub.send(to_message(Order()).with_receiver_actor(b"c", b"\x01actor"), callback=Price))


# Protocol 8.16
@on_loop
async def test_other_nodes_are_not_looked_up_by_the_receiver() -> None:
    asked, other = Pricer(2), Pricer(3)
    network = Network()
    async with network.of(a=[], b=[asked], c=[other]) as (a, _, _):
        for _ in range(4):
            request = to_message(Order()).clone(receiver_identity=asked.identity)
            a.hub.try_send(request, callback=Price).cancel()
        await turns(10)
        orders = [peer for peer, message in network.travelled if message.identifier == ORDER and message.hops == 1]
    assert sorted(orders) == [b"b", b"b", b"c", b"c"]  # by turns, although the receiver is known to be on b


# Protocol 8.17
@on_loop
async def test_local_delivery_is_confirmed_too_and_always_on_arrival() -> None:
    # In this we differ: the reference confirms only what came from another node.
    gated = Gated()
    async with Network().of(a=[], b=[gated]) as (a, b):
        await soon(a.hub.send(Order()))
        await soon(b.hub.send(Order()))
        assert gated.ended == 0
        gated.gate.set()


# Protocol 8.18
@on_loop
async def test_unset_is_empty_before_the_wire_and_after_it() -> None:
    fresh = Message(b"ORDER")
    for message in (fresh, *(decode(encode(fresh, wire_format)) for wire_format in WireFormat)):
        assert (message.callback_receiver_identity, message.callback_receiver_node_identity) == (b"", b"")
        assert (message.receiver_identity, message.receiver_node_identity) == (b"", b"")
    listener = Listener()
    async with started(listener) as node:
        node.router.receive(decode(encode(to_message(News()).add_hop(), V5)))
        await until(lambda: listener.heard)


# Protocol 8.19
@on_loop
async def test_what_the_sending_to_others_changes_is_not_seen_by_actors_of_this_node() -> None:
    here = [Listener(), Listener()]
    there = Listener()
    async with Network().of(a=[*here], b=[there]) as (a, _):
        original = to_message(News(), distribution=Distribution.BROADCAST)
        await a.hub.broadcast(original)
        await until(lambda: there.heard and all(listener.heard for listener in here))
    for listener in here:
        (message,) = listener.heard
        assert (message.hops, message.routing, message.socket_identity) == (0, (), b"")
    assert (original.hops, original.routing) == (0, ())
    assert there.heard[0].hops == 1


# Protocol 8.20
def test_the_signature_covers_version_and_callback_receiver_as_the_reference_writes_them() -> None:
    message = Message(
        b"TEST.MSG",
        version=258,
        partition=b"P1",
        bodies=(b"BODY",),
        callback_receiver_identity=b"\x00H",
        callback_receiver_node_identity=b"not covered",
    )
    assert mac_input(message) == bytes.fromhex("544553542e4d534702015031424f44590048")
    assert signature_of(message, b"A" * 16, MacAlgorithm.MD5).hex() == "2e6b6623e5f51919eded17fc0cc00c57"
    padded = message.clone(bodies=(ExceptionReport("text", "type").to_body().ljust(256, b"\0"),))
    signed = sign(padded, b"key")
    assert has_valid_signature(signed, b"key")
    assert not has_valid_signature(signed.clone(bodies=(padded.body.rstrip(b"\0"),)), b"key")
    assert ExceptionReport.from_body(padded.body) == ExceptionReport("text", "type")


# Protocol 8.21
@on_loop
async def test_a_node_without_an_identity_is_not_someone_else() -> None:
    async with started(Pricer(1), Failing(), identity=b"") as node:
        answers = [node.hub.try_send(to_message(Order()).with_receiver_node(b""), callback=Price) for _ in range(2)]
        assert await soon(answers[0]) == Price(1)
        with pytest.raises(Exception, match="no article"):
            await soon(answers[1])
        await soon(node.hub.send(Order()))


# Protocol 8.22
@on_loop
async def test_a_message_outside_of_any_flow_has_the_zero_guid_and_a_request_has_its_own() -> None:
    assert Message.create(b"ORDER").correlation_id == NO_FLOW == b"00000000-0000-0000-0000-000000000000"
    pricer = Pricer()
    async with started(pricer) as node:
        await node.hub.send(Order(), callback=Price)
        await node.hub.send(Message.create(b"Order", b"\x81\xa3sku\x01"), callback=Price)
    own, none = (message.correlation_id for message in pricer.seen)
    assert len(own) == 36
    assert own != NO_FLOW == none


# -- what waits for the network ----------------------------------------------------------------------------------------


# Protocol 8.23
@on_loop
async def test_a_hub_is_advertised_although_it_has_no_message() -> None:
    # Asking for the domain of a hub's route waits for the security package: there is nothing to ask yet.
    table = InternalTable()
    table.add_hub(b"\x00hub")
    table.add_hub(b"\x00shy", keep_local=True)
    assert list(table.advertised()) == [Route(b"\x00hub", None)]
    async with started() as node:
        hubs = [node.hub, node.new_hub()]
        assert advertised(node) == [Route(hub.identity, None) for hub in hubs]
        node.router.directory.learn(b"b", uri_of(b"b"), b"\x00their hub")
        with pytest.raises(Exception, match="a hub, or an actor with a message"):
            node.router.directory.learn(b"b", uri_of(b"b"), b"\x00their hub", ORDER)


# Protocol 8.24
@on_loop
async def test_every_message_without_a_route_asks_for_one_and_a_route_releases_them_all() -> None:
    # The window in which repeated questions are absorbed waits for the cluster package: here each message asks.
    network, sought = Network(), list[Message]()
    listener = Listener()
    async with network.node("a", discover=sought.append) as a, network.node("b", listener) as b:
        for number in range(3):
            await a.hub.send_one_way(News(str(number)))
        assert [message.identifier for message in sought] == [NEWS] * 3
        assert a.stats().waiting == 3
        introduce(b, to=a)
        await until(lambda: len(listener.heard) == 3)
        assert listener.texts == ["0", "1", "2"]
        assert a.stats().waiting == 0
        network.gone |= {b"a", b"b"}


# Protocol 8.24
@on_loop
async def test_reports_that_nobody_handles_are_not_looked_for_but_those_on_their_way_home_are() -> None:
    sought: list[Message] = []
    outcomes: list[MessageOutcome] = []
    async with started(Failing(), Listener(), discover=sought.append, on_outcome=outcomes.append) as node:
        await node.hub.send_one_way(Order())
        await until(lambda: len(outcomes) == 2)
        assert (sought, outcomes[-1].outcome) == ([], Outcome.UNROUTABLE)
        request = to_message(Order()).register_callback_point(b"far", b"\x00hub", [PRICE, EXCEPTION], 1)
        confirmed = to_message(News()).register_callback_point(b"far", b"\x00hub", [RECEIPT, EXCEPTION], 2)
        node.router.receive(request.add_hop())
        node.router.receive(confirmed.add_hop())
        await until(lambda: len(sought) == 2)
        assert {message.identifier for message in sought} == {EXCEPTION, RECEIPT}
        assert {message.receiver_node_identity for message in sought} == {b"far"}
        await soon(node.stop(drain_timeout=0.0))


def test_every_pitfall_has_a_test() -> None:
    rules = re.findall(r"^# Protocol 8\.(\d+)$", Path(__file__).read_text(), re.MULTILINE)
    assert {int(rule) for rule in rules} == set(range(1, 25))
