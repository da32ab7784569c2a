"""An order that is priced, reserved and shipped by three actors that know nothing of one another.

The customer waits for `Shipped`, a message that the first two have never heard of: the callback point travels with the
flow and brings it home from whoever sends it. `Rejected`, which any stage may send instead, ends the waiting as well.
"""

from __future__ import annotations

import asyncio

from hopline import Actor, Node, Payload, handler


class Order(Payload):
    """What the customer sends."""

    sku: str
    pieces: int


class Priced(Payload):
    """An order with its price."""

    sku: str
    pieces: int
    cents: int


class Reserved(Payload):
    """A priced order whose goods are set aside."""

    sku: str
    pieces: int
    cents: int


class Shipped(Payload):
    """What the customer waits for."""

    parcel: str
    cents: int


class Rejected(Payload):
    """What the customer may get instead."""

    reason: str


class Pricing(Actor):
    """Knows the prices."""

    def __init__(self, prices: dict[str, int]) -> None:
        self._prices = prices

    @handler
    def price(self, order: Order) -> Priced | Rejected:
        """Price an order."""
        if order.sku not in self._prices:
            return Rejected(f"no such thing as a {order.sku}")
        return Priced(order.sku, order.pieces, order.pieces * self._prices[order.sku])


class Stock(Actor):
    """Knows what is there."""

    concurrency = 1  # one order at a time, although the handler waits

    def __init__(self, pieces: dict[str, int]) -> None:
        self._pieces = pieces

    @handler
    async def reserve(self, order: Priced) -> Reserved | Rejected:
        """Set the goods aside."""
        await asyncio.sleep(0.01)  # the warehouse answers
        if self._pieces.get(order.sku, 0) < order.pieces:
            return Rejected(f"only {self._pieces.get(order.sku, 0)} of {order.sku} left")
        self._pieces[order.sku] -= order.pieces
        return Reserved(order.sku, order.pieces, order.cents)


class Shipping(Actor):
    """Sends parcels."""

    @handler
    def ship(self, order: Reserved) -> Shipped:
        """Send one."""
        return Shipped(f"{order.pieces} x {order.sku}", order.cents)


async def main() -> None:
    """Order five times at once."""
    actors = (Pricing({"lamp": 2990, "chair": 8900}), Stock({"lamp": 5, "chair": 1}), Shipping())
    async with Node(*actors) as node:
        orders = [Order("lamp", 2), Order("chair", 1), Order("sofa", 1), Order("chair", 1), Order("lamp", 3)]
        answers = await asyncio.gather(
            *(node.hub.send(order, callback=(Shipped, Rejected), timeout=5) for order in orders)
        )
        for order, answer in zip(orders, answers, strict=True):
            told = f"shipped for {answer.cents} cents" if isinstance(answer, Shipped) else answer.reason
            print(f"{order.pieces} x {order.sku}: {told}")


if __name__ == "__main__":
    asyncio.run(main())
