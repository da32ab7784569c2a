"""What this node answers to other nodes that ask for routes.

An answer goes directly to the node that asked. The reference broadcasts it, so that a question of one of N nodes makes
every node send all its routes to all others. A direct answer is understood by every generation: nodes do not
distinguish by which way an announcement arrives. An answer is postponed while too many links are connecting, and sent
again when it did not arrive (`OwedAnswers`).

A node that asks and is not known here has announced itself in vain, or was removed because it could not be reached for
a while. If it is still unknown a moment later, it is asked for its routes in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hopline.cluster.membership.advertiser import RouteAdvertiser
from hopline.cluster.membership.control_sender import ControlSender
from hopline.cluster.membership.domain_authority import DomainAuthority
from hopline.cluster.membership.domain_rules import DomainRules
from hopline.cluster.membership.member import Member, Traffic
from hopline.cluster.membership.owed_answers import OwedAnswer, OwedAnswers
from hopline.cluster.membership.ports import NetworkPort
from hopline.cluster.membership.route_queries import RouteQueries
from hopline.cluster.membership.route_requests import Requester, RouteRequests, Verdict
from hopline.cluster.messages.service import REQUEST_CLUSTER_ROUTES, identifier_of
from hopline.cluster.messages.service_pb2 import DiscoverMessageRoute, RequestClusterMessageRoutes
from hopline.cluster.settings import ClusterSettings
from hopline.message import Message, ReceiverKind, receiver_kind
from hopline.routing import Route
from hopline.security import SecurityError, SecurityReason

_PATIENCE = 2.0  # seconds for the announcement of a node that asks, until it is asked itself


class RouteResponder:
    """Sends this node's routes to the nodes that need them."""

    def __init__(
        self,
        me: Member,
        settings: ClusterSettings,
        rules: DomainRules,
        authority: DomainAuthority,
        advertiser: RouteAdvertiser,
        sender: ControlSender,
        network: NetworkPort,
        traffic: Traffic,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._me = me
        self._rules = rules
        self._authority = authority
        self._advertiser = advertiser
        self._sender = sender
        self._network = network
        self._traffic = traffic
        self._clock = clock
        self._requests = RouteRequests(settings.known_nodes)
        self._owed = OwedAnswers(settings.known_nodes, random)
        self._strangers: RouteQueries[Requester] = RouteQueries(_PATIENCE, settings.discovery_searches)

    def answer_request(self, message: Message, request: RequestClusterMessageRoutes) -> None:
        """Answer a request for all routes.

        Raises:
            SecurityError: The request is in a domain that is not configured here, which a node without keys
                receives in a signed network.
        """
        if not self._rules.is_configured(message.domain):
            raise SecurityError(SecurityReason.WRONG_DOMAIN, message.domain, message.identity)
        node, uri = request.requestor_node_identity, request.requestor_uri
        if node not in self._authority and self._is_address_of_another(node, uri):
            self._strangers.begin((node, uri, message.domain), self._clock())
        verdict = self._requests.ask((node, uri, message.domain), self._clock())
        if verdict is Verdict.ANSWER:
            self._answer(message, node, uri)
        elif verdict is Verdict.TOO_OFTEN:
            self._traffic.refuse("asked too often")
            self._owed.lost(node, message.domain, self._clock())

    def answer_discovery(self, message: Message, query: DiscoverMessageRoute) -> None:
        """Answer a query for one hub, or for the actors that handle one message."""
        if receiver_kind(query.receiver_identity) is ReceiverKind.HUB:
            routes = [route for route in self._advertiser.advertised() if route.receiver == query.receiver_identity]
        else:
            routes = self._advertiser.advertised(identifier_of(query.message_contract))
        self._answer(message, query.requestor_node_identity, query.requestor_uri, routes)  # at once: a message waits

    def greet(self, announcement: Message, node: bytes, uri: str) -> None:
        """Send all routes to a new node before it asks: its first requests may need to be answered to hubs here."""
        if self._requests.greet((node, uri, announcement.domain), self._clock()):
            self._answer(announcement, node, uri)

    def exchange(self, node: bytes, uri: str) -> None:
        """Send all routes to a node that was lost, and ask for its own: it may have lost this one as well."""
        for domain in self._rules.domains:
            self._owed.postpone(OwedAnswer(node, uri, domain), self._clock())
        self.tick(self._clock())

    # -- answers that were lost ----------------------------------------------------------------------------------------

    def lost(self, node: bytes, domain: str | None = None) -> None:
        """Note that what was sent to a node did not arrive, or may not have: in a domain, or in any."""
        for each in self._rules.domains if domain is None else [domain]:
            self._owed.lost(node, each, self._clock())

    def forget(self, node: bytes, domain: str) -> None:
        """Send nothing again to a node that has left a domain."""
        self._owed.forget(node, domain)

    def tick(self, now: float) -> None:
        """Send the answers that are due, and ask the nodes that asked and are still not known."""
        for node, uri, domain in self._strangers.due(now):
            if node not in self._authority:
                self._owed.postpone(OwedAnswer(node, uri, domain), now)
        full = set()
        for answer in self._owed.due(now):
            node, uri, domain = answer
            if domain in full:
                continue
            if not self._network.may_answer(node, domain):
                full.add(domain)
                continue
            self._owed.sent(answer, now)
            if self._is_at(node, uri):
                self._send(answer, self._in_domain(self._advertiser.advertised(), domain))
                self._ask_if_unknown(answer)

    # -- introductions -------------------------------------------------------------------------------------------------

    def introduction(self, node: bytes) -> list[Message]:
        """Return the messages that must precede anything else on a new link: an announcement of this node's hubs.

        The reference drops a reply to a node that it does not know, and a new node of the reference asks for routes
        only seconds after it has joined.
        """
        hubs = [route for route in self._advertiser.advertised() if route.identifier is None]
        if not hubs:
            return []
        content = self._advertiser.registration(hubs)
        domains = self._rules.domains
        if node in self._authority:
            domains = [domain for domain in domains if self._authority.is_announced_in(domain, node)]
        return [self._sender.signed_announcement(content, domain) for domain in domains]

    def _answer(self, request: Message, node: bytes, uri: str, routes: list[Route] | None = None) -> None:
        """Send routes to a node, in the domain of its request; all routes as soon as there is room for them."""
        if node == self._me.identity:
            return
        if not self._is_address_of_another(node, uri):
            self._traffic.refuse("malformed")
            return
        if not self._is_at(node, uri):
            self._traffic.refuse("wrong address")
            return
        domain = request.domain
        in_domain = self._in_domain(self._advertiser.advertised() if routes is None else routes, domain)
        if not in_domain:
            return
        self._network.note_written_format(node, request.wire_format)
        answer = OwedAnswer(node, uri, domain)
        if routes is None and not self._network.may_answer(node, domain):
            self._owed.postpone(answer, self._clock())
            return
        self._owed.sent(answer, self._clock())
        self._send(answer, in_domain)

    def _is_address_of_another(self, node: bytes, uri: str) -> bool:
        return bool(node) and node != self._me.identity and self._network.is_address(uri)

    def _is_at(self, node: bytes, uri: str) -> bool:
        """Return whether a node may be at an address: answering elsewhere would redirect the link to that node."""
        location = self._authority.location_of(node)
        return location is None or location.uri == uri

    def _send(self, answer: OwedAnswer, routes: list[Route]) -> None:
        if routes:
            content = self._advertiser.registration(routes)
            has_hubs = any(route.identifier is None for route in routes)
            self._sender.send_announcement(*answer[:2], content, answer.domain, introduces=has_hubs)

    def _ask_if_unknown(self, answer: OwedAnswer) -> None:
        node, uri, domain = answer
        if node not in self._authority:
            me = self._me
            question = RequestClusterMessageRoutes(requestor_uri=me.uri, requestor_node_identity=me.identity)
            self._sender.send(node, uri, REQUEST_CLUSTER_ROUTES, question, domain)

    def _in_domain(self, routes: list[Route], domain: str) -> list[Route]:
        return [route for route in routes if domain in self._rules.domains_of_route(route)]
