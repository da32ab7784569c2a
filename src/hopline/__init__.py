"""Hopline: brokerless actor messaging, and a Spark pipeline over its captured traffic."""

from hopline.message import (
    NO_FLOW,
    Distribution,
    HoplineError,
    LocalError,
    Message,
    MessageIdentifier,
    RoutingEntry,
    TraceOptions,
)
from hopline.wire import Limits, Reason, RemoteError, RoutingView, WireFormat, annotate, decode, encode, peek

__version__ = "0.1.0"

__all__ = [
    "NO_FLOW",
    "Distribution",
    "HoplineError",
    "Limits",
    "LocalError",
    "Message",
    "MessageIdentifier",
    "Reason",
    "RemoteError",
    "RoutingEntry",
    "RoutingView",
    "TraceOptions",
    "WireFormat",
    "annotate",
    "decode",
    "encode",
    "peek",
]
