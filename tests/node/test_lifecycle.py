"""Starting, stopping, restarting; adding and removing actors; many nodes in one process."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    DeliveryError,
    MessageOutcome,
    Node,
    NodeSettings,
    NotRunningError,
    Outcome,
    Payload,
    handler,
    to_message,
)
from hopline.node import StopReport

from .running import on_loop, soon, started, until


class Ask(Payload):
    number: int


class Told(Payload):
    number: int


class Good(Actor):
    def __init__(self) -> None:
        self.seen: list[int] = []

    @handler
    def answer(self, ask: Ask) -> Told:
        self.seen.append(ask.number)
        return Told(ask.number + 1)


class Gated(Actor):
    concurrency = 1

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()

    @handler
    async def answer(self, ask: Ask) -> Told:
        self.begun.set()
        await self.gate.wait()
        return Told(ask.number + 1)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="hopline")


def test_a_node_that_does_not_run_says_so() -> None:
    async def run() -> None:
        node = Node(Good())
        with pytest.raises(NotRunningError, match="async with Node"):
            _ = node.hub
        with pytest.raises(NotRunningError):
            node.stats()
        async with node:
            hub = node.hub
            await hub.send(Ask(1), callback=Told)
        with pytest.raises(NotRunningError, match="not running"):
            await hub.send(Ask(1), callback=Told)
        with pytest.raises(NotRunningError):
            await hub.send_one_way(Ask(1))
        with pytest.raises(NotRunningError):
            hub.stream(Ask(1), callback=Told)
        assert node.stats().outcomes[Outcome.DELIVERED] == 2
        assert await node.stop() == StopReport()

    asyncio.run(run())


def test_a_node_restarts_in_process_and_on_another_loop() -> None:
    node = Node(Good())

    async def run() -> int:
        async with node:
            await node.start()  # twice does not matter
            answer = await node.hub.send(Ask(1), callback=Told)
            assert node.stats().submitted == 2
            return answer.number

    assert [asyncio.run(run()) for _ in range(3)] == [2, 2, 2]


def test_stopping_finishes_what_is_under_way() -> None:
    async def run() -> None:
        actor = Gated()
        node = Node(actor)
        await node.start()
        answers = [node.hub.try_send(Ask(number), callback=Told) for number in range(5)]
        asyncio.get_running_loop().call_later(0.02, actor.gate.set)
        report = await node.stop()
        assert report.is_clean
        assert [(await answer).number for answer in answers] == [1, 2, 3, 4, 5]
        assert node.stats().is_balanced
        assert node.stats().waiting == 0

    asyncio.run(run())


def test_what_cannot_be_finished_is_reported_and_its_callers_are_told() -> None:
    async def run() -> None:
        actor = Gated()
        node = Node(actor)
        await node.start()
        handled = node.hub.try_send(Ask(1), callback=Told)
        await actor.begun.wait()
        waiting = node.hub.try_send(Ask(2), callback=Told)
        one_way = to_message(Ask(3))
        await node.hub.send_one_way(one_way)
        report = await node.stop(drain_timeout=0.01)
        assert (report.failed_messages, report.cancelled_handlers) == (2, 1)
        with pytest.raises(Exception, match="was stopped before it ended"):
            await handled
        with pytest.raises(DeliveryError, match="failed: Ask/1: its node stopped before it was handled"):
            await waiting
        stats = node.stats()
        assert stats.outcomes[Outcome.FAILED] == 2
        assert stats.is_balanced
        assert stats.waiting == stats.promised == 0

    asyncio.run(run())


def test_a_promise_that_nobody_will_keep_fails_when_the_node_stops() -> None:
    class Silent(Actor):
        @handler
        def ignore(self, ask: Ask) -> None: ...

    async def run() -> None:
        node = Node(Silent())
        await node.start()
        promise = node.hub.try_send(Ask(1), callback=Told)
        report = await node.stop()
        assert report == StopReport(failed_promises=1)
        with pytest.raises(NotRunningError, match="the node stopped before the answer came"):
            await promise

    asyncio.run(run())


def test_leaving_the_block_with_an_error_does_not_wait() -> None:
    async def run() -> None:
        async with asyncio.timeout(2), Node(Gated(), settings=NodeSettings(drain_timeout=100)) as node:
            node.hub.try_send(Ask(1), callback=Told)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())


def test_actors_come_and_go_while_the_node_runs() -> None:
    async def run() -> None:
        first, second = Good(), Good()
        async with Node(first) as node:
            await node.hub.send(Ask(1), callback=Told)
            node.add(second)
            for number in range(2, 6):
                await node.hub.send(Ask(number), callback=Told)
            assert (first.seen, second.seen) == ([1, 2, 4], [3, 5])
            await node.remove(first)
            await node.hub.send(Ask(6), callback=Told)
            assert second.seen[-1] == 6
            await node.remove(second)
            with pytest.raises(DeliveryError) as caught:
                await node.hub.send(Ask(7), callback=Told)
            assert caught.value.outcome == Outcome.UNROUTABLE
            assert node.actors == ()

    asyncio.run(run())


def test_what_waits_for_a_removed_actor_goes_to_another_one_who_handles_it() -> None:
    async def run() -> None:
        gated, good = Gated(), Good()
        async with Node(gated) as node:
            handled = node.hub.try_send(Ask(0), callback=Told)
            await gated.begun.wait()
            waiting = [node.hub.try_send(Ask(number), callback=Told) for number in (1, 2)]
            addressed = to_message(Ask(3)).with_receiver_actor(node.identity, gated.identity)
            lost = node.hub.try_send(addressed, callback=Told)
            node.add(good)
            asyncio.get_running_loop().call_soon(gated.gate.set)
            await node.remove(gated)
            assert (await handled).number == 1  # what was under way may end
            assert [(await answer).number for answer in waiting] == [2, 3]
            assert good.seen == [1, 2]
            with pytest.raises(DeliveryError, match="failed: Ask/1: its actor was removed"):
                await lost
            assert node.stats().is_balanced

    asyncio.run(run())


def test_a_handler_that_outlives_its_removed_actor_is_cancelled() -> None:
    async def run() -> None:
        gated = Gated()
        async with Node(gated) as node:
            answer = node.hub.try_send(Ask(0), callback=Told)
            await gated.begun.wait()
            await node.remove(gated, drain_timeout=0.01)
            with pytest.raises(Exception, match="was stopped before it ended"):
                await answer

    asyncio.run(run())


def test_wrong_actors_are_refused() -> None:
    async def run() -> None:
        actor = Good()
        node = Node(actor)
        with pytest.raises(ArgumentError, match="not on this node already"):
            node.add(actor)
        with pytest.raises(ArgumentError, match="derived from Actor"):
            node.add("actor")  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="an actor of this node"):
            await node.remove(Good())
        await node.remove(actor)

    asyncio.run(run())


def test_many_nodes_live_in_one_process() -> None:
    async def run() -> None:
        nodes = [Node(Good()) for _ in range(50)]
        for node in nodes:
            await node.start()
        answers = await asyncio.gather(*(node.hub.send(Ask(1), callback=Told) for node in nodes))
        assert {answer.number for answer in answers} == {2}
        assert len({node.identity for node in nodes}) == 50
        assert {(await node.stop()).is_clean for node in nodes} == {True}

    asyncio.run(run())


def test_every_outcome_is_told_to_the_hook() -> None:
    told: list[MessageOutcome] = []

    async def run() -> None:
        actor = Good()
        async with Node(actor, on_outcome=told.append) as node:
            await node.hub.send(Ask(1), callback=Told)
            with pytest.raises(DeliveryError):
                await node.hub.send(Told(1), callback=Ask)
            hub, receiver = node.hub.identity, actor.identity
        shown = [(one.outcome, str(one.message.identifier), one.receiver) for one in told]
        assert shown == [
            (Outcome.DELIVERED, "Ask/1", receiver),
            (Outcome.DELIVERED, "Told/1", hub),
            (Outcome.UNROUTABLE, "Told/1", b""),
            (Outcome.DELIVERED, "KINO.EXCEPTION/1", hub),
        ]
        assert told[2].reason == "nobody handles it; its flow waits for Ask/1"

    asyncio.run(run())


def test_several_hubs_of_a_node_do_not_get_in_each_other_s_way() -> None:
    async def run() -> None:
        async with Node(Good()) as node:
            hubs = [node.hub, node.new_hub(), node.new_hub()]
            asked = [(hub, number) for number in range(10) for hub in hubs]
            answers = await asyncio.gather(*(hub.send(Ask(number), callback=Told) for hub, number in asked))
            assert [answer.number for answer in answers] == [number + 1 for _, number in asked]

    asyncio.run(run())


def test_a_caller_who_gives_up_leaves_nothing_behind() -> None:
    async def run() -> None:
        gated = Gated()
        async with Node(gated, settings=NodeSettings(drain_timeout=0.01)) as node:
            caller = asyncio.create_task(node.hub.send(Ask(1), callback=Told))
            await gated.begun.wait()
            assert node.stats().promised == 1
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            assert node.stats().promised == 0
            promise = node.hub.try_send(Ask(2), callback=Told)
            promise.cancel()
            assert promise.done()
            assert node.stats().promised == 0
            waiting = asyncio.ensure_future(node.hub.try_send(Ask(3), callback=Told))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert node.stats().promised == 0
            gated.gate.set()

    asyncio.run(run())


def test_the_lifetime_is_the_default_timeout() -> None:
    async def run() -> None:
        node = Node(Gated(), settings=NodeSettings(request_timeout=0.02, drain_timeout=0.01))
        async with node:
            with pytest.raises(AnswerTimeoutError, match=r"within 0\.02 s"):
                await node.hub.send(Ask(1), callback=Told)
            message = to_message(Ask(1)).clone(ttl_ticks=300_000)
            with pytest.raises(AnswerTimeoutError, match=r"within 0\.03 s"):
                await node.hub.send(message, callback=Told)
            with pytest.raises(ArgumentError, match="not below zero"):
                await node.hub.send(Ask(1), callback=Told, timeout=-1)

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", ["mailbox_capacity", "concurrency", "blocking_threads", "request_timeout", "drain_timeout"]
)
def test_a_setting_that_makes_no_sense_is_named(name: str) -> None:
    wrong: dict[str, Any] = {name: -1}
    with pytest.raises(ArgumentError, match=name):
        NodeSettings(**wrong)


@on_loop
async def test_a_stop_that_its_caller_gives_up_goes_through() -> None:
    node = Node(Gated(), settings=NodeSettings(drain_timeout=60, cancel_timeout=0.1))
    await node.start()
    promise = node.hub.try_send(Ask(1), callback=Told)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(node.stop(), 0.02)
    report = await soon(node.stop())
    assert (report.cancelled_handlers, node.is_running) == (1, False)
    with pytest.raises(ActorError, match="was stopped before it ended"):
        await soon(promise)
    await node.start()
    await node.stop()


@on_loop
async def test_a_handler_that_stops_its_node_is_told_how() -> None:
    class Quitter(Actor):
        @handler
        async def quit(self, ask: Ask) -> Told:
            if ask.number:
                await (node.stop() if ask.number == 1 else node.remove(self))
            self.stopping = asyncio.create_task(node.stop())
            return Told(0)

    quitter = Quitter()
    node = Node(quitter)
    await node.start()
    with pytest.raises(ActorError, match=r"asyncio\.create_task\(node\.stop\(\)\)"):
        await node.hub.send(Ask(1), callback=Told)
    with pytest.raises(ActorError, match=r"asyncio\.create_task\(node\.remove\(actor\)\)"):
        await node.hub.send(Ask(2), callback=Told)
    assert await node.hub.send(Ask(0), callback=Told) == Told(0)
    assert (await soon(quitter.stopping)).is_clean
    assert not node.is_running


@on_loop
async def test_starting_a_node_that_stops_waits_and_starts_it_again() -> None:
    node = Node(Good())
    await node.start()
    stopping = asyncio.create_task(node.stop())
    await asyncio.sleep(0)
    await node.start()
    assert stopping.done()
    assert (await node.hub.send(Ask(1), callback=Told)).number == 2
    await node.stop()


@on_loop
async def test_what_has_its_receipt_is_handled_however_late() -> None:
    gated = Gated()
    async with started(gated, settings=NodeSettings(request_timeout=0.02)) as node:
        for number in range(3):
            await node.hub.send(Ask(number))
        await asyncio.sleep(0.05)
        gated.gate.set()
        await until(lambda: node.stats().handled == 3)
        assert node.stats().outcomes[Outcome.EXPIRED] == 0


@on_loop
async def test_a_request_that_would_answer_itself_is_refused() -> None:
    async with started(Good()) as node:
        with pytest.raises(ArgumentError, match="another kind of message than the one that is sent"):
            await node.hub.send(Ask(1), callback=Ask)
        with pytest.raises(ArgumentError, match="an instance of a payload class"):
            await node.hub.send(Ask, callback=Told)  # type: ignore[call-overload]
        with pytest.raises(ArgumentError, match="a payload class, a message identifier, or several"):
            await node.hub.send(Ask(1), callback=Told(1))  # type: ignore[call-overload]
        with pytest.raises(ArgumentError, match="at least 1"):
            node.hub.stream(Ask(1), callback=Told, limit=0)
        assert node.stats().promised == 0


@on_loop
async def test_a_hub_used_from_a_thread_or_another_loop_says_so() -> None:
    async with started(Good()) as node:
        hub = node.hub
        with pytest.raises(ArgumentError, match="the node's own event loop"):
            await asyncio.to_thread(hub.try_send_one_way, Ask(1))
        with pytest.raises(ArgumentError, match="the node's own event loop"):
            await asyncio.to_thread(asyncio.run, hub.send(Ask(1), callback=Told))


@on_loop
async def test_a_closed_stream_sends_nothing() -> None:
    async with started(Good()) as node:
        stream = node.hub.stream(Ask(1), callback=Told)
        stream.close()
        assert [told async for told in stream] == []
        assert node.stats().submitted == 0
