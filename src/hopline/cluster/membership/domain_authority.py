"""Which domain may change what this node knows about another node.

Theory of operation. A node is announced in every domain that it is a member of, because its hubs accept replies of any
domain. So an announcement in some domain proves little: any member of that domain can announce any node, and where the
domain is unsigned, so can any process that reaches the network. What an announcement may change depends on the *rank*
of its domain:

* A signed domain outranks every unsigned one. Among signed domains, and among unsigned ones, the domain that is
  configured first ranks highest.
* A node is bound to the highest-ranking domain that has announced it. Only a domain of at least that rank may change
  the node's address and heartbeat interval, or withdraw its hubs.
* Once a signed domain has announced a node, unsigned domains cannot change anything about it: they cannot move it, add
  routes or remove any. Everything that unsigned domains announced before is dropped at that moment, because it may have
  been an attempt to be first.
* A signed domain of lower rank may still add and remove its own routes.

Every domain has its own slots for the nodes bound to it, so that a flood of announcements in one domain leaves the
others alone (see `node_slots`).
"""

from __future__ import annotations

import msgspec

from hopline.cluster.membership.domain_rules import DomainRules, Rank
from hopline.cluster.membership.node_slots import NodeSlots


class Location(msgspec.Struct, frozen=True):
    """Where a node receives messages, where it publishes heartbeats, and how often (seconds)."""

    uri: str
    health_uri: str
    interval: float


class _KnownNode(msgspec.Struct):
    location: Location
    ranks: dict[str, Rank]  # of the domains that have announced the node
    domain: str  # the strongest of them, which the node is bound to

    @property
    def rank(self) -> Rank:
        return self.ranks[self.domain]


class DomainAuthority:
    """Remembers for every node its location and the domains that have announced it."""

    def __init__(self, rules: DomainRules, slots: int, slots_without_contact: int) -> None:
        self._rules = rules
        self._nodes: dict[bytes, _KnownNode] = {}
        self._slots = {domain: NodeSlots(slots, slots_without_contact) for domain in rules.domains}

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    # -- permissions ---------------------------------------------------------------------------------------------------

    def location_of(self, node: bytes) -> Location | None:
        """Return where a node is; None if it is unknown."""
        known = self._nodes.get(node)
        if known is None:
            return None
        return known.location

    def domains_of(self, node: bytes) -> tuple[str, ...]:
        """Return the domains that have announced a node, the strongest first; none if it is unknown."""
        known = self._nodes.get(node)
        if known is None:
            return ()
        return tuple(sorted(known.ranks, key=known.ranks.__getitem__))

    def is_announced_in(self, domain: str, node: bytes) -> bool:
        """Return whether a domain has announced a node."""
        known = self._nodes.get(node)
        if known is None:
            return False
        return self._rules.configured(domain) in known.ranks

    def may_add(self, node: bytes, rank: Rank) -> bool:
        """Return whether a domain of this rank may add routes to a node, or remove its own."""
        is_unsigned, _ = rank
        if is_unsigned:
            return not self._is_bound_to_signed(node)
        return True

    def may_change(self, node: bytes, rank: Rank) -> bool:
        """Return whether a domain of this rank may change the location of a node, and withdraw its hubs."""
        known = self._nodes.get(node)
        return known is None or rank <= known.rank

    def outranks(self, node: bytes, rank: Rank, location: Location) -> bool:
        """Return whether what weaker domains announced of a node must be dropped before this announcement counts."""
        known = self._nodes.get(node)
        if known is None or rank >= known.rank:
            return False
        has_moved = location != known.location
        return has_moved or not self._is_bound_to_signed(node)

    def _is_bound_to_signed(self, node: bytes) -> bool:
        known = self._nodes.get(node)
        if known is None:
            return False
        is_unsigned, _ = known.rank
        return not is_unsigned

    # -- slots ---------------------------------------------------------------------------------------------------------

    def has_slot(self, domain: str) -> bool:
        """Return whether one more node may be bound to a domain."""
        return self._slots[self._rules.configured(domain)].has_free

    def replaceable(self, domain: str) -> bytes | None:
        """Return the node of a domain that has to make way for another one, if one has to."""
        return self._slots[self._rules.configured(domain)].replaceable()

    def settle(self, node: bytes) -> None:
        """Record that a node has announced itself again in a later round of requests."""
        known = self._nodes.get(node)
        if known is not None:
            self._slots[known.domain].settle(node)

    def record_contact(self, node: bytes) -> None:
        """Record that this node sends to another one."""
        known = self._nodes.get(node)
        if known is not None:
            self._slots[known.domain].record_contact(node)

    # -- announcements -------------------------------------------------------------------------------------------------

    def record(self, node: bytes, domain: str, location: Location) -> None:
        """Record that a domain has announced a node at a location."""
        rank = self._rules.rank(domain)
        domain = self._rules.configured(domain)
        known = self._nodes.get(node)
        if known is None:
            self._nodes[node] = _KnownNode(
                location=location,
                ranks={domain: rank},
                domain=domain,
            )
            self._slots[domain].add(node)
            return
        known.location = location
        known.ranks[domain] = rank
        self._bind_to_strongest(node, known)

    def withdraw(self, node: bytes, domain: str) -> bool:
        """Record that a domain has withdrawn a node; return whether another domain still announces it."""
        domain = self._rules.configured(domain)
        known = self._nodes[node]
        if known.ranks.keys() == {domain}:
            self.forget(node)
            return False
        known.ranks.pop(domain, None)
        self._bind_to_strongest(node, known)
        return True

    def forget(self, node: bytes) -> None:
        """Remove a node."""
        known = self._nodes.pop(node, None)
        if known is not None:
            self._slots[known.domain].remove(node)

    def _bind_to_strongest(self, node: bytes, known: _KnownNode) -> None:
        rank_of = known.ranks.__getitem__
        strongest = min(known.ranks, key=rank_of)
        weaker = known.domain
        if strongest == weaker:
            return
        standing = self._slots[weaker].remove(node)
        known.domain = strongest
        self._slots[strongest].add(node, standing)
