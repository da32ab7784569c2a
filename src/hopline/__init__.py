"""Hopline: brokerless actor messaging, and a Spark pipeline over its captured traffic.

This package exports what an application needs. The rest is public in the package that owns it:

* `hopline.errors`: every error;
* `hopline.message`: what a message consists of;
* `hopline.wire`: `encode`, `decode`, `peek` and `annotate`, the formats and their limits;
* `hopline.security`: profiles of signatures, keys and key files;
* `hopline.transport`: socket settings, key pairs for CURVE;
* `hopline.cluster`, `hopline.rendezvous`: how nodes find each other, and the settings of that;
* `hopline.node`: reports and counters of a running node, middleware;
* `hopline.application`: nodes of a configuration, the client that `connect` returns;
* `hopline.capture`, `hopline.pipeline`, `hopline.query`: recorded traffic, and the tables that are made of it.
"""

import hopline._starting  # noqa: F401 - before all else, for an interrupt while the rest is imported
from hopline.actors import Actor, CorrelationFilter, handler
from hopline.application import connect
from hopline.capture.events import Level as CaptureLevel
from hopline.capture.settings import CaptureSettings
from hopline.client import MessageHub, Promise, Retry, Stream
from hopline.errors import (
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    BindError,
    DeliveryError,
    HoplineError,
    MissingExtraError,
    NoRoomError,
    NotRunningError,
    PayloadError,
)
from hopline.message import (
    JSON,
    MSGPACK,
    PROTOBUF,
    RAW,
    AnsweredBy,
    Distribution,
    Message,
    MessageIdentifier,
    Payload,
    Request,
    WireFormat,
    from_message,
    payload,
    to_message,
)
from hopline.node import Context, Network, Node, NodeSettings
from hopline.observers.dead_letters import DeadLetter
from hopline.rendezvous import RendezvousServer, RendezvousSettings
from hopline.routing import MessageOutcome, Outcome
from hopline.security import Domain, DomainSecurity, KeyRing, SecurityError, new_key
from hopline.transport import Curve

__version__ = "0.1.0"

__all__ = [
    "JSON",
    "MSGPACK",
    "PROTOBUF",
    "RAW",
    "Actor",
    "ActorError",
    "AnswerTimeoutError",
    "AnsweredBy",
    "ArgumentError",
    "BindError",
    "CaptureLevel",
    "CaptureSettings",
    "Context",
    "CorrelationFilter",
    "Curve",
    "DeadLetter",
    "DeliveryError",
    "Distribution",
    "Domain",
    "DomainSecurity",
    "HoplineError",
    "KeyRing",
    "Message",
    "MessageHub",
    "MessageIdentifier",
    "MessageOutcome",
    "MissingExtraError",
    "Network",
    "NoRoomError",
    "Node",
    "NodeSettings",
    "NotRunningError",
    "Outcome",
    "Payload",
    "PayloadError",
    "Promise",
    "RendezvousServer",
    "RendezvousSettings",
    "Request",
    "Retry",
    "SecurityError",
    "Stream",
    "WireFormat",
    "connect",
    "from_message",
    "handler",
    "new_key",
    "payload",
    "to_message",
]
