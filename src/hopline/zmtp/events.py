"""What a connection reports. A message is the list of its frames; everything else is one of these classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hopline.zmtp.greeting import Version
from hopline.zmtp.socket_types import SocketType


@dataclass(frozen=True, slots=True)
class Ready:
    """The handshake is complete: messages may be sent and will arrive."""

    version: Version
    """The version that both sides speak from now on."""
    socket_type: SocketType
    """What the peer is."""
    identity: bytes
    """What the peer calls itself; empty if it does not say."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The peer wants messages whose first frame begins with a topic, or wants them no longer."""

    topic: bytes
    is_wanted: bool


@dataclass(frozen=True, slots=True)
class Ping:
    """The peer asked for a sign of life. The answer is in the output already."""

    time_to_live: float
    """Seconds of silence after which the peer wants the connection to be closed; zero means never."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The peer answered a ping."""

    context: bytes


@dataclass(frozen=True, slots=True)
class PeerError:
    """The peer refused the handshake. Nothing follows: close the connection."""

    reason: str


@dataclass(frozen=True, slots=True)
class Violation:
    """The peer broke the protocol. Nothing follows: write the rest of the output and close the connection."""

    reason: str


Event: TypeAlias = list[bytes] | Ready | Subscription | Ping | Pong | PeerError | Violation
