"""Routing: the receivers of this node and of others, and the decision which of them gets a message.

Pure: no I/O, no clock.
"""

from hopline.routing.balance import Balance
from hopline.routing.decision import DEFAULT_HOP_LIMIT, Decision, Tables, decide, fast_node, fast_receiver
from hopline.routing.exchange import (
    NO_DEADLINE,
    TICKS_PER_SECOND,
    Delivery,
    Exchange,
    Handling,
    HubPort,
    Label,
    Port,
    QueuedDelivery,
    delivery_of,
    remaining_ticks,
)
from hopline.routing.external import ExternalTable, KnownNode, NodeRemoval
from hopline.routing.internal import InternalTable, Route
from hopline.routing.outcome import MessageOutcome, Outcome
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
    "Handling",
    "HubPort",
    "InternalTable",
    "KnownNode",
    "Label",
    "MessageOutcome",
    "NodeRemoval",
    "Outcome",
    "Port",
    "QueuedDelivery",
    "Ring",
    "Route",
    "Tables",
    "decide",
    "delivery_of",
    "fast_node",
    "fast_receiver",
    "remaining_ticks",
]
