"""Actors that the tests of `hopline.testing` test."""

from __future__ import annotations

import asyncio
import time

from hopline import Actor, Context, Payload, Request, handler


class Priced(Payload):
    sku: str
    cents: int


class Price(Request[Priced]):
    sku: str


class Quoted(Payload):
    text: str


class Quote(Request[Quoted]):
    sku: str


class Noted(Payload):
    text: str


class Waited(Payload):
    seconds: float


class Wait(Request[Waited]):
    seconds: float


class Compute(Request[Waited]):
    seconds: float


class Pricing(Actor):
    """Knows the price of a lamp, after a minute."""

    def __init__(self, minutes: float = 1) -> None:
        self._seconds = minutes * 60
        self.asked: list[str] = []

    @handler
    async def price(self, price: Price) -> Priced:
        self.asked.append(price.sku)
        await asyncio.sleep(self._seconds)
        return Priced(price.sku, {"lamp": 2990}[price.sku])


class Quoting(Actor):
    """Asks for a price, and notes what it does."""

    @handler
    async def quote(self, quote: Quote, context: Context) -> Quoted:
        await context.send(Noted(f"asked for {quote.sku}"))
        priced = await context.ask(Price(quote.sku))
        await context.send(Noted("answered"))
        return Quoted(f"{priced.sku}: {priced.cents / 100:.2f}")


class Waiting(Actor):
    """Waits on the loop, or in a thread."""

    @handler
    async def wait(self, wait: Wait) -> Waited:
        await asyncio.sleep(wait.seconds)
        return Waited(wait.seconds)

    @handler(blocking=True)
    def compute(self, compute: Compute) -> Waited:
        began = time.monotonic()
        time.sleep(compute.seconds)
        return Waited(time.monotonic() - began)
