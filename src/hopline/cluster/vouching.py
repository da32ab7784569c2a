"""Which domain decides what is known of a node.

Theory of operation. A node is announced in every domain that it is a member of, because its hubs take answers of any
domain. So "somebody of this domain has announced the node" proves little: a member of another domain, or a stranger
where a domain is unsigned, can announce any node too. What such an announcement may do depends on the *rank* of its
domain:

* A signed domain outranks every unsigned one. Among signed domains the one that is defined first is the strongest; so
  it is among unsigned ones.
* A node is bound to the strongest domain that has vouched for it. Only a domain of at least that rank may change where
  the node is and how often it gives signs of life, or withdraw its hubs.
* Once a signed domain has vouched for a node, unsigned domains have no say in it at all: they cannot move it, add
  routes to it or remove any. Whatever they said before is dropped at that moment, for it may have been an attempt to
  be the first.
* A weaker signed domain may still add and remove the routes that belong to it, which is what its members are for.

Every domain has its own slots for the nodes that are bound to it: a flood in one domain leaves the others alone. Where
all slots are taken, a newcomer replaces the node that has waited longest without any sign of life. Of nodes without one
only a few are kept at a time: each costs a connection to the address that it announced, where perhaps nobody is.
"""

from __future__ import annotations

import msgspec

from hopline.cluster.service import REGISTER_ROUTE
from hopline.security import Security

Rank = tuple[bool, int]
"""How much a domain counts, the smallest most: whether it is unsigned, and its position among the domains."""

_FOR_ANNOUNCEMENTS = REGISTER_ROUTE.identity


class Location(msgspec.Struct, frozen=True):
    """Where a node is reached, where it gives signs of life, and how often (seconds)."""

    uri: str
    health_uri: str
    interval: float


class _Vouched(msgspec.Struct):
    location: Location
    ranks: dict[str, Rank]  # of the domains that vouch for the node
    domain: str  # the strongest of them, which the node is bound to


class Vouching:
    """Remembers for every node where it is, and which domains say so."""

    def __init__(self, security: Security, slots: int, unheard_slots: int) -> None:
        self._security = security
        self._slots = slots
        self._unheard_slots = unheard_slots
        self._nodes: dict[bytes, _Vouched] = {}
        self._bound: dict[str, set[bytes]] = {}
        self._unheard: dict[str, dict[bytes, None]] = {}  # bound nodes without a sign of life, in order of arrival

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    # -- domains -------------------------------------------------------------------------------------------------------

    def rank(self, domain: str, identity: bytes = _FOR_ANNOUNCEMENTS) -> Rank:
        """Return the rank of a control message of that identity in a domain."""
        return (not self._security.signs(domain, identity), self._security.domains.index(self._defined(domain)))

    def _defined(self, domain: str) -> str:
        """Return the domain, or the first one for a label that is not defined: without security any label comes in."""
        domains = self._security.domains
        return domain if domain in domains else domains[0]

    @property
    def domains(self) -> list[str]:
        """The domains of this node, the strongest first: in this order it speaks in them."""
        return sorted(self._security.domains, key=self.rank)

    @property
    def signed(self) -> list[str]:
        """The domains in which announcements are signed, the strongest first."""
        return [domain for domain in self.domains if self.is_signed(domain)]

    def is_signed(self, domain: str) -> bool:
        """Return whether announcements are signed in a domain."""
        return self._security.signs(domain, _FOR_ANNOUNCEMENTS)

    # -- who has a say -------------------------------------------------------------------------------------------------

    def location_of(self, node: bytes) -> Location | None:
        """Return where a node is, if somebody has vouched for it."""
        vouched = self._nodes.get(node)
        return None if vouched is None else vouched.location

    def vouches(self, domain: str, node: bytes) -> bool:
        """Return whether a domain has vouched for a node."""
        vouched = self._nodes.get(node)
        return vouched is not None and self._defined(domain) in vouched.ranks

    def may_add(self, node: bytes, rank: Rank) -> bool:
        """Return whether a domain of this rank may add routes to a node, or remove its own."""
        is_unsigned, _ = rank
        return not is_unsigned or not self._is_bound_to_signed(node)

    def may_change(self, node: bytes, rank: Rank) -> bool:
        """Return whether a domain of this rank may say where a node is, and withdraw its hubs."""
        vouched = self._nodes.get(node)
        return vouched is None or rank <= vouched.ranks[vouched.domain]

    def outranks(self, node: bytes, rank: Rank, location: Location) -> bool:
        """Return whether what weaker domains said of a node has to be dropped before this one is believed."""
        vouched = self._nodes.get(node)
        if vouched is None or rank >= vouched.ranks[vouched.domain]:
            return False
        return location != vouched.location or not self._is_bound_to_signed(node)

    def _is_bound_to_signed(self, node: bytes) -> bool:
        vouched = self._nodes.get(node)
        if vouched is None:
            return False
        is_unsigned, _ = vouched.ranks[vouched.domain]
        return not is_unsigned

    # -- slots ---------------------------------------------------------------------------------------------------------

    def has_slot(self, domain: str) -> bool:
        """Return whether one more node may be bound to a domain."""
        domain = self._defined(domain)
        is_full = len(self._bound.get(domain, ())) >= self._slots
        return not is_full and len(self._unheard.get(domain, ())) < self._unheard_slots

    def longest_unheard(self, domain: str) -> bytes | None:
        """Return the node of a domain that has waited longest without a sign of life, if there is one."""
        return next(iter(self._unheard.get(self._defined(domain), ())), None)

    def heard(self, node: bytes) -> None:
        """Note a sign of life of a node."""
        vouched = self._nodes.get(node)
        if vouched is not None:
            self._unheard[vouched.domain].pop(node, None)

    # -- learning and forgetting ---------------------------------------------------------------------------------------

    def vouch(self, node: bytes, domain: str, rank: Rank, location: Location) -> None:
        """Note that a domain vouches for a node at a location."""
        domain = self._defined(domain)
        vouched = self._nodes.get(node)
        if vouched is None:
            self._nodes[node] = _Vouched(location, {domain: rank}, domain)
            self._bind(node, domain, is_heard=False)
        else:
            vouched.location = location
            vouched.ranks[domain] = rank
            self._bind_to_strongest(node, vouched)

    def withdraw(self, node: bytes, domain: str) -> bool:
        """Note that a domain no longer vouches for a node, and return whether another one still does."""
        domain = self._defined(domain)
        vouched = self._nodes[node]
        if vouched.ranks.keys() == {domain}:
            self.forget(node)
            return False
        vouched.ranks.pop(domain, None)
        self._bind_to_strongest(node, vouched)
        return True

    def forget(self, node: bytes) -> None:
        """Forget a node."""
        vouched = self._nodes.pop(node, None)
        if vouched is not None:
            self._unbind(node, vouched.domain)

    def _bind_to_strongest(self, node: bytes, vouched: _Vouched) -> None:
        strongest = min(vouched.ranks, key=vouched.ranks.__getitem__)
        if strongest != vouched.domain:
            is_heard = node not in self._unheard[vouched.domain]
            self._unbind(node, vouched.domain)
            vouched.domain = strongest
            self._bind(node, strongest, is_heard=is_heard)

    def _bind(self, node: bytes, domain: str, *, is_heard: bool) -> None:
        self._bound.setdefault(domain, set()).add(node)
        unheard = self._unheard.setdefault(domain, {})
        if not is_heard:
            unheard[node] = None

    def _unbind(self, node: bytes, domain: str) -> None:
        self._bound[domain].discard(node)
        self._unheard[domain].pop(node, None)
