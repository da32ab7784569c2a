"""Announcements that were refused because of their keys, in words for those who set the keys up.

Keys that are missing or wrong look the same everywhere else: a caller waits, and hears that nobody handles its message.
So a node remembers, for a bounded number of messages, whose announcement of them it refused and why. That explains the
end of a message without a route, and one line of the log for each node, domain and reason says how both sides differ.

A node that asks with keys that are not ours gets no answer. So that it can tell this from an empty network, it hears an
announcement instead, through the rendezvous server, which it cannot verify and refuses in its turn. That is broadcast
at most once a second, however many ask; whoever asks within that second hears the next one, while it still listens.

What a refused message says is not verified: nothing but texts ever depends on it. Reading it costs time, which a
stranger must not get for nothing, so only a few are read in a second; the others are counted, as all are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

import msgspec

from hopline.cluster.service import REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES, identifier_of, read, said_by
from hopline.cluster.service_pb2 import RegisterExternalMessageRoute
from hopline.message import Message, MessageIdentifier, PayloadError, get_logger, printable_name
from hopline.routing import Route
from hopline.security import Security, SecurityError, SecurityReason
from hopline.security.signing import apparent_signing, signing_of

log = get_logger("hopline.cluster")

_REMEMBERED = 1_000  # messages whose announcements were refused, and as many refusals
_READ_A_SECOND = 20  # refused messages
_ANNOUNCEMENT_PERIOD = 1.0  # seconds between two announcements for askers that were refused
_LOGGED_A_MINUTE = 20  # refusals: a stranger can have any number of names
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
    """Whose announcements are refused, in which domain, and why."""

    node: bytes
    domain: str
    reason: SecurityReason
    text: str  # begins with "refused: ", and says how the two nodes differ


class Refusals:
    """What one node refused because of keys. `announce` lets everybody hear what lives on this node."""

    def __init__(self, security: Security, clock: Callable[[], float], announce: Callable[[], None]) -> None:
        self._security = security
        self._clock = clock
        self._announce = announce
        self._refusals: dict[tuple[bytes, str, SecurityReason], Refusal] = {}
        self._by_message: dict[MessageIdentifier, Refusal] = {}
        self._may_read = _Budget(_READ_A_SECOND, 1.0)
        self._may_announce = _Budget(1, _ANNOUNCEMENT_PERIOD)
        self._owes_announcement = False
        self._may_log = _Budget(_LOGGED_A_MINUTE, 60.0)

    @property
    def all(self) -> tuple[Refusal, ...]:
        """What was refused, the oldest first."""
        return tuple(self._refusals.values())

    def note(self, message: Message, reason: SecurityReason) -> bool:
        """Note that a message about routes was refused, and return whether that was because of keys."""
        if reason not in _ABOUT_KEYS:
            return False
        if message.identifier == REQUEST_CLUSTER_ROUTES:
            self._owes_announcement = True
            self.tick()
        if not self._may_read.spend(self._clock()):
            return True
        node = said_by(message) or b""
        key = (node, message.domain, reason)
        refusal = self._refusals.get(key)
        if refusal is None:
            refusal = Refusal(node, message.domain, reason, self._text(message, node, reason))
            _put(self._refusals, key, refusal)
            if self._may_log.spend(self._clock()):
                log.warning("%s; from now on this is only counted", refusal.text)
        for identifier in _announced(message):
            _put(self._by_message, identifier, refusal)
        return True

    def tick(self) -> None:
        """Announce this node to those who asked with keys that are not ours, if it is time to."""
        if self._owes_announcement and self._may_announce.spend(self._clock()):
            self._owes_announcement = False
            self._announce()

    def accepted(self, routes: Iterable[Route]) -> None:
        """Note that routes were accepted after all."""
        if self._by_message:
            for route in routes:
                if route.identifier is not None:
                    self._by_message.pop(route.identifier, None)

    def explain(self, identifier: MessageIdentifier) -> str | None:
        """Return why no route to a message is known, if that is because of keys."""
        refusal = self._by_message.get(identifier)
        if refusal is not None:
            return refusal.text
        try:
            home = self._security.domain_of(identifier.identity)
        except SecurityError:
            return f"refused: {identifier} belongs to no domain of this node ({self._domains()})"
        if signing_of(self._security, home) is None:
            return None
        # Whoever is refused in the message's domain, or is in none at all, may be the one that handles it.
        return next((one.text for one in self._refusals.values() if one.domain in (home, "")), None)

    def _text(self, message: Message, node: bytes, reason: SecurityReason) -> str:
        """Say how this node and the other differ: which domain, which keys, which algorithm."""
        other = f"node {printable_name(node)}" if node else "a node"
        domain = f"domain '{printable_name(message.domain)}'"
        has = apparent_signing(message.signature)
        here = signing_of(self._security, message.domain)
        if reason is SecurityReason.UNKNOWN_DOMAIN and not message.domain:
            return f"refused: {other} is not in a domain ({has}); this node takes: {self._domains()}"
        if reason in (SecurityReason.UNKNOWN_DOMAIN, SecurityReason.WRONG_DOMAIN) and here is None:
            return f"refused: no key of {domain}, in which {other} speaks ({has}); this node has: {self._domains()}"
        if reason is SecurityReason.WRONG_DOMAIN:
            return f"refused: {other} announces in {domain} what belongs to another domain here"
        if reason is SecurityReason.UNSIGNED:
            return f"refused: {other} does not sign what it says in {domain}, which is {here} here"
        if reason is SecurityReason.WRONG_PROFILE:
            return f"refused: {other} has another algorithm or profile for {domain} ({has}), which is {here} here"
        return f"refused: no key of {domain} here ({here}) made the signature of {other}: the keys differ"

    def _domains(self) -> str:
        """Name the domains of this node, with how they are signed."""
        named = [(domain, signing_of(self._security, domain)) for domain in self._security.domains]
        return ", ".join(f"'{domain}' ({signing})" for domain, signing in named if signing is not None) or "no keys"


class _Budget:
    """So much in a period, and no more."""

    def __init__(self, most: int, period: float) -> None:
        self._most = most
        self._period = period
        self._since = -math.inf
        self._spent = 0

    def spend(self, now: float) -> bool:
        """Return whether there is something left, and take one."""
        if now - self._since >= self._period:
            self._since, self._spent = now, 0
        self._spent += 1
        return self._spent <= self._most


def _announced(message: Message) -> list[MessageIdentifier]:
    if message.identifier != REGISTER_ROUTE:
        return []
    try:
        content = read(message, RegisterExternalMessageRoute)
        contracts = (contract for route in content.routes for contract in route.message_contracts)
        return [identifier_of(contract) for contract in islice(contracts, _REMEMBERED)]
    except PayloadError:
        return []


def _put(known: dict[_Key, Refusal], key: _Key, value: Refusal) -> None:
    known.pop(key, None)
    if len(known) >= _REMEMBERED:
        del known[next(iter(known))]
    known[key] = value
