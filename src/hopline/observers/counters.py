"""Counts of a node's messages: what came in, and how it ended."""

from __future__ import annotations

from hopline.routing import Outcome


class MessageCounters:
    """Counts every message once when it comes in and once when it ends.

    The router increments these in place: they are needed always, and a call for each would cost every message.
    """

    __slots__ = (
        "copied",
        "delivered",
        "failures",
        "handled",
        "handler_errors",
        "received",
        "returned",
        "sent",
        "submitted",
    )

    def __init__(self) -> None:
        self.submitted = 0  # by hubs and actors of this node, and by the node itself
        self.received = 0  # from other nodes
        self.copied = 0  # further copies for the receivers of broadcasts
        self.returned = 0  # by links that had accepted them
        self.delivered = 0
        self.sent = 0  # accepted by links
        self.handled = 0  # handlers that finished
        self.handler_errors = 0
        self.failures = dict.fromkeys(Outcome, 0)  # messages that reached no receiver, by outcome

    def outcomes(self, unsent: int) -> dict[Outcome, int]:
        """Return the number of messages by outcome, where `unsent` of those that links accepted still wait there."""
        sent = self.sent - self.returned - unsent
        return self.failures | {Outcome.DELIVERED: self.delivered, Outcome.SENT: sent}
