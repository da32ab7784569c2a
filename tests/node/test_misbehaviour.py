"""A misbehaving actor harms only its own flows, and each of them gets a clear error."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    Context,
    DeliveryError,
    Message,
    MessageIdentifier,
    Node,
    NodeSettings,
    NoRoomError,
    Outcome,
    Payload,
    handler,
    to_message,
)


class Ask(Payload):
    number: int


class Told(Payload):
    number: int


class Poke(Payload):
    how: str


class Wrong(Payload):
    how: str


class Good(Actor):
    @handler
    def answer(self, ask: Ask) -> Told:
        return Told(ask.number + 1)


class Bad(Actor):
    @handler
    async def misbehave(self, poke: Poke) -> object:
        if poke.how == "raise":
            raise ValueError("no such thing")
        if poke.how == "hang":
            await asyncio.Event().wait()
        if poke.how == "cancel":
            raise asyncio.CancelledError
        if poke.how == "nonsense in a list":
            return [Told(1), "nonsense"]
        if poke.how == "raises late":
            return self._raises_late()
        if poke.how == "never ends":
            return self._never_ends()
        return 42

    @handler
    def plain(self, wrong: Wrong) -> object:
        if wrong.how == "raise":
            raise ValueError("no such thing")
        return {"text": wrong.how}

    async def _raises_late(self) -> AsyncIterator[Ask]:
        yield Ask(1)
        raise ValueError("too late")

    def _never_ends(self) -> Iterator[Ask]:
        while True:
            yield Ask(0)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="hopline")


@pytest.mark.parametrize(
    ("poke", "says"),
    [
        (Poke("raise"), "ValueError: no such thing"),
        (Wrong("raise"), "ValueError: no such thing"),
        (Poke("cancel"), "HandlerCancelledError: the handler of Poke/1 was stopped before it ended"),
        (Poke("nonsense"), "ArgumentError: result: expected payloads, messages or nothing, found 42"),
        (
            Wrong("nonsense"),
            "ArgumentError: result: expected payloads, messages or nothing, found {'text': 'nonsense'}",
        ),
        (Poke("nonsense in a list"), "ArgumentError: result: expected payloads, messages or nothing, found 'nonsense'"),
        (Poke("raises late"), "ValueError: too late"),
    ],
    ids=str,
)
def test_the_caller_is_told_what_went_wrong_and_others_are_served(poke: Payload, says: str) -> None:
    async def run() -> None:
        async with Node(Bad(), Good()) as node:
            with pytest.raises(ActorError) as caught:
                await node.hub.send(poke, callback=Message_of_nobody)
            assert str(caught.value).endswith(says)
            assert caught.value.stack == ""
            assert (await node.hub.send(Ask(1), callback=Told)).number == 2
            assert node.stats().handler_errors == 1
            assert node.stats().is_balanced

    asyncio.run(run())


Message_of_nobody = MessageIdentifier(b"NOBODY.SENDS.THIS")


def test_one_that_hangs_is_a_timeout_at_the_caller_and_others_are_served() -> None:
    async def run() -> None:
        async with Node(Bad(), Good(), settings=NodeSettings(drain_timeout=0.01)) as node:
            with pytest.raises(AnswerTimeoutError, match=r"no answer to Poke/1 within 0\.05 s"):
                await node.hub.send(Poke("hang"), callback=Told, timeout=0.05)
            with pytest.raises(TimeoutError):
                await node.hub.send(Poke("hang"), callback=Told, timeout=0.05)
            assert (await node.hub.send(Ask(1), callback=Told)).number == 2
            report = await node.stop()
            assert report.cancelled_handlers == 2
            assert node.stats().promised == 0

    asyncio.run(run())


def test_one_that_floods_is_slowed_down_and_others_are_served() -> None:
    class Slow(Actor):
        mailbox_capacity = 3

        @handler
        async def take(self, ask: Ask) -> None:
            await asyncio.sleep(0.001)

        concurrency = 1

    async def run() -> None:
        async with Node(Bad(), Slow(), settings=NodeSettings(drain_timeout=0.05)) as node:
            with pytest.raises(AnswerTimeoutError):
                await node.hub.send(Poke("never ends"), callback=Told, timeout=0.1)
            stats = node.stats()
            assert stats.waiting <= 4
            assert stats.outcomes[Outcome.OVERFLOW] == 0
            assert 5 < stats.outcomes[Outcome.DELIVERED] < 1000
            await node.hub.send(Poke("raise"))  # its receipt: the loop is not blocked

    asyncio.run(run())


def test_a_body_that_is_not_what_its_kind_says_fails_its_own_flow() -> None:
    async def run() -> None:
        async with Node(Good()) as node:
            message = to_message(Ask(1)).clone(bodies=(b"\xc1 no message pack",))
            with pytest.raises(ActorError, match="not a valid Ask"):
                await node.hub.send(message, callback=Told)

    asyncio.run(run())


def test_the_stack_is_told_only_when_configured() -> None:
    async def run() -> None:
        async with Node(Bad(), settings=NodeSettings(include_tracebacks=True)) as node:
            with pytest.raises(ActorError) as caught:
                await node.hub.send(Poke("raise"), callback=Told)
            assert caught.value.type_name == "ValueError"
            assert "in misbehave" in caught.value.stack

    asyncio.run(run())


def test_a_plain_handler_that_holds_the_loop_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Sleeper(Actor):
        @handler
        def sleep(self, ask: Ask) -> Told:
            time.sleep(0.02)  # what nobody should do
            return Told(ask.number)

    async def run() -> None:
        async with Node(Sleeper(), settings=NodeSettings(slow_handler=0.01)) as node:
            await node.hub.send(Ask(1), callback=Told)

    with caplog.at_level(logging.WARNING, logger="hopline"):
        asyncio.run(run())
    assert re.search(r"held the event loop for \d\.\d s to handle Ask/1; blocking=True would run it in", caplog.text)


def test_a_full_mailbox_says_no_to_those_who_will_not_wait_and_lets_the_others_wait() -> None:
    class Stuck(Actor):
        mailbox_capacity = 2
        concurrency = 1

        def __init__(self) -> None:
            self.gate = asyncio.Event()

        @handler
        async def answer(self, ask: Ask) -> Told:
            await self.gate.wait()
            return Told(ask.number)

    async def run() -> None:
        actor = Stuck()
        async with Node(actor, settings=NodeSettings(backpressure_timeout=0.05)) as node:
            hub = node.hub
            promises = [hub.try_send(Ask(number), callback=Told) for number in range(2)]
            while node.stats().waiting > 1:  # the first is being handled
                await asyncio.sleep(0)
            promises.append(hub.try_send(Ask(2), callback=Told))
            with pytest.raises(NoRoomError, match="no room for Ask/1"):
                hub.try_send(Ask(3), callback=Told)
            with pytest.raises(NoRoomError):
                hub.try_send_one_way(Ask(3))
            assert node.stats().promised == 3  # nothing is left of those who were refused
            with pytest.raises(DeliveryError, match=r"overflow: Ask/1: no room for it within 0\.05 s"):
                await hub.send(Ask(4), callback=Told)
            patient = asyncio.create_task(hub.send(Ask(5), callback=Told))
            await asyncio.sleep(0)
            actor.gate.set()
            assert (await patient).number == 5
            assert [(await promise).number for promise in promises] == [0, 1, 2]
            assert node.stats().is_balanced
            assert node.stats().outcomes[Outcome.OVERFLOW] == 1

    asyncio.run(run())


def test_two_actors_that_fill_each_other_s_mailboxes_end_as_overflow_not_as_a_deadlock() -> None:
    class Ping(Actor):
        mailbox_capacity = 1
        concurrency = 1

        @handler
        def double(self, ask: Ask) -> list[Told]:
            return [Told(0), Told(0)]

    class Pong(Actor):
        mailbox_capacity = 1
        concurrency = 1

        @handler
        def double(self, told: Told) -> list[Ask]:
            return [Ask(0), Ask(0)]

    async def run() -> None:
        async with Node(Ping(), Pong(), settings=NodeSettings(backpressure_timeout=0.02, drain_timeout=0.1)) as node:
            await node.hub.send_one_way(Ask(0))
            async with asyncio.timeout(5):
                while not node.stats().outcomes[Outcome.OVERFLOW]:
                    await asyncio.sleep(0.01)
            assert node.stats().is_balanced

    asyncio.run(run())


def test_an_outcome_hook_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def hook(_: object) -> None:
        raise RuntimeError("broken hook")

    async def run() -> None:
        async with Node(Good(), on_outcome=hook) as node:
            assert (await node.hub.send(Ask(1), callback=Told)).number == 2

    with caplog.at_level(logging.ERROR, logger="hopline"):
        asyncio.run(run())
    assert "on_outcome failed" in caplog.text


def test_a_blocking_handler_leaves_the_loop_free_and_may_send_and_ask() -> None:
    class Blocking(Actor):
        @handler(blocking=True)
        def work(self, poke: Poke, context: Context) -> Iterator[Told]:
            time.sleep(0.05)
            asked = context.wait(context.hub.send(Ask(41), callback=Told))
            context.wait(context.send(Wrong("a side message that nobody handles")))
            yield Told(asked.number)

    async def run() -> None:
        async with Node(Blocking(), Good()) as node:
            promise = node.hub.try_send(Poke("go"), callback=(Told,))
            begun = time.monotonic()
            assert (await node.hub.send(Ask(1), callback=Told)).number == 2
            assert time.monotonic() - begun < 0.04
            with pytest.raises(DeliveryError, match="unroutable"):  # the side message is told first
                await promise
            assert (await node.hub.send(to_message(Ask(1)), callback=Told)).number == 2

    asyncio.run(run())


def test_context_methods_for_the_other_kind_of_handler_say_so() -> None:
    class Confused(Actor):
        @handler(blocking=True)
        def blocking(self, poke: Poke, context: Context) -> None:
            context.try_send(Told(1))

        @handler
        def plain(self, wrong: Wrong, context: Context) -> None:
            context.wait(context.send(Told(1)))

    async def run() -> None:
        async with Node(Confused()) as node:
            with pytest.raises(ActorError, match=r"context\.wait\(context\.send"):
                await node.hub.send(Poke("x"), callback=Told)
            with pytest.raises(ActorError, match="await in a handler that is not blocking"):
                await node.hub.send(Wrong("x"), callback=Told)

    asyncio.run(run())


def test_a_message_for_an_actor_that_cannot_handle_it_is_an_error_of_its_own() -> None:
    async def run() -> None:
        good = Good()
        async with Node(good) as node:
            message = Message(b"UNKNOWN").with_receiver_actor(node.identity, good.identity)
            with pytest.raises(DeliveryError, match="its receiver is not known"):
                await node.hub.send(message, callback=Told)

    asyncio.run(run())
