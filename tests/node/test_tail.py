"""What a node shows to those who look at its messages: what they want, as much as is allowed, and nothing to nobody."""

from __future__ import annotations

from collections import Counter

import pytest

from hopline import Actor, ActorError, DeliveryError, Message, MessageIdentifier, Node, NodeSettings, Payload, handler
from hopline.observers.observer import EVENTS, Observers
from hopline.observers.tail import (
    LEASE,
    LONGEST_READER,
    MOST_TAILS,
    PENDING_BYTES,
    Fetched,
    KindPattern,
    NodeTail,
    TailFilter,
)
from hopline.security.services import is_question
from tests.node.running import Clock, in_vain, on_loop, started

READER = b"somebody"


class Greet(Payload):
    name: str


class Greeting(Payload):
    text: str


class Other(Payload):
    pass


class Done(Payload):
    pass


class Greeter(Actor):
    @handler
    def greet(self, request: Greet) -> Greeting:
        if not request.name:
            raise ValueError("nobody to greet")
        return Greeting(request.name)

    @handler
    def other(self, request: Other) -> Done:
        return Done()


def tail_of(node: Node) -> NodeTail:
    return node._require_running().tail


def shown(fetched: Fetched) -> list[tuple[str, str, str]]:
    return [(record.event, str(record.kind), record.handler) for record in fetched.records]


def listened_to(node: Node) -> set[str]:
    observers = node._require_running().observers
    return {event for event in EVENTS if getattr(observers, event) is not None}


@on_loop
async def test_a_message_is_shown_where_it_is_delivered_with_its_actor_and_its_body() -> None:
    async with started(Greeter()) as node:
        tail = tail_of(node)
        assert tail.fetch(READER, TailFilter(body_bytes=100)) == Fetched()
        await node.hub.send(Greet("you"), callback=Greeting)
        fetched = tail.fetch(READER, TailFilter(body_bytes=100))
        assert shown(fetched) == [("delivered", "Greet/1", "greet"), ("delivered", "Greeting/1", "")]
        request, answer = fetched.records
        assert request.flow == answer.flow
        assert (request.actor, answer.receiver) == ("Greeter", node.hub.identity)
        assert b"you" in request.body
        assert request.size == len(request.body)
        assert tail.fetch(READER, TailFilter(body_bytes=100)) == Fetched()  # it was fetched


@on_loop
async def test_failures_are_shown_with_their_reasons() -> None:
    async with started(Greeter(), discover=in_vain, settings=NodeSettings(discovery_timeout=0.01)) as node:
        tail = tail_of(node)
        tail.fetch(READER, TailFilter())
        with pytest.raises(ActorError):
            await node.hub.send(Greet(""), callback=Greeting)
        with pytest.raises(DeliveryError):
            await node.hub.send(Greeting("nobody handles this"), callback=Other)
        fetched = tail.fetch(READER, TailFilter())
        assert ("handled", "Greet/1", "greet") in shown(fetched)
        reasons = {record.event: record.reason for record in fetched.records if record.reason}
        assert reasons == {
            "handled": "ValueError: nobody to greet",
            "unroutable": "nobody handles it; its flow waits for Other/1",
        }
        assert not any(record.body for record in fetched.records)  # nobody asked for bodies


@on_loop
async def test_only_the_kinds_and_the_flow_that_a_reader_wants_are_shown() -> None:
    async with started(Greeter()) as node:
        tail = tail_of(node)
        by_name = TailFilter(kinds=(KindPattern(b"Greet"),))
        by_version = TailFilter(kinds=(KindPattern(b"Greet", 2), KindPattern(b"Other", 1, b"")))
        everything = TailFilter(has_every_event=True)
        tail.fetch(b"name", by_name)
        tail.fetch(b"version", by_version)
        tail.fetch(b"all", everything)
        await node.hub.send(Greet("you"), callback=Greeting)
        await node.hub.send(Other(), callback=Done)
        assert shown(tail.fetch(b"name", by_name)) == [("delivered", "Greet/1", "greet")]
        assert shown(tail.fetch(b"version", by_version)) == [("delivered", "Other/1", "other")]
        records = tail.fetch(b"all", everything).records
        assert {record.event for record in records} == {"submitted", "delivered", "handled"}
        flow = records[0].flow
        of_flow = TailFilter(flow=flow)
        tail.fetch(b"flow", of_flow)
        await node.hub.send(Greet("somebody else"), callback=Greeting)
        assert tail.fetch(b"flow", of_flow) == Fetched()


