"""Middleware around handlers: its order, what it sees, and what it may do."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from hopline import Actor, ActorError, ArgumentError, Node, Payload, from_message, handler, to_message
from hopline.actors import ActorHost
from hopline.node import CallNext, Context, MiddlewareContext
from hopline.node.middleware import MiddlewareHost

from .running import on_loop, started


class Ask(Payload):
    number: int


class Told(Payload):
    number: int


class Stored(Payload):
    number: int


class Store(Actor):
    @handler
    def look_up(self, stored: Stored) -> Told:
        return Told(stored.number + 100)


class Plain(Actor):
    @handler
    def answer(self, ask: Ask) -> Told:
        if ask.number < 0:
            raise ValueError("below zero")
        return Told(ask.number)


class Later(Actor):
    @handler
    async def answer(self, ask: Ask, context: Context) -> Told:
        return Told(ask.number)


class Blocking(Actor):
    @handler(blocking=True)
    def answer(self, ask: Ask) -> Told:
        return Told(ask.number)


class Yielding(Actor):
    @handler
    def answer(self, ask: Ask) -> Iterator[Told]:
        yield Told(ask.number)


class YieldingLater(Actor):
    @handler
    async def answer(self, ask: Ask) -> AsyncIterator[Told]:
        yield Told(ask.number)


class Listing(Actor):
    @handler
    def answer(self, ask: Ask) -> list[Told]:
        return [Told(ask.number)]


class Recorder:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def __call__(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        self.log.append(f"{self.name} before {type(context.actor).__name__}.{context.handler}")
        try:
            return await call_next()
        finally:
            self.log.append(f"{self.name} after")


@pytest.mark.parametrize("actor", [Plain, Later, Blocking, Yielding, YieldingLater, Listing])
def test_middleware_runs_around_every_kind_of_handler_the_first_outermost(actor: type[Actor]) -> None:
    log: list[str] = []

    @on_loop
    async def run() -> None:
        async with started(actor(), middleware=[Recorder("outer", log), Recorder("inner", log)]) as node:
            assert (await node.hub.send(Ask(5), callback=Told)).number == 5
            assert node.stats().handled == 1

    run()
    called = f"{actor.__name__}.answer"
    assert log == [f"outer before {called}", f"inner before {called}", "inner after", "outer after"]


@on_loop
async def test_middleware_sees_the_message() -> None:
    seen: list[Any] = []

    async def look(context: MiddlewareContext, call_next: CallNext) -> Any:
        seen.append((from_message(context.message, Ask), context.message.correlation_id, context.message.ttl_ticks))
        return await call_next()

    async with started(Plain(), middleware=[look]) as node:
        await node.hub.send(to_message(Ask(5)).clone(correlation_id=b"a flow"), callback=Told, timeout=30)
    (payload, flow, ticks), *rest = seen
    assert (payload, flow, rest) == (Ask(5), b"a flow", [])
    assert ticks >= 0


@on_loop
async def test_middleware_refuses_by_raising(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="hopline")
    plain_calls: list[int] = []

    class Counting(Actor):
        @handler
        def answer(self, ask: Ask) -> Told:
            plain_calls.append(ask.number)
            return Told(ask.number)

    async def refuse_odd(context: MiddlewareContext, call_next: CallNext) -> Any:
        if from_message(context.message, Ask).number % 2:
            raise PermissionError("odd")
        return await call_next()

    async with started(Counting(), middleware=[refuse_odd]) as node:
        with pytest.raises(ActorError, match="PermissionError: odd"):
            await node.hub.send(Ask(1), callback=Told)
        assert (await node.hub.send(Ask(2), callback=Told)).number == 2
        assert node.stats().handler_errors == 1
    assert plain_calls == [2]


@on_loop
async def test_middleware_sees_and_may_replace_results_and_errors() -> None:
    async def mend(context: MiddlewareContext, call_next: CallNext) -> Any:
        try:
            told = await call_next()
        except ValueError:
            return Told(0)
        return Told(told.number * 10)

    async with started(Plain(), middleware=[mend]) as node:
        assert (await node.hub.send(Ask(5), callback=Told)).number == 50
        assert (await node.hub.send(Ask(-5), callback=Told)).number == 0
        assert node.stats().handler_errors == 0


@on_loop
async def test_middleware_may_answer_without_the_handler_and_ask_others() -> None:
    async def cache(context: MiddlewareContext, call_next: CallNext) -> Any:
        if not isinstance(context.actor, Plain):
            return await call_next()
        return await context.ask(Stored(from_message(context.message, Ask).number), Told)

    async with started(Plain(), Store(), middleware=[cache]) as node:
        assert (await node.hub.send(Ask(5), callback=Told)).number == 105


@pytest.mark.parametrize("is_blocking", [False, True])
def test_handlers_see_the_context_variables_of_middleware_and_others_do_not(is_blocking: bool) -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen: list[str] = []

    class Seeing(Actor):
        @handler(blocking=is_blocking)
        def answer(self, ask: Ask) -> Told:
            seen.append(user.get())
            return Told(ask.number)

    async def authenticate(context: MiddlewareContext, call_next: CallNext) -> Any:
        if from_message(context.message, Ask).number == 1:
            user.set("somebody")
        return await call_next()

    @on_loop
    async def run() -> None:
        async with started(Seeing(), middleware=[authenticate]) as node:
            for number in (1, 2):
                await node.hub.send(Ask(number), callback=Told)

    run()
    assert seen == ["somebody", "nobody"]


@on_loop
async def test_without_middleware_actors_are_hosted_as_ever_and_with_it_the_node_itself_is() -> None:
    async def nothing(context: MiddlewareContext, call_next: CallNext) -> Any:
        return await call_next()

    async with Node(Plain()) as plain, Node(Plain(), middleware=[nothing]) as surrounded:
        assert [type(host) for host in plain.hosts] == [ActorHost]
        assert [type(host) for host in surrounded.hosts] == [MiddlewareHost]


def test_what_is_no_middleware_is_refused() -> None:
    def plain(context: MiddlewareContext, call_next: CallNext) -> None: ...

    for wrong in (plain, 5, Recorder):
        with pytest.raises(ArgumentError, match=r"middleware: expected objects with async def __call__\(self, conte"):
            Node(middleware=[wrong])  # type: ignore[list-item]
