"""Ask everyone who may know, take what comes in time, and do not mind who fails."""

from __future__ import annotations

import asyncio
import logging

from hopline import Actor, Node, Payload, Request, handler


class Quote(Payload):
    """A shop's answer."""

    shop: str
    cents: int


class QuoteWanted(Request[Quote]):
    """Something that every shop may answer."""

    what: str


class Shop(Actor):
    """Sells some things, fast or slowly."""

    def __init__(self, name: str, prices: dict[str, int], seconds: float = 0.0) -> None:
        self._name = name
        self._prices = prices
        self._seconds = seconds

    @handler
    async def quote(self, wanted: QuoteWanted) -> Quote | None:
        """Name a price; a shop that does not sell it says nothing."""
        await asyncio.sleep(self._seconds)
        if self._seconds < 0:
            raise RuntimeError(f"{self._name} is closed")
        cents = self._prices.get(wanted.what)
        return None if cents is None else Quote(self._name, cents)


async def main() -> None:
    """Gather the quotes of five shops for a fifth of a second."""
    shops = [
        Shop("Corner", {"lamp": 3490}),
        Shop("Market", {"lamp": 2990}, seconds=0.05),
        Shop("Books", {"novel": 1200}),
        Shop("Closed", {}, seconds=-1),
        Shop("Sleepy", {"lamp": 990}, seconds=30),
    ]
    node = Node(*shops)
    await node.start()
    quotes = node.hub.stream(QuoteWanted("lamp"), timeout=0.2)
    best: Quote | None = None
    async for quote in quotes:
        print(f"{quote.shop} wants {quote.cents} cents")
        best = quote if best is None or quote.cents < best.cents else best
    print(f"best in time: {best.shop if best else 'nobody'}; failed: {[str(error) for error in quotes.errors]}")
    report = await node.stop(drain_timeout=0.1)
    print(f"stopped with {report.cancelled_handlers} shop still thinking")


if __name__ == "__main__":
    logging.getLogger("hopline").setLevel(logging.CRITICAL)  # what fails here is meant to, and the caller is told
    asyncio.run(main())
