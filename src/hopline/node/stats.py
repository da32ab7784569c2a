"""Message counts of a node: what came in, and how it ended."""

from __future__ import annotations

import msgspec

from hopline.routing import Outcome


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the node started. Every message that came in has an outcome or still waits: see `is_balanced`."""

    submitted: int  # by hubs and actors of this node
    received: int  # from other nodes
    copied: int  # further copies, for the receivers of broadcasts
    returned: int  # of these: came back from a link whose peer was gone, and were routed again
    outcomes: dict[Outcome, int]  # a message counts as sent when the operating system has its last byte
    waiting: int  # in mailboxes and links, for a route, or for room
    handled: int  # handlers that finished
    handler_errors: int  # of these: failed
    unexpected: int  # replies that no request waited for
    promised: int  # promises and streams that are open

    @property
    def is_balanced(self) -> bool:
        """Whether every message has exactly one outcome, or still waits."""
        came_in = self.submitted + self.received + self.copied
        return came_in == sum(self.outcomes.values()) + self.waiting
