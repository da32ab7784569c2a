"""Every option that is set on a socket: its name, its default, what it is for."""

from __future__ import annotations

import msgspec

from hopline.checks import COUNT, DURATION, DURATION_OR_NONE, require_numbers


class SocketSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much sockets hold, and how soon they notice that a peer is silent. Times are in seconds."""

    link_capacity: int = 1_000  # messages for one peer that have not left: it has not shaken hands, or has no room
    send_high_water: int = 1_000  # with CURVE: further ones that libzmq holds; what lies there is lost with the peer
    receive_high_water: int = 10_000  # with CURVE: messages from one peer that nobody has read yet
    refusal_timeout: float = (
        1.0  # how long a peer may be away, with nobody or another one at its address, before it is gone
    )
    handshake_timeout: float = 15.0  # how long it may take to shake hands; who is slow is not gone
    heartbeat_interval: float = 10.0  # between signs of life on a connection that sends nothing else; zero is none
    heartbeat_timeout: float = 30.0  # silence after which a connection is closed
    reconnect_interval: float = 0.05  # the first pause before connecting again
    reconnect_interval_max: float = 1.0  # and the longest
    max_frame_size: int = 64 * 1024 * 1024  # bytes; who sends a larger frame is cut off
    batch: int = 200  # with CURVE: messages that are read before others get their turn

    def __post_init__(self) -> None:
        require_numbers(self, _ACCEPTED)


_ACCEPTED = {
    "link_capacity": COUNT,
    "send_high_water": COUNT,
    "receive_high_water": COUNT,
    "refusal_timeout": DURATION,
    "handshake_timeout": DURATION,
    "heartbeat_interval": DURATION_OR_NONE,
    "heartbeat_timeout": DURATION_OR_NONE,
    "reconnect_interval": DURATION,
    "reconnect_interval_max": DURATION,
    "max_frame_size": COUNT,
    "batch": COUNT,
}
