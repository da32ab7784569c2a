"""Announcements that were refused because of their keys, explained for the people who configure the keys.

Missing or wrong keys all look alike to a caller: it waits, and gets the error that no node handles its message. So a
node remembers, for a bounded number of messages, whose announcement of them it refused and why. That explains why a
message had no route, and one line in the log for each node, domain and reason describes how the two sides differ.

A node that asks for routes with other keys gets no answer, so it could not tell wrong keys from an empty network. For
its sake this node publishes an announcement, which the other cannot verify and refuses in turn. That happens at most
once a second, however many nodes ask; a node that asks within that second receives the next announcement.

The content of a refused message is not verified: it is used in texts only. Reading it costs time that a stranger must
not be able to spend, so only a few are read in a second. The others are only counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

import msgspec

from hopline.cluster.messages.service import REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES, identifier_of, read, sender_of
from hopline.cluster.messages.service_pb2 import RegisterExternalMessageRoute
from hopline.message import Message, MessageIdentifier, PayloadError, get_logger, printable_name
from hopline.routing import Route
from hopline.security import Security, SecurityError, SecurityReason
from hopline.security.signing import apparent_signing, signing_of

log = get_logger("hopline.cluster")

_REMEMBERED = 1_000  # messages whose announcements were refused, and as many refusals
_READ_A_SECOND = 20  # refused messages
_ANNOUNCEMENT_PERIOD = 1.0  # seconds between two announcements for nodes whose requests were refused
_LOGGED_A_MINUTE = 20  # refusals: a stranger can use any number of identities
_Key = TypeVar("_Key")
_ABOUT_KEYS = frozenset(
    {
        SecurityReason.UNKNOWN_DOMAIN,
        SecurityReason.UNSIGNED,
        SecurityReason.WRONG_PROFILE,
        SecurityReason.WRONG_SIGNATURE,
        SecurityReason.WRONG_DOMAIN,
    }
)


class Refusal(msgspec.Struct, frozen=True):
    """A node whose announcements are refused, the domain, and the reason."""

    node: bytes
    domain: str
    reason: SecurityReason
    text: str  # begins with "refused: " and describes how the two nodes differ


class Refusals:
    """What one node has refused because of keys.

    Args:
        security: The domains and keys of this node.
        clock: The time in seconds.
        announce: Announces all routes of this node.
    """

    def __init__(self, security: Security, clock: Callable[[], float], announce: Callable[[], None]) -> None:
        self._security = security
        self._clock = clock
        self._announce = announce
        self._refusals: dict[tuple[bytes, str, SecurityReason], Refusal] = {}
        self._by_message: dict[MessageIdentifier, Refusal] = {}
        self._may_read = _Budget(_READ_A_SECOND, 1.0)
        self._may_announce = _Budget(1, _ANNOUNCEMENT_PERIOD)
        self._is_announcement_due = False
        self._may_log = _Budget(_LOGGED_A_MINUTE, 60.0)

    @property
    def all(self) -> tuple[Refusal, ...]:
        """Everything that was refused, the oldest first."""
        return tuple(self._refusals.values())

    def record(self, message: Message, reason: SecurityReason) -> bool:
        """Record that a control message was refused; return whether that was because of keys."""
        if reason not in _ABOUT_KEYS:
            return False
        if message.identifier == REQUEST_CLUSTER_ROUTES:
            self._is_announcement_due = True
            self.tick()
        if not self._may_read.spend(self._clock()):
            return True
        node = sender_of(message) or b""
        key = (node, message.domain, reason)
        refusal = self._refusals.get(key)
        if refusal is None:
            refusal = Refusal(node, message.domain, reason, self._text(message, node, reason))
            _put(self._refusals, key, refusal)
            if self._may_log.spend(self._clock()):
                log.warning("%s; from now on this is only counted", refusal.text)
        for identifier in _announced_messages(message):
            _put(self._by_message, identifier, refusal)
        return True

    def tick(self) -> None:
        """Announce this node to nodes that asked for routes with other keys, when that is due."""
        if self._is_announcement_due and self._may_announce.spend(self._clock()):
            self._is_announcement_due = False
            self._announce()

    def accepted(self, routes: Iterable[Route]) -> None:
        """Record that routes were accepted, so that earlier refusals no longer explain anything."""
        if self._by_message:
            for route in routes:
                if route.identifier is not None:
                    self._by_message.pop(route.identifier, None)

    def explain(self, identifier: MessageIdentifier) -> str | None:
        """Return why there is no route for a message, if that is because of keys."""
        refusal = self._by_message.get(identifier)
        if refusal is not None:
            return refusal.text
        try:
            home = self._security.domain_of(identifier.identity)
        except SecurityError:
            return f"refused: {identifier} belongs to no domain of this node ({self._domains()})"
        if signing_of(self._security, home) is None:
            return None
        # A node that is refused in the message's domain, or has no domain at all, may be the one that handles it.
        for candidate in self._refusals.values():
            if candidate.domain in (home, ""):
                return candidate.text
        return None

    def _text(self, message: Message, node: bytes, reason: SecurityReason) -> str:
        """Describe how this node and the other differ: in domains, keys, or algorithm."""
        other = f"node {printable_name(node)}" if node else "a node"
        domain = f"domain '{printable_name(message.domain)}'"
        signing = apparent_signing(message.signature)
        here = signing_of(self._security, message.domain)
        if reason is SecurityReason.UNKNOWN_DOMAIN and not message.domain:
            return f"refused: {other} is not in a domain ({signing}); this node takes: {self._domains()}"
        if reason in (SecurityReason.UNKNOWN_DOMAIN, SecurityReason.WRONG_DOMAIN) and here is None:
            keys = self._domains()
            return f"refused: no key of {domain}, in which {other} announces itself ({signing}); this node has: {keys}"
        if reason is SecurityReason.WRONG_DOMAIN:
            return f"refused: {other} announces in {domain} what belongs to another domain here"
        if reason is SecurityReason.UNSIGNED:
            return f"refused: {other} does not sign its messages in {domain}, which is {here} here"
        if reason is SecurityReason.WRONG_PROFILE:
            return f"refused: {other} has another algorithm or profile for {domain} ({signing}), which is {here} here"
        return f"refused: no key of {domain} here ({here}) made the signature of {other}: the keys differ"

    def _domains(self) -> str:
        """Return the signed domains of this node and how they are signed, as text."""
        texts = []
        for domain in self._security.domains:
            signing = signing_of(self._security, domain)
            if signing is not None:
                texts.append(f"'{domain}' ({signing})")
        return ", ".join(texts) or "no keys"


class _Budget:
    """Permits a limited number of actions in each period."""

    def __init__(self, limit: int, period: float) -> None:
        self._limit = limit
        self._period = period
        self._since = -math.inf
        self._spent = 0

    def spend(self, now: float) -> bool:
        """Return whether another action is permitted, and count it."""
        if now - self._since >= self._period:
            self._since = now
            self._spent = 0
        self._spent += 1
        return self._spent <= self._limit


def _announced_messages(message: Message) -> list[MessageIdentifier]:
    if message.identifier != REGISTER_ROUTE:
        return []
    try:
        content = read(message, RegisterExternalMessageRoute)
        contracts = (contract for route in content.routes for contract in route.message_contracts)
        return [identifier_of(contract) for contract in islice(contracts, _REMEMBERED)]
    except PayloadError:
        return []


def _put(refusals: dict[_Key, Refusal], key: _Key, refusal: Refusal) -> None:
    refusals.pop(key, None)
    if len(refusals) >= _REMEMBERED:
        oldest = next(iter(refusals))
        del refusals[oldest]
    refusals[key] = refusal
