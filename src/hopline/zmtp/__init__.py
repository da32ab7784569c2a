"""ZeroMQ's message transport protocol, without any input or output: bytes in, events out, bytes out.

`Connection` is one side of one connection. Feed it what arrived with `receive`, which returns events, and write what
`take_output` returns. What is sent after the handshake is encoded by `encode_message`, `Connection.subscription` and
`Connection.ping`. ZMTP 3.1 and 3.0 with the NULL mechanism and ZMTP 2.0 are spoken; the peer's greeting decides.
"""

from hopline.zmtp.connection import Connection
from hopline.zmtp.events import Event, PeerError, Ping, Pong, Ready, Subscription, Violation
from hopline.zmtp.framing import encode_into, encode_message
from hopline.zmtp.greeting import Version
from hopline.zmtp.limits import Limits
from hopline.zmtp.socket_types import SocketType

__all__ = [
    "Connection",
    "Event",
    "Limits",
    "PeerError",
    "Ping",
    "Pong",
    "Ready",
    "SocketType",
    "Subscription",
    "Version",
    "Violation",
    "encode_into",
    "encode_message",
]
