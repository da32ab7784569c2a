"""How messages get from one process to another: the interface, and its implementations `tcp` and `libzmq`."""

from hopline.transport.address import Address, advertised, one_place, parse, resolve
from hopline.transport.choice import open_transport
from hopline.transport.condition import Condition
from hopline.transport.curve import Curve, new_keys
from hopline.transport.exposure import require_secure_bind
from hopline.transport.interface import (
    Frames,
    GaveUp,
    Link,
    Listener,
    OnBroken,
    OnSent,
    PeerLink,
    Peers,
    Sender,
    Subscriber,
    Take,
    Transport,
    Unsent,
    Write,
)
from hopline.transport.settings import SocketSettings

__all__ = [
    "Address",
    "Condition",
    "Curve",
    "Frames",
    "GaveUp",
    "Link",
    "Listener",
    "OnBroken",
    "OnSent",
    "PeerLink",
    "Peers",
    "Sender",
    "SocketSettings",
    "Subscriber",
    "Take",
    "Transport",
    "Unsent",
    "Write",
    "advertised",
    "new_keys",
    "one_place",
    "open_transport",
    "parse",
    "require_secure_bind",
    "resolve",
]
