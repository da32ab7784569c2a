"""All plays: how often each is given, in which formats, and which fault it plants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from hopline.generator import faults, garbage, placeholders, scenarios
from hopline.generator.scenarios import CHAIN, LEDGER, ORDERS
from hopline.generator.script import (
    ANYONE,
    ASKER,
    ATTACKER,
    GATEWAY,
    OTHER_ATTACKER,
    ZERO_IDS,
    Lifetime,
    Play,
)
from hopline.generator.topology import Service
from hopline.message import WireFormat

SIGNABLE = (WireFormat.V4, WireFormat.V5, WireFormat.V6)
"""The first format has no place for a signature, nor for the node of a callback."""
FORMAT_WEIGHTS = {WireFormat.FIRST: 1, WireFormat.V4: 2, WireFormat.V5: 5, WireFormat.V6: 2}
ALL_FORMATS = tuple(FORMAT_WEIGHTS)


@dataclass(frozen=True)
class Scene:
    """A play that is still to be written for a format."""

    name: str
    write: Callable[[Play], object]
    roles: tuple[int, ...] = (ASKER, Service.PRICE)
    formats: tuple[WireFormat, ...] = ALL_FORMATS
    weight: int = 0  # among the flows that are as they should be
    fault: str = ""
    lifetime: Lifetime = Lifetime.LONG
    is_traced: bool = False
    domain: str = ""
    correlation: bytes = placeholders.CORRELATION
    before_end_us: int | None = None  # begins so long before every node's last word; None: at any time

    def play(self, wire_format: WireFormat) -> Play:
        """Write it."""
        play = Play(self.name, self.roles, wire_format, self.lifetime, self.is_traced, self.domain, self.correlation)
        self.write(play)
        return play


_RECORDS = (ASKER, Service.RECORDS)
_UNLIMITED = Lifetime.UNLIMITED
_BASKET = (ASKER, Service.ORDER)
_ASKED_FOR_A_BASKET = ("asked.quote", "asked.available", "told.metric")

NESTED = (
    Scene("asked.quote", scenarios.quote),
    Scene(
        "asked.available",
        partial(scenarios.availability, asked=("asked.quote", "told.metric")),
        (ASKER, Service.STOCK),
    ),
    Scene("told.metric", scenarios.metric, _RECORDS, lifetime=_UNLIMITED),
    Scene("asked.exception", faults.exception),
    Scene("asked.lost", faults.lost_request, formats=SIGNABLE, lifetime=Lifetime.SHORT),
    Scene("asked.behind", partial(scenarios.availability, asked=("asked.exception",)), (ASKER, Service.STOCK)),
)
"""Flows that are begun by the handlers of others, and never by themselves."""

USUAL = (
    Scene("order", scenarios.order, (ASKER, *CHAIN), SIGNABLE, 20, is_traced=True, domain=ORDERS),
    Scene("quote", scenarios.quote, weight=30),
    Scene("stock", scenarios.stock, (ASKER, Service.STOCK), weight=10, is_traced=True),
    Scene("local", scenarios.local, (ASKER,), weight=10),
    Scene("note", scenarios.note, _RECORDS, SIGNABLE, 8, lifetime=_UNLIMITED, domain=LEDGER),
    Scene("metric", scenarios.metric, _RECORDS, weight=8, lifetime=_UNLIMITED),
    Scene("news", scenarios.news, (ASKER, ANYONE, ANYONE, ANYONE), weight=4, lifetime=_UNLIMITED),
    Scene(
        "receipt",
        scenarios.parcel_with_receipt,
        (ASKER, Service.SHIP),
        SIGNABLE,
        5,
        lifetime=_UNLIMITED,
    ),
    Scene("basket", partial(scenarios.basket, asked=_ASKED_FOR_A_BASKET), _BASKET, weight=4),
    Scene("forwarded", scenarios.forwarded, (ASKER, Service.STOCK, Service.CHARGE), SIGNABLE, 5),
)


def _scene(fault: str, kind: str, write: Callable[[Play], object], **what: object) -> Scene:
    return Scene(f"{fault}.{kind}", write, fault=fault, **what)  # type: ignore[arg-type]


def _zero() -> Iterator[Scene]:
    for name, correlation in ZERO_IDS.items():
        what = {"lifetime": _UNLIMITED, "correlation": correlation}
        yield _scene("zero", f"ping_{name}", scenarios.ping, roles=(ASKER, ANYONE), **what)
        yield _scene("zero", f"beacon_{name}", scenarios.beacon, roles=(ASKER, GATEWAY), **what)


def _garbage() -> Iterator[Scene]:
    for fault, kinds in (("malformed", garbage.MALFORMED), ("truncated", garbage.TRUNCATED)):
        for kind, (wire_format, _) in kinds.items():
            write = partial(garbage.spoil, fault=fault, kind=kind)
            yield _scene(fault, kind, write, roles=(ATTACKER, ANYONE), formats=(wire_format,), lifetime=_UNLIMITED)


_FIRST_PAIR = (ASKER, Service.ORDER)  # one of which has a clock that is behind, by more than the time that is left then
_LAST_US = 30_000
_FORGER = (ASKER, Service.PRICE, ATTACKER)
_REPLAYER = (ASKER, Service.RECORDS, OTHER_ATTACKER)

FAULTY = (
    _scene("lost", "request", faults.lost_request, formats=SIGNABLE),
    _scene("lost", "answer", faults.lost_answer, formats=SIGNABLE),
    _scene("lost", "one_way", faults.lost_metric, roles=_RECORDS, lifetime=_UNLIMITED),
    _scene("duplicated", "answer", faults.duplicated_answer),
    _scene("duplicated", "one_way", faults.duplicated_metric, roles=_RECORDS, lifetime=_UNLIMITED),
    _scene("lost", "last", faults.lost_at_the_end, roles=_FIRST_PAIR, lifetime=_UNLIMITED, before_end_us=_LAST_US),
    _scene("late", "answer", faults.late, lifetime=Lifetime.SHORT),
    _scene("late", "taken", partial(faults.late, is_taken=True), lifetime=Lifetime.SHORT),
    _scene("expired", "mailbox", faults.expired, lifetime=Lifetime.SHORT),
    _scene("overflow", "mailbox", faults.overflow, lifetime=_UNLIMITED),
    _scene("unroutable", "reported", faults.unroutable),
    _scene("failed", "reported", faults.failed),
    _scene("hop_limit", "loop", faults.hop_limit, lifetime=_UNLIMITED, formats=SIGNABLE),
    _scene("exception", "quote", faults.exception),
    _scene(
        "exception",
        "order",
        partial(scenarios.order, failing=True),
        roles=(ASKER, *CHAIN),
        formats=SIGNABLE,
        is_traced=True,
        domain=ORDERS,
    ),
    _scene("exception", "asked", partial(scenarios.basket, asked=("asked.exception",)), roles=_BASKET),
    _scene("exception", "behind", partial(scenarios.basket, asked=("asked.quote", "asked.behind")), roles=_BASKET),
    _scene("lost", "asked", partial(scenarios.basket, asked=("asked.lost",)), roles=_BASKET, formats=SIGNABLE),
    _scene("unanswered", "handler", faults.unanswered, lifetime=_UNLIMITED),
    _scene("orphan", "request", faults.orphan, roles=(GATEWAY, Service.PRICE), formats=SIGNABLE, is_traced=True),
    _scene("forged", "bad_signature", faults.bad_signature, roles=_FORGER, formats=SIGNABLE),
    _scene("forged", "wrong_domain", faults.wrong_domain, roles=_FORGER, formats=SIGNABLE),
    _scene("forged", "unknown_domain", faults.unknown_domain, roles=_FORGER, formats=SIGNABLE),
    *(
        _scene("replayed", kind, write, roles=_REPLAYER, formats=SIGNABLE, lifetime=_UNLIMITED, domain=LEDGER)
        for kind, write in (("own_name", faults.replayed_by_itself), ("attacker", faults.replayed_by_attacker))
    ),
    _scene("unsigned", "node", faults.unsigned, roles=_RECORDS, formats=SIGNABLE, lifetime=_UNLIMITED, domain=LEDGER),
    *_garbage(),
    *_zero(),
    _scene(
        "dropped",
        "beacon",
        partial(scenarios.beacon, dropped=True),
        roles=(ASKER, GATEWAY),
        lifetime=_UNLIMITED,
        correlation=ZERO_IDS["guid"],
    ),
    _scene("huge", "stream", scenarios.stream, formats=(WireFormat.V5, WireFormat.V6)),
)

DEFAULT_RATES = {
    "lost": 0.003,
    "duplicated": 0.002,
    "late": 0.001,
    "expired": 0.001,
    "overflow": 0.0005,
    "unroutable": 0.0005,
    "failed": 0.0005,
    "hop_limit": 0.0002,
    "exception": 0.004,
    "unanswered": 0.001,
    "orphan": 0.001,
    "forged": 0.0015,
    "replayed": 0.001,
    "unsigned": 0.0005,
    "malformed": 0.002,
    "truncated": 0.001,
    "zero": 0.06,
    "dropped": 0.001,
    "huge": 0.00001,
}
"""Of all flows, the share that has the fault. Clocks that are wrong are counted in nodes."""
