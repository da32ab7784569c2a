"""The settings of a node: every limit with its name, default and meaning."""

from __future__ import annotations

import msgspec

from hopline.checks import Range, require_flag, require_numbers
from hopline.routing import DEFAULT_HOP_LIMIT


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Capacities and timeouts of a node. Times are in seconds."""

    mailbox_capacity: int = 10_000  # messages that may wait for one actor
    concurrency: int = 1_000  # handlers of one actor that may run at once
    blocking_threads: int = 8  # threads for blocking handlers
    request_timeout: float = 30.0  # default timeout of a request
    backpressure_timeout: float = 30.0  # how long a message waits for a full receiver before it ends as overflow
    backpressure_capacity: int = 10_000  # messages from other nodes that may wait for full receivers
    unrouted_capacity: int = 1_000  # messages that may wait for a route
    discovery_timeout: float = 5.0  # how long a message waits for a route
    hop_limit: int = DEFAULT_HOP_LIMIT  # how many times a message may be forwarded
    drain_timeout: float = 5.0  # how long stopping waits for running handlers
    cancel_timeout: float = 1.0  # how long a cancelled handler may take to finish
    stop_timeout: float = 5.0  # how long the on_stop of an actor may take
    slow_handler: float = 0.5  # how long a plain function may hold the event loop before a warning is logged
    include_tracebacks: bool = False  # whether the errors that callers get include the handler's traceback

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
    "stop_timeout": _UNLIMITED_OR_NONE,
    "slow_handler": _UNLIMITED_OR_NONE,
}
