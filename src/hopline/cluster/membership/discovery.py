"""What this node asks other nodes: for all their routes now and then, and for a single route when one is missing.

Requests for all routes repair whatever was lost: publish/subscribe loses messages while nodes join or are cut off. They
are spread over time by chance, so that nodes that joined together do not ask together:

* A node asks at once when it joins for the first time, and once more after a random delay, because answers may be lost
  while everything starts.
* A node that was away for so long, or lost others out of sight, that it may have missed something asks after a random
  delay, and not more often than the longest such delay: on a busy machine every node may lose and find its server again
  and again. One that was away for a moment does not ask: what changed meanwhile is announced twice (`announcements`).
* Otherwise a node asks once in `routes_period`, give or take a tenth.

A node that does not answer in several rounds is removed. Requests that follow each other sooner than half of
`routes_period` belong to one round: where all nodes are busy, answers take their time, and nobody is gone because of
that.

Every question is answered by every node. So that a node has not more to answer the more nodes there are, these times
hold for `full_rate_nodes` known nodes, and are as much longer as there are more.
"""

from __future__ import annotations

import math
from random import Random

from hopline.cluster.membership.control_sender import ControlSender
from hopline.cluster.membership.domain_rules import DomainRules
from hopline.cluster.membership.member import Member
from hopline.cluster.membership.peer_registry import PeerRegistry
from hopline.cluster.membership.route_queries import RouteQueries
from hopline.cluster.messages.service import DISCOVER_ROUTE, REQUEST_CLUSTER_ROUTES, contract_of
from hopline.cluster.messages.service_pb2 import DiscoverMessageRoute, RequestClusterMessageRoutes
from hopline.cluster.settings import ClusterSettings
from hopline.message import ArgumentError, MessageIdentifier, ReceiverKind, get_logger, receiver_kind
from hopline.security import SecurityError

log = get_logger("hopline.cluster")

_SHORTEST_ROUND = 0.5  # as a part of the usual time between two requests


class RouteDiscovery:
    """Decides when to ask for routes, and publishes the questions."""

    def __init__(
        self,
        me: Member,
        settings: ClusterSettings,
        rules: DomainRules,
        peers: PeerRegistry,
        sender: ControlSender,
        random: Random,
    ) -> None:
        self._me = me
        self._settings = settings
        self._rules = rules
        self._peers = peers
        self._sender = sender
        self._random = random
        self._has_joined = False
        self._requested_at = -math.inf
        self._round_at = -math.inf  # when the latest round of answers began
        self._waits_since = 0.0
        self._delay = math.inf  # from then to the next request, at full rate
        self._queries: RouteQueries[tuple[bytes, MessageIdentifier]] = RouteQueries(
            settings.discovery_period, settings.discovery_searches
        )

    def joined(self, now: float) -> None:
        """Ask for all routes, at once or later: this node has just joined, for the first time or again."""
        settings = self._settings
        delay = settings.routes_start_delay * self._random.uniform(1, settings.routes_start_multiplier)
        if not self._has_joined:
            self._has_joined = True
            self._refresh(now)
            self._wait(now, delay)
            return
        passed = now - self._requested_at
        delay = max(delay, (self.shortest_period - passed) / self._slowness)
        if now + delay * self._slowness < self._request_at:
            self._wait(now, delay)

    def _wait(self, now: float, delay: float) -> None:
        self._waits_since = now
        self._delay = delay

    @property
    def _slowness(self) -> float:
        """How much longer than at full rate the times between requests are."""
        return max(1.0, len(self._peers.health) / self._settings.full_rate_nodes)

    @property
    def shortest_period(self) -> float:
        """The shortest time between two requests of a node that is away again and again, in seconds."""
        return self._settings.routes_start_delay * self._settings.routes_start_multiplier * self._slowness

    @property
    def _request_at(self) -> float:
        """When to ask for all routes again. It moves while nodes come and go."""
        return self._waits_since + self._delay * self._slowness

    def tick(self, now: float) -> None:
        """Publish the questions that are due."""
        if now >= self._request_at:
            self._refresh(now)
        for receiver, identifier in self._queries.due(now):
            self._publish_query(receiver, identifier)

    def _refresh(self, now: float) -> None:
        """Ask again. If the last answers had time to arrive, drop the routes that were missing from them."""
        period = self._settings.routes_period
        self._requested_at = now
        self._wait(now, period * self._random.uniform(0.9, 1.1))
        if now - self._round_at >= period * self._slowness * _SHORTEST_ROUND:
            self._round_at = now
            self._peers.drop_stale_routes()
        self.request_routes()

    def request_routes(self) -> None:
        """Ask every node for all its routes."""
        content = RequestClusterMessageRoutes(requestor_uri=self._me.uri, requestor_node_identity=self._me.identity)
        for domain in self._rules.domains:
            self._sender.publish(REQUEST_CLUSTER_ROUTES, content, domain)

    def discover(self, receiver: bytes, identifier: MessageIdentifier, now: float) -> None:
        """Ask where a hub is, or which nodes handle a message, unless that was asked a moment ago."""
        if self._queries.begin((receiver, identifier), now):
            self._publish_query(receiver, identifier)

    def _publish_query(self, receiver: bytes, identifier: MessageIdentifier) -> None:
        content = DiscoverMessageRoute(requestor_node_identity=self._me.identity, requestor_uri=self._me.uri)
        if receiver_kind(receiver) is ReceiverKind.HUB:
            content.receiver_identity = receiver
            domains = tuple(self._rules.domains)
        else:
            try:
                content.message_contract.CopyFrom(contract_of(identifier))
                domains = self._rules.domains_of_message(identifier)
            except (ArgumentError, SecurityError) as error:
                log.warning("%s cannot be looked for: %s", identifier, error)
                return
        for domain in domains:
            self._sender.publish(DISCOVER_ROUTE, content, domain)
