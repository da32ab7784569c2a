"""The shop: an order is priced, its goods are reserved, the card is charged, the parcel is shipped.

Four actors on three nodes, none of which knows the address of another. The customer waits for `Shipped`: the callback
point travels with the flow, so that the answer of the last actor reaches the caller directly.
"""

from __future__ import annotations

import asyncio
from random import Random

import msgspec

from hopline.actors import Actor, handler
from hopline.message import payload

PRICES = {"lamp": 2_990, "chair": 8_900, "desk": 24_900, "shelf": 5_900}
CATALOGUE_PERIOD = 1.0  # seconds between two catalogues

DECLINED_CARDS = 0.03  # share of orders whose card is declined
SLOW_CARDS = 0.015  # share of orders for which the bank takes SLOW_BANK, longer than a customer waits
SLOW_BANK = 2.4  # seconds
SOLD_OUT = 0.02  # share of orders whose goods are not in stock
LEAST_TIME = 0.001  # seconds that the fastest step takes


@payload("ORDER.PLACED")
class Placed(msgspec.Struct, frozen=True):
    """An order, as the customer sends it."""

    order: int
    sku: str
    pieces: int
    card: str


@payload("ORDER.PRICED")
class Priced(msgspec.Struct, frozen=True):
    """An order with its price."""

    order: int
    sku: str
    pieces: int
    card: str
    cents: int


@payload("ORDER.RESERVED")
class Reserved(msgspec.Struct, frozen=True):
    """A priced order whose goods are reserved."""

    order: int
    sku: str
    pieces: int
    card: str
    cents: int


@payload("ORDER.CHARGED")
class Charged(msgspec.Struct, frozen=True):
    """An order that is paid."""

    order: int
    sku: str
    pieces: int
    cents: int


@payload("ORDER.SHIPPED")
class Shipped(msgspec.Struct, frozen=True):
    """The answer that the customer waits for."""

    order: int
    parcel: str
    cents: int


@payload("CATALOGUE.NEW")
class Catalogue(msgspec.Struct, frozen=True):
    """New prices, broadcast to all nodes without an answer."""

    number: int
    prices: dict[str, int]


IDENTITIES = ("ORDER.PLACED", "ORDER.PRICED", "ORDER.RESERVED", "ORDER.CHARGED", "ORDER.SHIPPED", "CATALOGUE.NEW")


class SoldOutError(Exception):
    """The goods are not in stock."""


class CardDeclinedError(Exception):
    """The bank declined the card."""


class Pricing(Actor):
    """Prices orders."""

    @handler
    def price(self, order: Placed) -> Priced:
        """Price an order."""
        return Priced(order.order, order.sku, order.pieces, order.card, order.pieces * PRICES[order.sku])


class Stock(Actor):
    """Reserves goods, four orders at a time, so that its mailbox fills up."""

    concurrency = 4

    def __init__(self) -> None:
        self._random = Random(1)  # noqa: S311 - a shop, not keys

    @handler
    async def reserve(self, order: Priced) -> Reserved:
        """Reserve the goods of one order."""
        await asyncio.sleep(LEAST_TIME + self._random.expovariate(1 / 0.008))
        if self._random.random() < SOLD_OUT:
            raise SoldOutError(f"no {order.sku} left for order {order.order}")
        return Reserved(order.order, order.sku, order.pieces, order.card, order.cents)

    @handler
    def note(self, catalogue: Catalogue) -> None:
        """Receive new prices."""


class Bank(Actor):
    """Charges cards; slow for some, and declines others."""

    def __init__(self) -> None:
        self._random = Random(2)  # noqa: S311 - a shop, not keys

    @handler
    async def charge(self, order: Reserved) -> Charged:
        """Charge the card of one order."""
        chance = self._random.random()
        if chance < DECLINED_CARDS:
            raise CardDeclinedError(f"the bank declined card {order.card} for order {order.order}")
        is_slow = chance < DECLINED_CARDS + SLOW_CARDS
        await asyncio.sleep(SLOW_BANK if is_slow else LEAST_TIME + self._random.expovariate(1 / 0.02))
        return Charged(order.order, order.sku, order.pieces, order.cents)

    @handler
    def note(self, catalogue: Catalogue) -> None:
        """Receive new prices."""


class Shipping(Actor):
    """Ships parcels."""

    @handler
    async def ship(self, order: Charged) -> Shipped:
        """Ship one order."""
        await asyncio.sleep(LEAST_TIME)
        return Shipped(order.order, f"{order.pieces} x {order.sku}", order.cents)


def warehouse() -> list[Actor]:
    """Return the actors of the node `warehouse`."""
    return [Stock(), Shipping()]


def payments() -> list[Actor]:
    """Return the actors of the node `payments`."""
    return [Bank()]
