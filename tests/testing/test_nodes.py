"""What a node of `hopline.testing` takes besides its actors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hopline import Actor, ActorError, DeadLetter, DeliveryError, Node, Payload, Request, Retry, handler
from hopline.node import CallNext, MiddlewareContext
from hopline.testing import expect, network, node, run
from tests.testing.shop import Price, Priced, Pricing, Quote, Quoted, Quoting


class Ready(Payload):
    name: str


class AreYouReady(Request[Ready]): ...


class Starting(Actor):
    """An actor that has something to open."""

    def __init__(self) -> None:
        self.name = ""

    async def on_start(self, node: Node) -> None:
        self.name = node.identity.decode()

    @handler
    def answer(self, asked: AreYouReady) -> Ready:
        return Ready(self.name)


def test_actors_are_started_and_middleware_and_lifespan_are_used() -> None:
    events: list[str] = []

    async def noting(context: MiddlewareContext, call_next: CallNext) -> object:
        events.append(context.handler)
        return await call_next()

    @asynccontextmanager
    async def lifespan(node: Node) -> AsyncIterator[None]:
        events.append("open")
        yield
        events.append("closed")

    async def ask() -> None:
        async with node(Starting(), identity="here", middleware=[noting], lifespan=lifespan) as starting:
            assert await starting.hub.ask(AreYouReady()) == Ready("here")

    run(ask())
    assert events == ["open", "answer", "closed"]


def test_dead_letters_are_handed_over() -> None:
    letters: list[DeadLetter] = []

    async def ask() -> None:
        async with node(Pricing(minutes=0), on_dead_letter=letters.append) as pricing:
            with pytest.raises(ActorError):
                await pricing.hub.ask(Price("sofa"))

    run(ask())
    assert [letter.message.identity for letter in letters] == [b"Price"]


def test_a_request_is_asked_again_after_long_pauses_that_take_no_time() -> None:
    async def ask() -> None:
        async with node() as lonely:
            with pytest.raises(DeliveryError):
                await lonely.hub.ask(Price("lamp"), timeout=10_000, retry=Retry(attempts=4, backoff=1000))
            expect(lonely).sent(Price("lamp"), count=4)

    run(ask())


def test_a_retry_outlasts_two_lost_answers() -> None:
    async def ask() -> Quoted:
        async with network() as machines:
            await machines.add("quoting", Quoting())
            await machines.add("pricing", Pricing(minutes=0))
            customer = await machines.add("customer")
            with machines.faults(drop=1.0, only=Priced, times=2):
                retry = Retry(attempts=3, attempt_timeout=20)
                return await customer.hub.ask(Quote("lamp"), timeout=100, retry=retry)

    assert run(ask()) == Quoted("lamp: 29.90")
