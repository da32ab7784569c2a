"""What this node answers to other nodes that ask for routes.

An answer goes directly to the node that asked. The reference broadcasts it, so that a question of one of N nodes makes
every node send all its routes to all others. A direct answer is understood by every generation: nodes do not
distinguish by which way an announcement arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from hopline.cluster.membership.advertiser import RouteAdvertiser
from hopline.cluster.membership.control_sender import ControlSender
from hopline.cluster.membership.domain_authority import DomainAuthority
from hopline.cluster.membership.domain_rules import DomainRules
from hopline.cluster.membership.member import Member, Traffic
from hopline.cluster.membership.ports import NetworkPort
from hopline.cluster.membership.route_requests import RouteRequests, Verdict
from hopline.cluster.messages.service import REQUEST_CLUSTER_ROUTES, identifier_of
from hopline.cluster.messages.service_pb2 import DiscoverMessageRoute, RequestClusterMessageRoutes
from hopline.message import Message, ReceiverKind, receiver_kind
from hopline.routing import Route
from hopline.security import SecurityError, SecurityReason


class RouteResponder:
    """Sends this node's routes to the nodes that need them."""

    def __init__(
        self,
        me: Member,
        capacity: int,
        rules: DomainRules,
        authority: DomainAuthority,
        advertiser: RouteAdvertiser,
        sender: ControlSender,
        network: NetworkPort,
        traffic: Traffic,
        clock: Callable[[], float],
    ) -> None:
        self._me = me
        self._rules = rules
        self._authority = authority
        self._advertiser = advertiser
        self._sender = sender
        self._network = network
        self._traffic = traffic
        self._clock = clock
        self._requests = RouteRequests(capacity)

    def answer_request(self, message: Message, request: RequestClusterMessageRoutes) -> None:
        """Answer a request for all routes.

        Raises:
            SecurityError: The request is in a domain that is not configured here, which a node without keys
                receives in a signed network.
        """
        if not self._rules.is_configured(message.domain):
            raise SecurityError(SecurityReason.WRONG_DOMAIN, message.domain, message.identity)
        node, uri = request.requestor_node_identity, request.requestor_uri
        verdict = self._requests.ask((node, uri, message.domain), self._clock())
        if verdict is Verdict.ANSWER:
            self._answer(message, node, uri, self._advertiser.advertised())
        elif verdict is Verdict.TOO_OFTEN:
            self._traffic.refuse("asked too often")

    def answer_discovery(self, message: Message, query: DiscoverMessageRoute) -> None:
        """Answer a query for one hub, or for the actors that handle one message."""
        if receiver_kind(query.receiver_identity) is ReceiverKind.HUB:
            routes = [route for route in self._advertiser.advertised() if route.receiver == query.receiver_identity]
        else:
            routes = self._advertiser.advertised(identifier_of(query.message_contract))
        self._answer(message, query.requestor_node_identity, query.requestor_uri, routes)

    def greet(self, announcement: Message, node: bytes, uri: str) -> None:
        """Send all routes to a new node before it asks: its first requests may need to be answered to hubs here."""
        if self._requests.greet((node, uri, announcement.domain), self._clock()):
            self._answer(announcement, node, uri, self._advertiser.advertised())

    def exchange(self, node: bytes, uri: str) -> None:
        """Send all routes to a node that was lost, and ask for its own: it may have lost this one as well."""
        question = RequestClusterMessageRoutes(requestor_uri=self._me.uri, requestor_node_identity=self._me.identity)
        for domain in self._rules.domains:
            content = self._advertiser.registration(self._in_domain(self._advertiser.advertised(), domain))
            if content.routes:
                self._sender.send_announcement(node, uri, content, domain, introduces=True)
            self._sender.send(node, uri, REQUEST_CLUSTER_ROUTES, question, domain)

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

    def _answer(self, request: Message, node: bytes, uri: str, routes: list[Route]) -> None:
        """Send routes to a node, in the domain of its request."""
        if node == self._me.identity:
            return
        if not (node and self._network.is_address(uri)):
            self._traffic.refuse("malformed")
            return
        location = self._authority.location_of(node)
        if location is not None and location.uri != uri:  # answering there would redirect the link to that node
            self._traffic.refuse("wrong address")
            return
        domain = request.domain
        content = self._advertiser.registration(self._in_domain(routes, domain))
        if content.routes:
            self._network.note_written_format(node, request.wire_format)
            has_hubs = any(route.identifier is None for route in routes)
            self._sender.send_announcement(node, uri, content, domain, introduces=has_hubs)

    def _in_domain(self, routes: list[Route], domain: str) -> list[Route]:
        return [route for route in routes if domain in self._rules.domains_of_route(route)]
