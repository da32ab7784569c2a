"""Which domains may announce which routes, and how much each domain counts.

A domain is *signed* if its announcements carry signatures. Routes are announced and looked for as follows:

* A hub accepts replies of any domain, so it is announced in every domain of its node.
* A message is announced in the domain that it belongs to, its home.
* A message whose home is unsigned is announced in the signed domains of its node as well. Nodes that know this one from
  a signed domain accept nothing about it from an unsigned one (see `domain_authority`).
"""

from __future__ import annotations

from hopline.cluster.messages.service import REGISTER_ROUTE
from hopline.message import MessageIdentifier, get_logger
from hopline.routing import Route
from hopline.security import Security, SecurityError

log = get_logger("hopline.cluster")

Rank = tuple[bool, int]
"""The precedence of a domain, the smallest first: whether it is unsigned, then its position among the domains."""

_ANNOUNCEMENT = REGISTER_ROUTE.identity


class DomainRules:
    """The rules that follow from the configured domains of one node. They do not change while it runs."""

    def __init__(self, security: Security) -> None:
        self._security = security

    def rank(self, domain: str, identity: bytes = _ANNOUNCEMENT) -> Rank:
        """Return the rank of a control message with that identity in a domain."""
        is_unsigned = not self._security.signs(domain, identity)
        position = self._security.domains.index(self.configured(domain))
        return is_unsigned, position

    def configured(self, domain: str) -> str:
        """Return the domain itself, or the first domain of this node for a label that is not configured.

        Only a node without security accepts labels that are not configured.
        """
        domains = self._security.domains
        return domain if domain in domains else domains[0]

    def is_configured(self, domain: str) -> bool:
        """Return whether a domain is one of this node's."""
        return domain in self._security.domains

    def is_signed(self, domain: str) -> bool:
        """Return whether announcements are signed in a domain."""
        return self._security.signs(domain, _ANNOUNCEMENT)

    @property
    def domains(self) -> list[str]:
        """The domains of this node, the strongest first. Messages for several domains are published in this order."""
        return sorted(self._security.domains, key=self.rank)

    @property
    def signed(self) -> list[str]:
        """The signed domains of this node, the strongest first."""
        return [domain for domain in self.domains if self.is_signed(domain)]

    def domains_of_message(self, identifier: MessageIdentifier) -> tuple[str, ...]:
        """Return the domains in which a message is announced and looked for, the strongest first.

        Raises:
            SecurityError: The message belongs to no domain of this node.
        """
        home = self._security.domain_of(identifier.identity)
        if self.is_signed(home):
            return (home,)
        return (*self.signed, home)

    def domains_of_route(self, route: Route) -> tuple[str, ...]:
        """Return the domains in which a route is announced, the strongest first; none if it belongs to no domain."""
        if route.identifier is None:
            return tuple(self.domains)
        try:
            return self.domains_of_message(route.identifier)
        except SecurityError:
            log.warning("%s is not announced: it belongs to no domain", route.identifier)
            return ()

    def may_announce(self, domain: str, route: Route) -> bool:
        """Return whether a route may be announced or withdrawn in a domain."""
        if route.identifier is None:
            return True
        try:
            home = self._security.domain_of(route.identifier.identity)
            is_for_unsigned_home = self.is_signed(domain) and not self.is_signed(home)
        except SecurityError:
            return False
        return home == domain or is_for_unsigned_home

    def is_home(self, domain: str, identifier: MessageIdentifier) -> bool:
        """Return whether a message belongs to a domain."""
        try:
            return self._security.domain_of(identifier.identity) == domain
        except SecurityError:
            return False