@on_loop
async def test_what_is_too_much_is_left_out_and_counted_and_delays_nobody() -> None:
    clock = Clock()
    async with started(Greeter(), clock=clock) as node:
        tail = tail_of(node)
        few = TailFilter(kinds=(KindPattern(b"Other"),), rate=3)
        large = TailFilter(kinds=(KindPattern(b"Greet"),), rate=1_000, body_bytes=1 << 16)
        tail.fetch(b"few", few)
        tail.fetch(b"large", large)
        for _ in range(10):
            await node.hub.send(Other(), callback=Done)
        fetched = tail.fetch(b"few", few)
        assert (len(fetched.records), fetched.left_out) == (3, 7)
        clock.now += 1.0
        await node.hub.send(Other(), callback=Done)
        fetched = tail.fetch(b"few", few)
        assert (len(fetched.records), fetched.left_out) == (1, 0)

        name = "x" * (1 << 16)
        count = 2 * PENDING_BYTES // len(name)
        for _ in range(count):
            await node.hub.send(Greet(name), callback=Greeting)
        fetched = tail.fetch(b"large", large)
        assert sum(len(record.body) for record in fetched.records) <= PENDING_BYTES + len(name)
        assert len(fetched.records) + fetched.left_out == count
        assert fetched.left_out


@on_loop
async def test_what_senders_choose_counts_whatever_part_of_a_message_it_is() -> None:
    async with started() as node:
        tail = tail_of(node)
        wanted = TailFilter(kinds=(KindPattern(b"Other"),), rate=1_000)
        tail.fetch(b"reader", wanted)
        partition = b"x" * (PENDING_BYTES // 4)
        for _ in range(10):
            with pytest.raises(DeliveryError):
                await node.hub.send(Message.flow_start(b"Other", partition=partition))
        fetched = tail.fetch(b"reader", wanted)
        assert (len(fetched.records), fetched.left_out) == (4, 6)


@on_loop
async def test_nothing_is_observed_while_nobody_looks() -> None:
    clock = Clock()
    async with started(Greeter(), clock=clock) as node:
        tail = tail_of(node)
        before = listened_to(node)
        assert not node._require_running().router.is_observed
        tail.fetch(READER, TailFilter())
        assert node._require_running().router.is_observed
        tail.end(READER)
        assert listened_to(node) == before
        assert not node._require_running().router.is_observed

        tail.fetch(READER, TailFilter())
        clock.now += LEASE + 0.1  # the reader was killed
        await node.hub.send(Greet("you"), callback=Greeting)
        assert listened_to(node) == before
        assert not tail.has(READER)


@on_loop
async def test_the_last_messages_are_shown_at_the_end() -> None:
    async with started(Greeter()) as node:
        tail = tail_of(node)
        tail.fetch(READER, TailFilter())
        await node.hub.send(Other(), callback=Done)
        assert shown(tail.end(READER)) == [("delivered", "Other/1", "other"), ("delivered", "Done/1", "")]
        assert tail.end(READER) == Fetched()


def unused_tail(refused: Counter[str]) -> NodeTail:
    return NodeTail(Observers(), lambda _receiver, _kind: (None, None), is_question, Clock(), Clock(), refused)


def test_readers_and_what_they_want_are_bounded() -> None:
    tail = unused_tail(Counter())
    for number in range(MOST_TAILS):
        assert tail.fetch(b"%d" % number, TailFilter()).problem == ""
    assert "try again later" in tail.fetch(b"one more", TailFilter()).problem
    assert tail.fetch(b"0", TailFilter(rate=5)).problem == ""  # it looks already, and wants something else
    for wanted in (
        TailFilter(rate=0),
        TailFilter(rate=10**6),
        TailFilter(body_bytes=1 << 30),
        TailFilter(kinds=(KindPattern(b"x"),) * 100),
        TailFilter(flow=b"x" * 2_000),
        TailFilter(kinds=(KindPattern(b"x" * 2_000),)),
        TailFilter(kinds=(KindPattern(b"x", 1, b"x" * 2_000),)),
        TailFilter(kinds=(KindPattern(b"x", b"x" * 2_000),)),
    ):
        assert "expected" in tail.fetch(b"0", wanted).problem


def test_a_reader_with_too_long_a_name_is_refused_and_counted() -> None:
    refused: Counter[str] = Counter()
    tail = unused_tail(refused)
    assert tail.fetch(b"x" * LONGEST_READER, TailFilter()).problem == ""
    assert not refused
    too_long = b"x" * (LONGEST_READER + 1)
    assert tail.fetch(too_long, TailFilter()).problem == "expected a reader's name of at most 255 bytes, found 256"
    assert not tail.has(too_long)
    assert refused == {"tail": 1}


def test_a_pattern_without_a_version_means_all_of_them() -> None:
    kinds = [
        MessageIdentifier(b"A"),
        MessageIdentifier(b"A", 2),
        MessageIdentifier(b"A", 2, b"eu"),
        MessageIdentifier(b"B"),
    ]
    matches = {
        KindPattern(b"A"): [True, True, True, False],
        KindPattern(b"A", 2): [False, True, True, False],
        KindPattern(b"A", 2, b"eu"): [False, False, True, False],
    }
    for pattern, expected in matches.items():
        assert [pattern.matches(kind) for kind in kinds] == expected
