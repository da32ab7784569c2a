"""How long handlers and requests take: measured when somebody collects it, under few labels, and else for nothing."""

from __future__ import annotations

import asyncio

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    DeliveryError,
    MessageIdentifier,
    Node,
    Payload,
    Retry,
    handler,
)
from hopline.client.promise import Promise, TimedPromise
from hopline.message import Message
from hopline.metrics import NodeCollector
from hopline.observers.timings import MOST_SERIES, OTHER, Series, SeriesTable
from tests.node.running import on_loop, started, until


class Greet(Payload):
    name: str


class Greeting(Payload):
    text: str


class Greeter(Actor):
    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @handler
    async def greet(self, request: Greet) -> Greeting:
        await self.may_answer.wait()
        if not request.name:
            raise ValueError("nobody to greet")
        return Greeting(request.name)


def samples(node: Node) -> dict[tuple[str, ...], float]:
    """Return the samples of a node by name and labels."""
    found = {}
    for family in NodeCollector(node).collect():
        for sample in family.samples:
            found[sample.name, *sample.labels.values()] = sample.value
    return found


@on_loop
async def test_handlers_and_requests_are_measured_by_message_and_actor() -> None:
    async with started(Greeter()) as node:
        samples(node)
        await node.hub.send(Greet("you"), callback=Greeting)
        with pytest.raises(ActorError):
            await node.hub.send(Greet(""), callback=Greeting)
        await until(lambda: node.stats().handled == 2)
        found = samples(node)
        assert found["hopline_handler_seconds_count", "Greet/1", "Greeter"] == 2
        assert found["hopline_handler_seconds_bucket", "Greet/1", "Greeter", "+Inf"] == 2
        assert 0 < found["hopline_handler_seconds_sum", "Greet/1", "Greeter"] < 60
        assert found["hopline_handler_failures_total", "Greet/1", "Greeter"] == 1
        assert found["hopline_request_seconds_count", "Greet/1"] == 2
        assert found["hopline_request_failures_total", "Greet/1", "failed"] == 1
        assert found["hopline_request_failures_total", "Greet/1", "timeout"] == 0


@on_loop
async def test_what_is_under_way_is_counted_while_it_is() -> None:
    greeter = Greeter()
    async with started(greeter) as node:
        samples(node)
        greeter.may_answer.clear()
        asking = [asyncio.ensure_future(node.hub.send(Greet("you"), callback=Greeting)) for _ in range(3)]
        await until(lambda: sum(host.running for host in node.hosts) == 3)
        found = samples(node)
        assert found["hopline_handlers_in_flight", "Greet/1", "Greeter"] == 3
        assert found["hopline_requests_in_flight", "Greet/1"] == 3
        asking[0].cancel()
        with pytest.raises(AnswerTimeoutError):
            await node.hub.send(Greet("you"), callback=Greeting, timeout=0.01)
        greeter.may_answer.set()
        await asyncio.gather(*asking[1:])
        await until(lambda: node.stats().handled >= 3)
        found = samples(node)
        assert found["hopline_handlers_in_flight", "Greet/1", "Greeter"] == 0
        assert found["hopline_requests_in_flight", "Greet/1"] == 0
        assert found["hopline_request_seconds_count", "Greet/1"] == 3  # the cancelled one has no duration
        assert found["hopline_request_failures_total", "Greet/1", "timeout"] == 1


@on_loop
async def test_requests_that_reach_nobody_and_default_timeouts_are_failures_too() -> None:
    async with started(Greeter()) as node:
        samples(node)
        nothing = Message.flow_start(b"Nothing", b"", version=3, partition=b"customer 17")
        with pytest.raises(DeliveryError):
            await node.hub.send(nothing, callback=Greeting)
        assert samples(node)["hopline_request_failures_total", "Nothing/3", "failed"] == 1


@on_loop
async def test_every_attempt_of_a_request_is_measured() -> None:
    async with started(Greeter()) as node:
        samples(node)
        with pytest.raises(ActorError):
            await node.hub.ask(Greet(""), callback=Greeting, retry=Retry(attempts=3, backoff=0.001, on=(ActorError,)))
        found = samples(node)
        assert found["hopline_request_seconds_count", "Greet/1"] == 3
        assert found["hopline_request_failures_total", "Greet/1", "failed"] == 3


@on_loop
async def test_nothing_is_measured_until_somebody_collects_and_answers_keep_their_shortest_way() -> None:
    async with started(Greeter()) as node:
        router = node._require_running().router
        assert (router.observes_handlers, router.is_observed) == (False, False)
        promise = node.hub.try_send(Greet("you"), callback=Greeting)
        assert type(promise) is Promise
        await promise
        NodeCollector(node)
        assert (router.observes_handlers, router.is_observed) == (True, False)
        promise = node.hub.try_send(Greet("you"), callback=Greeting)
        assert type(promise) is TimedPromise
        await promise


@on_loop
async def test_a_node_that_is_started_again_begins_at_zero() -> None:
    node = Node(Greeter())
    NodeCollector(node)
    for _ in range(2):
        async with node:
            await node.hub.send(Greet("you"), callback=Greeting)
            await until(lambda: node.stats().handled)
            assert samples(node)["hopline_handler_seconds_count", "Greet/1", "Greeter"] == 1


def test_labels_are_bounded() -> None:
    table: SeriesTable[MessageIdentifier] = SeriesTable(lambda kind: (str(kind),), 1)
    for number in range(3 * MOST_SERIES):
        series = table.of(MessageIdentifier(b"%d" % number))
        assert series is not None
        series.add(0.1)
    assert len(table.by_labels) == MOST_SERIES
    assert sum(table.by_labels[OTHER,].counts) == 2 * MOST_SERIES + 1
    assert sum(table.by_labels["0/1",].counts) == 1


def test_a_duration_is_in_every_bucket_whose_bound_it_does_not_exceed() -> None:
    series = Series()
    for seconds in (0.0001, 0.0005, 0.3, 100.0):
        series.add(seconds)
    buckets = dict(series.cumulative())
    assert (buckets["0.0005"], buckets["0.25"], buckets["0.5"], buckets["30.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
