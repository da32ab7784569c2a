"""What a handler asks others waits no longer than whoever asked the handler, unless it is told otherwise."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from hopline import (
    Actor,
    AnswerTimeoutError,
    Context,
    Message,
    Node,
    NodeSettings,
    Payload,
    handler,
    to_message,
)

from .running import Clock, on_loop, soon, started, until

ANSWER_TIME = 30.0


class Outer(Payload):
    pass


class Done(Payload):
    pass


class Inner(Payload):
    pass


class Answer(Payload):
    pass


Act = Callable[[Context], Awaitable[Any]]


class Asking(Actor):
    """Lets a second pass, and does what it is told."""

    def __init__(self, clock: Clock, act: Act) -> None:
        self.clock = clock
        self.act = act

    @handler
    async def outer(self, outer: Outer, context: Context) -> Done:
        self.clock.now += 1.0
        await self.act(context)
        return Done()


class Answering(Actor):
    """Notes how long each message may live, in seconds."""

    def __init__(self) -> None:
        self.lifetimes: list[float] = []

    @handler(Inner)
    def inner(self, message: Message) -> Answer | None:
        self.lifetimes.append(round(message.ttl.total_seconds(), 6))
        return Answer() if message.callback_point else None


@asynccontextmanager
async def asking(act: Act) -> AsyncIterator[tuple[Node, Answering]]:
    clock, answering = Clock(), Answering()
    settings = NodeSettings(request_timeout=ANSWER_TIME)
    async with started(Asking(clock, act), answering, clock=clock, settings=settings) as node:
        yield node, answering


async def gather(context: Context, content: Payload | Message, **options: Any) -> None:
    async for _ in context.hub.stream(content, callback=Answer, limit=1, **options):
        pass


async def promised(context: Context, **options: Any) -> None:
    await context.hub.try_send(Inner(), callback=Answer, **options)


LIVED = to_message(Inner(), ttl=timedelta(seconds=7))

# What the handler does, and how long the message may live that it sends when it has 3 of 4 seconds left.
ACTS: dict[str, tuple[Act, float]] = {
    "send": (lambda context: context.hub.send(Inner(), callback=Answer), 3.0),
    "ask": (lambda context: context.ask(Inner(), Answer), 3.0),
    "try_send": (promised, 3.0),
    "stream": (lambda context: gather(context, Inner()), 3.0),
    "a message": (lambda context: context.ask(to_message(Inner()), Answer), 3.0),
    "a stream of a message": (lambda context: gather(context, to_message(Inner())), 3.0),
    "its own timeout": (lambda context: context.ask(Inner(), Answer, timeout=11), 11.0),
    "its own timeout to send": (lambda context: context.hub.send(Inner(), callback=Answer, timeout=11), 11.0),
    "its own timeout for a stream": (lambda context: gather(context, Inner(), timeout=11), 11.0),
    "no limit": (lambda context: context.ask(Inner(), Answer, timeout=math.inf), 0.0),
    "its own lifetime": (lambda context: context.ask(LIVED, Answer), 7.0),
    "a receipt": (lambda context: context.hub.send(Inner()), 0.0),
    "a receipt for a message": (lambda context: context.hub.send(to_message(Inner())), 0.0),
    "one way": (lambda context: context.hub.send_one_way(Inner()), 0.0),
    "broadcast": (lambda context: context.hub.broadcast(Inner()), 0.0),
}


@pytest.mark.parametrize("act", ACTS)
@on_loop
async def test_a_request_lives_as_long_as_the_message_that_is_handled(act: str) -> None:
    do, lifetime = ACTS[act]
    async with asking(do) as (node, answering):
        await soon(node.hub.send(Outer(), callback=Done, timeout=4))
        await until(lambda: answering.lifetimes)
    assert answering.lifetimes == [lifetime]


@on_loop
async def test_without_a_deadline_the_node_says_how_long_to_wait() -> None:
    async with asking(lambda context: context.ask(Inner(), Answer)) as (node, answering):
        await soon(node.hub.send(Outer(), callback=Done, timeout=math.inf))
    assert answering.lifetimes == [ANSWER_TIME]


@on_loop
async def test_a_deadline_may_be_later_than_the_node_would_wait() -> None:
    async with asking(lambda context: context.ask(Inner(), Answer)) as (node, answering):
        await soon(node.hub.send(Outer(), callback=Done, timeout=100))
    assert answering.lifetimes == [99.0]


@on_loop
async def test_another_hub_of_the_node_inherits_nothing() -> None:
    nodes: list[Node] = []
    async with asking(lambda _: nodes[0].hub.send(Inner(), callback=Answer)) as (node, answering):
        nodes.append(node)
        await soon(node.hub.send(Outer(), callback=Done, timeout=4))
    assert answering.lifetimes == [ANSWER_TIME]


@pytest.mark.parametrize("act", ["send", "ask", "try_send", "stream", "a message", "a stream of a message"])
@on_loop
async def test_what_is_over_is_not_sent_any_more(act: str) -> None:
    errors: list[Exception] = []

    async def too_late(context: Context) -> None:
        try:
            await ACTS[act][0](context)
        except AnswerTimeoutError as error:
            errors.append(error)

    async with asking(too_late) as (node, answering):
        promise = node.hub.try_send(Outer(), callback=Done, timeout=1)
        await until(lambda: errors)
        promise.cancel()
    assert [str(error) for error in errors] == ["no time was left to wait for an answer to Inner/1"]
    assert answering.lifetimes == []


@on_loop
async def test_the_hub_of_a_handler_is_the_hub_of_the_node() -> None:
    seen: list[tuple[bytes, int, bool]] = []

    async def look(context: Context) -> None:
        promise = context.hub.try_send(Inner(), callback=Answer)
        seen.append((context.hub.identity, context.hub.waiting, promise.done()))
        promise.cancel()
        await asyncio.sleep(0)

    async with asking(look) as (node, _):
        await soon(node.hub.send(Outer(), callback=Done, timeout=4))
        assert seen == [(node.hub.identity, 2, False)]
        assert node.hub.waiting == 0
