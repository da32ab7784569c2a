"""The settings of a node: every limit with its name, default and meaning."""

from __future__ import annotations

import msgspec

from hopline.message import LocalError
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
    slow_handler: float = 0.5  # how long a plain function may hold the event loop before a warning is logged
    include_tracebacks: bool = False  # whether the errors that callers get include the handler's traceback

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            at_least = 0 if name.endswith("_timeout") or name in _MAY_BE_ZERO else 1
            if not (isinstance(value, (int, float)) and (isinstance(value, bool) or value >= at_least)):
                raise LocalError(name, f"a number, at least {at_least}", value)


_MAY_BE_ZERO = frozenset({"unrouted_capacity", "backpressure_capacity", "slow_handler", "hop_limit"})
