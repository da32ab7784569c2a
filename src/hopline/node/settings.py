"""Every limit of a node: its name, its default, what it is for."""

from __future__ import annotations

import msgspec

from hopline.message import LocalError
from hopline.routing import DEFAULT_HOP_LIMIT


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much a node holds, and how long it waits. Times are in seconds."""

    mailbox_capacity: int = 10_000  # messages that may wait for one actor
    concurrency: int = 1_000  # handlers of one actor that may be under way at once
    blocking_threads: int = 8  # threads for the handlers that are marked as blocking
    answer_time: float = 30.0  # how long a caller waits who says nothing else
    room_time: float = 30.0  # how long a message waits for room before it is an overflow
    waiting_for_room: int = 10_000  # messages from elsewhere that may wait for room
    parked_messages: int = 1_000  # messages without a route that are kept while one is looked for
    parking_time: float = 5.0  # and for how long
    hop_limit: int = DEFAULT_HOP_LIMIT  # how often a message may be sent from node to node
    drain_time: float = 5.0  # how long stopping waits for what is under way
    stop_grace: float = 1.0  # how long a cancelled handler may take to end
    slow_handler: float = 0.5  # how long a plain function may hold the event loop before the log says so
    tell_stacks: bool = False  # whether callers are told the stack of a handler that failed

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            at_least = 0 if name.endswith(("_time", "_grace")) or name in _MAY_BE_ZERO else 1
            if not (isinstance(value, (int, float)) and (isinstance(value, bool) or value >= at_least)):
                raise LocalError(name, f"a number, at least {at_least}", value)


_MAY_BE_ZERO = frozenset({"parked_messages", "waiting_for_room", "slow_handler", "hop_limit"})
