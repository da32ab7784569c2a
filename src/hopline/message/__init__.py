"""The message and what identifies it. No I/O, no wire format."""

from hopline.message.errors import HoplineError, LocalError
from hopline.message.identifier import (
    COMMON_VERSION_TEXTS,
    MAX_VERSION,
    MessageIdentifier,
    Version,
    version_from_text,
    version_to_text,
)
from hopline.message.message import (
    NO_FLOW,
    TICKS_PER_MICROSECOND,
    Distribution,
    Message,
    RoutingEntry,
    TraceOptions,
    ticks,
)
from hopline.message.receivers import (
    ReceiverKind,
    new_actor_identity,
    new_hub_identity,
    new_node_identity,
    receiver_kind,
)
from hopline.message.wire_format import WireFormat

__all__ = [
    "COMMON_VERSION_TEXTS",
    "MAX_VERSION",
    "NO_FLOW",
    "TICKS_PER_MICROSECOND",
    "Distribution",
    "HoplineError",
    "LocalError",
    "Message",
    "MessageIdentifier",
    "ReceiverKind",
    "RoutingEntry",
    "TraceOptions",
    "Version",
    "WireFormat",
    "new_actor_identity",
    "new_hub_identity",
    "new_node_identity",
    "receiver_kind",
    "ticks",
    "version_from_text",
    "version_to_text",
]
