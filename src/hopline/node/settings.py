"""Every limit of a node: its name, its default, what it is for."""

from __future__ import annotations

import msgspec

from hopline.checks import Range, require_flag, require_numbers
from hopline.routing import DEFAULT_HOP_LIMIT


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much a node holds, and how long it waits. Times are in seconds."""

    mailbox_capacity: int = 10_000  # messages that may wait for one actor
    concurrency: int = 1_000  # handlers of one actor that may be under way at once
    blocking_threads: int = 8  # threads for the handlers that are marked as blocking
    request_timeout: float = 30.0  # how long a caller waits who says nothing else
    backpressure_timeout: float = 30.0  # how long a message waits for room before it is an overflow
    backpressure_capacity: int = 10_000  # messages from elsewhere that may wait for room
    unrouted_capacity: int = 1_000  # messages without a route that are kept while one is looked for
    discovery_timeout: float = 5.0  # and for how long
    hop_limit: int = DEFAULT_HOP_LIMIT  # how often a message may be sent from node to node
    drain_timeout: float = 5.0  # how long stopping waits for what is under way
    cancel_timeout: float = 1.0  # how long a cancelled handler may take to end
    slow_handler: float = 0.5  # how long a plain function may hold the event loop before the log says so
    include_tracebacks: bool = False  # whether callers are told the stack of a handler that failed

    def __post_init__(self) -> None:
        require_numbers(self, _ACCEPTED)
        require_flag("include_tracebacks", self.include_tracebacks)


_UNLIMITED_COUNT = Range(1, allows_infinity=True)
_UNLIMITED_OR_NONE = Range(0, allows_infinity=True)
_ACCEPTED = {
    "mailbox_capacity": _UNLIMITED_COUNT,
    "concurrency": _UNLIMITED_COUNT,
    "blocking_threads": _UNLIMITED_COUNT,
    "request_timeout": _UNLIMITED_OR_NONE,
    "backpressure_timeout": _UNLIMITED_OR_NONE,
    "backpressure_capacity": _UNLIMITED_OR_NONE,
    "unrouted_capacity": _UNLIMITED_OR_NONE,
    "discovery_timeout": _UNLIMITED_OR_NONE,
    "hop_limit": _UNLIMITED_OR_NONE,
    "drain_timeout": _UNLIMITED_OR_NONE,
    "cancel_timeout": _UNLIMITED_OR_NONE,
    "slow_handler": _UNLIMITED_OR_NONE,
}
