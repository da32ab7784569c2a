"""All scenarios: how often each occurs, in which wire formats, and which fault it plants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from hopline.generator import faults, placeholders, scenarios, undecodable
from hopline.generator.flow_template import (
    ANY_NODE,
    ATTACKER,
    GATEWAY,
    NO_FLOW_IDS,
    OTHER_ATTACKER,
    REQUESTER,
    FlowTemplate,
    Lifetime,
)
from hopline.generator.scenarios import CHAIN, LEDGER, ORDERS
from hopline.generator.topology import Service
from hopline.message import WireFormat

FORMAT_WEIGHTS = {WireFormat.FIRST: 1, WireFormat.V4: 2, WireFormat.V5: 5, WireFormat.V6: 2}
ALL_FORMATS = tuple(FORMAT_WEIGHTS)
SIGNABLE_FORMATS = (WireFormat.V4, WireFormat.V5, WireFormat.V6)
"""The first format carries neither a signature nor the node of a callback."""

_UNLIMITED, _SHORT = Lifetime.UNLIMITED, Lifetime.SHORT


@dataclass(frozen=True)
class Scenario:
    """One kind of flow, in all formats that it may have."""

    name: str
    build_steps: Callable[[FlowTemplate], object]
    roles: tuple[int, ...] = (REQUESTER, Service.PRICE)
    formats: tuple[WireFormat, ...] = ALL_FORMATS
    weight: int = 0  # among the healthy flows
    fault: str = ""
    lifetime: Lifetime = Lifetime.LONG
    is_traced: bool = False
    domain: str = ""
    correlation: bytes = placeholders.CORRELATION
    before_end_us: int | None = None  # begins so long before the last record of every node; None: at any time

    def build(self, wire_format: WireFormat) -> FlowTemplate:
        """Return the template of its flows in a wire format."""
        template = FlowTemplate(
            self.name,
            self.roles,
            wire_format,
            lifetime=self.lifetime,
            is_traced=self.is_traced,
            domain=self.domain,
            correlation=self.correlation,
        )
        self.build_steps(template)
        return template


# -- roles -------------------------------------------------------------------------------------------------------------

_ORDER_CHAIN = (REQUESTER, *CHAIN)
_STOCK = (REQUESTER, Service.STOCK)
_ORDER = (REQUESTER, Service.ORDER)
_SHIP = (REQUESTER, Service.SHIP)
_RECORDS = (REQUESTER, Service.RECORDS)
_LISTENERS = (REQUESTER, ANY_NODE, ANY_NODE, ANY_NODE)
_FORWARDED = (REQUESTER, Service.STOCK, Service.CHARGE)
_FORGED = (REQUESTER, Service.PRICE, ATTACKER)
_REPLAYED = (REQUESTER, Service.RECORDS, OTHER_ATTACKER)

# -- flows that handlers of other flows begin, and that never occur by themselves --------------------------------------


def _nested_availability(*nested: str) -> Callable[[FlowTemplate], object]:
    return partial(scenarios.availability, nested=nested)


def _nested_basket(*nested: str) -> Callable[[FlowTemplate], object]:
    return partial(scenarios.basket, nested=nested)


NESTED = (
    Scenario("asked.quote", scenarios.quote),
    Scenario("asked.available", _nested_availability("asked.quote", "told.metric"), _STOCK),
    Scenario("told.metric", scenarios.metric, _RECORDS, lifetime=_UNLIMITED),
    Scenario("asked.exception", faults.exception),
    Scenario("asked.lost", faults.lost_request, formats=SIGNABLE_FORMATS, lifetime=_SHORT),
    Scenario("asked.behind", _nested_availability("asked.exception"), _STOCK),
)

# -- healthy flows -----------------------------------------------------------------------------------------------------

HEALTHY = (
    Scenario(
        "order",
        scenarios.order,
        _ORDER_CHAIN,
        SIGNABLE_FORMATS,
        weight=20,
        is_traced=True,
        domain=ORDERS,
    ),
    Scenario("quote", scenarios.quote, weight=30),
    Scenario("stock", scenarios.stock, _STOCK, weight=10, is_traced=True),
    Scenario("local", scenarios.local, (REQUESTER,), weight=10),
    Scenario(
        "note",
        scenarios.note,
        _RECORDS,
        SIGNABLE_FORMATS,
        weight=8,
        lifetime=_UNLIMITED,
        domain=LEDGER,
    ),
    Scenario("metric", scenarios.metric, _RECORDS, weight=8, lifetime=_UNLIMITED),
    Scenario("news", scenarios.news, _LISTENERS, weight=4, lifetime=_UNLIMITED),
    Scenario("receipt", scenarios.parcel_with_receipt, _SHIP, SIGNABLE_FORMATS, weight=5, lifetime=_UNLIMITED),
    Scenario("basket", _nested_basket("asked.quote", "asked.available", "told.metric"), _ORDER, weight=4),
    Scenario("forwarded", scenarios.forwarded, _FORWARDED, SIGNABLE_FORMATS, weight=5),
)

# -- faulty flows ------------------------------------------------------------------------------------------------------

_JUST_BEFORE_END_US = 30_000  # less than the clock of one of the order service's nodes is behind


def _fault(
    fault: str,
    kind: str,
    build_steps: Callable[[FlowTemplate], object],
    **details: Any,
) -> Scenario:
    return Scenario(f"{fault}.{kind}", build_steps, fault=fault, **details)


def _lost_and_duplicated() -> Iterator[Scenario]:
    yield _fault("lost", "request", faults.lost_request, formats=SIGNABLE_FORMATS)
    yield _fault("lost", "answer", faults.lost_answer, formats=SIGNABLE_FORMATS)
    yield _fault("lost", "one_way", faults.lost_metric, roles=_RECORDS, lifetime=_UNLIMITED)
    yield _fault("duplicated", "answer", faults.duplicated_answer)
    yield _fault("duplicated", "one_way", faults.duplicated_metric, roles=_RECORDS, lifetime=_UNLIMITED)
    yield _fault(
        "lost",
        "last",
        faults.lost_at_the_end,
        roles=_ORDER,
        lifetime=_UNLIMITED,
        before_end_us=_JUST_BEFORE_END_US,
    )


def _endings() -> Iterator[Scenario]:
    yield _fault("late", "answer", faults.late, lifetime=_SHORT)
    yield _fault("late", "taken", partial(faults.late, is_taken=True), lifetime=_SHORT)
    yield _fault("expired", "mailbox", faults.expired, lifetime=_SHORT)
    yield _fault("overflow", "mailbox", faults.overflow, lifetime=_UNLIMITED)
    yield _fault("unroutable", "reported", faults.unroutable)
    yield _fault("failed", "reported", faults.failed)
    yield _fault("hop_limit", "loop", faults.hop_limit, lifetime=_UNLIMITED, formats=SIGNABLE_FORMATS)


def _handlers() -> Iterator[Scenario]:
    yield _fault("exception", "quote", faults.exception)
    yield _fault(
        "exception",
        "order",
        partial(scenarios.order, failing=True),
        roles=_ORDER_CHAIN,
        formats=SIGNABLE_FORMATS,
        is_traced=True,
        domain=ORDERS,
    )
    yield _fault("exception", "asked", _nested_basket("asked.exception"), roles=_ORDER)
    yield _fault("exception", "behind", _nested_basket("asked.quote", "asked.behind"), roles=_ORDER)
    yield _fault("lost", "asked", _nested_basket("asked.lost"), roles=_ORDER, formats=SIGNABLE_FORMATS)
    yield _fault("unanswered", "handler", faults.unanswered, lifetime=_UNLIMITED)
    yield _fault(
        "orphan",
        "request",
        faults.orphan,
        roles=(GATEWAY, Service.PRICE),
        formats=SIGNABLE_FORMATS,
        is_traced=True,
    )


def _attacks() -> Iterator[Scenario]:
    forged = partial(_fault, "forged", roles=_FORGED, formats=SIGNABLE_FORMATS)
    yield forged("bad_signature", faults.bad_signature)
    yield forged("wrong_domain", faults.wrong_domain)
    yield forged("unknown_domain", faults.unknown_domain)
    signed_note = {"formats": SIGNABLE_FORMATS, "lifetime": _UNLIMITED, "domain": LEDGER}
    yield _fault("replayed", "own_name", faults.replayed_in_senders_name, roles=_REPLAYED, **signed_note)
    yield _fault("replayed", "attacker", faults.replayed_by_attacker, roles=_REPLAYED, **signed_note)
    yield _fault("unsigned", "node", faults.unsigned, roles=_RECORDS, **signed_note)


def _undecodable() -> Iterator[Scenario]:
    for fault, damages in undecodable.DAMAGES.items():
        for kind, (wire_format, _) in damages.items():
            yield _fault(
                fault,
                kind,
                partial(undecodable.damaged, fault=fault, kind=kind),
                roles=(ATTACKER, ANY_NODE),
                formats=(wire_format,),
                lifetime=_UNLIMITED,
            )


def _without_flow() -> Iterator[Scenario]:
    to_gateway = (REQUESTER, GATEWAY)
    for name, correlation in NO_FLOW_IDS.items():
        no_flow = {"lifetime": _UNLIMITED, "correlation": correlation}
        yield _fault("zero", f"ping_{name}", scenarios.ping, roles=(REQUESTER, ANY_NODE), **no_flow)
        yield _fault("zero", f"beacon_{name}", scenarios.beacon, roles=to_gateway, **no_flow)
    yield _fault(
        "dropped",
        "beacon",
        partial(scenarios.beacon, dropped=True),
        roles=to_gateway,
        lifetime=_UNLIMITED,
        correlation=NO_FLOW_IDS["guid"],
    )


FAULTY = (
    *_lost_and_duplicated(),
    *_endings(),
    *_handlers(),
    *_attacks(),
    *_undecodable(),
    *_without_flow(),
    _fault("huge", "stream", scenarios.stream, formats=(WireFormat.V5, WireFormat.V6)),
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
"""The share of all flows that have each fault. Wrong clocks are not among them: they are counted in nodes."""
