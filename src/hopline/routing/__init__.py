"""Who gets this message: what lives here, what lives elsewhere, and the decision. Pure: no I/O, no clock."""

from hopline.routing.balance import Balance
from hopline.routing.decision import DEFAULT_HOP_LIMIT, Decision, Tables, decide, sole_node, sole_receiver
from hopline.routing.exchange import (
    NO_DEADLINE,
    TICKS_PER_SECOND,
    Delivery,
    Exchange,
    HubPort,
    Label,
    Place,
    Port,
    delivery_of,
    remaining_ticks,
)
from hopline.routing.external import ExternalTable, KnownNode, NodeRemoval
from hopline.routing.internal import InternalTable, Route
from hopline.routing.outcome import Outcome, Settled
from hopline.routing.ring import Ring

__all__ = [
    "DEFAULT_HOP_LIMIT",
    "NO_DEADLINE",
    "TICKS_PER_SECOND",
    "Balance",
    "Decision",
    "Delivery",
    "Exchange",
    "ExternalTable",
    "HubPort",
    "InternalTable",
    "KnownNode",
    "Label",
    "NodeRemoval",
    "Outcome",
    "Place",
    "Port",
    "Ring",
    "Route",
    "Settled",
    "Tables",
    "decide",
    "delivery_of",
    "remaining_ticks",
    "sole_node",
    "sole_receiver",
]
