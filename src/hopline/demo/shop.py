"""The shop: an order is priced, its goods are reserved, the card is charged, the parcel is shipped.

Four actors on three nodes, none of which knows another. The customer waits for `Shipped`; the callback point travels
with the flow and brings it home from whoever sends it.
"""

from __future__ import annotations

import asyncio
from random import Random

import msgspec

from hopline.actors import Actor, handler
from hopline.message import payload

PRICES = {"lamp": 2_990, "chair": 8_900, "desk": 24_900, "shelf": 5_900}
CATALOGUE_PERIOD = 1.0  # seconds between two catalogues

DECLINED_CARDS = 0.03  # the bank says no
SLOW_CARDS = 0.015  # the bank takes longer than a customer waits
SLOW_BANK = 2.4  # seconds
SOLD_OUT = 0.02
WARM_UP = 0.001  # seconds that even the fastest step takes


@payload("ORDER.PLACED")
class Placed(msgspec.Struct, frozen=True):
    """What the customer sends."""

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
    """A priced order whose goods are set aside."""

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
    """What the customer waits for."""

    order: int
    parcel: str
    cents: int


@payload("CATALOGUE.NEW")
class Catalogue(msgspec.Struct, frozen=True):
    """What the shop tells everybody, and waits for nobody's answer."""

    number: int
    prices: dict[str, int]


IDENTITIES = ("ORDER.PLACED", "ORDER.PRICED", "ORDER.RESERVED", "ORDER.CHARGED", "ORDER.SHIPPED", "CATALOGUE.NEW")


class SoldOutError(Exception):
    """The goods are not there."""


class CardDeclinedError(Exception):
    """The bank says no."""


class Pricing(Actor):
    """Knows the prices."""

    @handler
    def price(self, order: Placed) -> Priced:
        """Price an order."""
        return Priced(order.order, order.sku, order.pieces, order.card, order.pieces * PRICES[order.sku])


class Stock(Actor):
    """Sets goods aside, a few orders at a time: here the queue builds up."""

    concurrency = 4

    def __init__(self) -> None:
        self._chance = Random(1)  # noqa: S311 - a shop, not keys

    @handler
    async def reserve(self, order: Priced) -> Reserved:
        """Set the goods of one order aside."""
        await asyncio.sleep(WARM_UP + self._chance.expovariate(1 / 0.008))
        if self._chance.random() < SOLD_OUT:
            raise SoldOutError(f"no {order.sku} left for order {order.order}")
        return Reserved(order.order, order.sku, order.pieces, order.card, order.cents)

    @handler
    def note(self, catalogue: Catalogue) -> None:
        """Hear of new prices."""


class Bank(Actor):
    """Charges cards. The bank behind it is slow at times, and sometimes says no."""

    def __init__(self) -> None:
        self._chance = Random(2)  # noqa: S311 - a shop, not keys

    @handler
    async def charge(self, order: Reserved) -> Charged:
        """Charge the card of one order."""
        fate = self._chance.random()
        if fate < DECLINED_CARDS:
            raise CardDeclinedError(f"the bank declined card {order.card} for order {order.order}")
        is_slow = fate < DECLINED_CARDS + SLOW_CARDS
        await asyncio.sleep(SLOW_BANK if is_slow else WARM_UP + self._chance.expovariate(1 / 0.02))
        return Charged(order.order, order.sku, order.pieces, order.cents)

    @handler
    def note(self, catalogue: Catalogue) -> None:
        """Hear of new prices."""


class Shipping(Actor):
    """Sends parcels."""

    @handler
    async def ship(self, order: Charged) -> Shipped:
        """Send one."""
        await asyncio.sleep(WARM_UP)
        return Shipped(order.order, f"{order.pieces} x {order.sku}", order.cents)


def warehouse() -> list[Actor]:
    """Make the actors of the warehouse's node."""
    return [Stock(), Shipping()]


def payments() -> list[Actor]:
    """Make the actors of the payment node."""
    return [Bank()]
