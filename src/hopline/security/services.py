"""The messages of the protocol itself: which domains they may be in, and which never travel between nodes."""

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
"""Identities on the data plane that need not be listed in a domain: those that are no questions are in the first."""

COMMANDS = frozenset({b"HOPLINE.REQCAPTURE", b"HOPLINE.REQTAIL"})
"""Requests that change what a node does, or show its messages: accepted only in the domain that they belong to."""

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
"""Identities that stay inside one process: one that arrives over the network is an attack."""


def is_service(identity: bytes) -> bool:
    """Return whether an identity is one of the protocol's own messages or of Hopline's own requests."""
    return identity in SERVICES or identity.startswith(_OWN_REQUESTS)


def is_question(identity: bytes) -> bool:
    """Return whether a message is a question to a node about itself, or the answer to one."""
    return identity in QUESTIONS or identity.startswith(_OWN_REQUESTS)


def is_for_any_domain(identity: bytes) -> bool:
    """Return whether messages of an identity are accepted in every domain in which they are signed.

    Each node chooses the domain of the protocol's own messages that it sends. `COMMANDS` are different: the node that
    receives them decides in which domain, by the order of its domains or by a mapping.
    """
    return is_service(identity) and identity not in COMMANDS
