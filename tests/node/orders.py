"""A small trade that the tests share: what is ordered, what it costs, and the actors that say so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hopline import Actor, Context, Message, Payload, from_message, handler


class Order(Payload):
    sku: int = 0


class Price(Payload):
    cents: int = 0


class Invoice(Payload):
    cents: int = 0


class News(Payload):
    text: str = ""


class Pricer(Actor):
    """Answers at once."""

    def __init__(self, cents: int = 100) -> None:
        self.cents = cents
        self.seen: list[Message] = []

    @handler
    def price(self, order: Order, context: Context) -> Price:
        self.seen.append(context.message)
        return Price(self.cents)


class Failing(Actor):
    """Fails, always."""

    def __init__(self) -> None:
        self.calls = 0

    @handler
    def price(self, order: Order) -> Price:
        self.calls += 1
        raise LookupError(f"no article {order.sku}")


class Listener(Actor):
    """Keeps what it hears, and says nothing."""

    def __init__(self) -> None:
        self.heard: list[Message] = []

    @handler
    def hear(self, news: News, context: Context) -> None:
        self.heard.append(context.message)

    @property
    def texts(self) -> list[str]:
        return [from_message(message, News).text for message in self.heard]


class Saying(Actor):
    """Returns for an order whatever it was made with."""

    def __init__(self, *results: object) -> None:
        self.results: Sequence[object] = results
        self.seen: list[Message] = []

    @handler
    def say(self, order: Order, context: Context) -> list[object]:
        self.seen.append(context.message)
        return list(self.results)


class Gated(Actor):
    """Answers each order when the gate is opened; until then its handler is under way."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = 0
        self.ended = 0

    @handler
    async def price(self, order: Order) -> Price:
        self.started += 1
        await self.gate.wait()
        self.ended += 1
        return Price(order.sku)


class OneByOne(Gated):
    """Has room for one message besides the one that it handles."""

    concurrency = 1
    mailbox_capacity = 1
