"""Who gets this message: what lives here, what lives elsewhere, and the decision. Pure: no I/O, no clock."""

from hopline.routing.balance import Balance
from hopline.routing.decision import DEFAULT_HOP_LIMIT, Decision, Tables, Undeliverable, decide
from hopline.routing.external import ExternalTable, NodeRemoval
from hopline.routing.internal import InternalTable, Route
from hopline.routing.ring import Ring

__all__ = [
    "DEFAULT_HOP_LIMIT",
    "Balance",
    "Decision",
    "ExternalTable",
    "InternalTable",
    "NodeRemoval",
    "Ring",
    "Route",
    "Tables",
    "Undeliverable",
    "decide",
]
