"""How other nodes see this one, and how many control messages it exchanged with them."""

from __future__ import annotations

from collections import Counter

import msgspec

from hopline.message import get_logger

log = get_logger("hopline.cluster")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """The identity and the addresses under which other nodes know this one."""

    identity: bytes
    uri: str  # where it receives messages
    health_uri: str  # where it publishes heartbeats


class Traffic(msgspec.Struct):
    """Counts of control messages: announcements, withdrawals, requests for routes and their answers."""

    published: int = 0  # through the rendezvous server
    sent: int = 0  # directly to one node
    received: int = 0  # either way
    refused: Counter[str] = msgspec.field(default_factory=Counter)  # by reason

    def refuse(self, reason: str, *, is_logged: bool = False) -> None:
        """Count a refused message, and log the first one for each reason.

        Args:
            reason: Why it was refused: the key in `refused`.
            is_logged: Whether the caller has already logged a more specific text.
        """
        if not (is_logged or self.refused[reason]):
            log.warning("refused a control message of another node: %s; from now on this is only counted", reason)
        self.refused[reason] += 1
