"""Hopline: brokerless actor messaging, and a Spark pipeline over its captured traffic."""

from hopline.message import (
    JSON,
    MSGPACK,
    NO_FLOW,
    PROTOBUF,
    RAW,
    Distribution,
    HoplineError,
    LocalError,
    Message,
    MessageIdentifier,
    PayloadError,
    RoutingEntry,
    Serializer,
    TraceOptions,
    from_message,
    payload,
    to_message,
)
from hopline.wire import Limits, Reason, RemoteError, RoutingView, WireFormat, annotate, decode, encode, peek

__version__ = "0.1.0"

__all__ = [
    "JSON",
    "MSGPACK",
    "NO_FLOW",
    "PROTOBUF",
    "RAW",
    "Distribution",
    "HoplineError",
    "Limits",
    "LocalError",
    "Message",
    "MessageIdentifier",
    "PayloadError",
    "Reason",
    "RemoteError",
    "RoutingEntry",
    "RoutingView",
    "Serializer",
    "TraceOptions",
    "WireFormat",
    "annotate",
    "decode",
    "encode",
    "from_message",
    "payload",
    "peek",
    "to_message",
]
