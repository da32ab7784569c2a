"""The balance of a node: what came in, and what became of it."""

from __future__ import annotations

import msgspec

from hopline.routing import Outcome


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the node started. Whatever came in has an outcome or is still waiting: see `is_balanced`."""

    submitted: int  # given to the router by hubs and actors of this node
    received: int  # came from other nodes
    copied: int  # further copies that broadcasts made of these
    returned: int  # of these: came back from a peer that was gone, and were routed again
    outcomes: dict[Outcome, int]  # a message is sent when the operating system has taken its last byte
    waiting: int  # in mailboxes, parked, in the links to other nodes, or waiting for room
    handled: int  # handlers that ended
    handler_errors: int  # and those of them that failed
    unexpected: int  # replies that came when nobody waited for them any more
    promised: int  # answers that are being waited for

    @property
    def is_balanced(self) -> bool:
        """Tell whether every message has exactly one outcome, or is still waiting for it."""
        came_in = self.submitted + self.received + self.copied
        return came_in == sum(self.outcomes.values()) + self.waiting
