"""The messages of the protocol itself: which domains they may be in, and which never come from outside."""

from __future__ import annotations

_OWN_REQUESTS = b"HOPLINE."

QUESTIONS = frozenset(
    {
        b"KINO.REQMSGROUTES",
        b"KINO.MSGROUTES",
        b"KINO.REQEXTROUTES",
        b"KINO.EXTROUTES",
        b"KINO.REQINTROUTES",
        b"KINO.INTROUTES",
    }
)
"""Questions about a node, and their answers: in the first domain that is signed, as Hopline's own, unless mapped."""

SERVICES = QUESTIONS | {b"KINO.PING", b"KINO.EXCEPTION", b"KINO.RCPTCONFIRM"}
"""Identities on the data plane that nobody should have to list: the others are in the first domain unless mapped."""

COMMANDS = frozenset({b"HOPLINE.REQCAPTURE"})
"""Requests that change a node's state: for members of the domain that they belong to, and of no other."""

LOCAL_ONLY = frozenset(
    {
        b"KINO.UNREGUNREACHABLENODE",  # would let anyone evict any node: the reference takes it unverified
        b"KINO.ADDPEER",
        b"KINO.STARTPEERMON",
        b"KINO.DELETEPEER",
        b"KINO.CHCKDEADPEERS",
        b"KINO.CHCKSTALEPEERS",
        b"KINO.CHCKPEERCON",
        b"KINO.QUORUM-RECONNECT",
    }
)
"""Identities that travel inside one process only; whoever sends one over the network wants to do harm."""


def is_service(identity: bytes) -> bool:
    """Tell the protocol's own messages, and Hopline's own requests, from those of users."""
    return identity in SERVICES or identity.startswith(_OWN_REQUESTS)


def is_for_any_domain(identity: bytes) -> bool:
    """Return whether messages of an identity may come in any domain in which they are signed.

    Each node puts the protocol's own messages into a domain of its own choice. What changes a node's state is
    different: who may do that is decided by the node itself, by the order of its domains or by a mapping.
    """
    return is_service(identity) and identity not in COMMANDS
