"""Receiving control messages: each is verified, and passed to the part of membership that it concerns."""

from __future__ import annotations

from collections.abc import Callable

from hopline.cluster.membership.advertiser import RouteAdvertiser
from hopline.cluster.membership.identity_conflicts import IdentityConflicts
from hopline.cluster.membership.member import Member, Traffic
from hopline.cluster.membership.peer_registry import PeerRegistry
from hopline.cluster.membership.refusals import Refusals
from hopline.cluster.membership.responder import RouteResponder
from hopline.cluster.messages.service import (
    DISCOVER_ROUTE,
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    REQUEST_NODE_ROUTES,
    UNREGISTER_NODE,
    UNREGISTER_ROUTE,
    read,
    routes_of,
)
from hopline.cluster.messages.service_pb2 import (
    DiscoverMessageRoute,
    RegisterExternalMessageRoute,
    RequestClusterMessageRoutes,
    RequestNodeMessageRoutes,
    UnregisterMessageRoute,
    UnregisterNode,
)
from hopline.message import ArgumentError, Message, PayloadError
from hopline.security import Security, SecurityError


class ControlReceiver:
    """Verifies and dispatches the messages that change or ask for routes.

    A node also receives what it published itself. Its own announcements and withdrawals confirm that the rendezvous
    server has relayed them; anything else under its identity is ignored.
    """

    def __init__(
        self,
        me: Member,
        security: Security,
        advertiser: RouteAdvertiser,
        responder: RouteResponder,
        peers: PeerRegistry,
        refusals: Refusals,
        traffic: Traffic,
        clock: Callable[[], float],
    ) -> None:
        self._me = me
        self._security = security
        self._advertiser = advertiser
        self._responder = responder
        self._peers = peers
        self._refusals = refusals
        self._traffic = traffic
        self._clock = clock
        self._identity_conflicts = IdentityConflicts(me)

    def receive(self, message: Message, *, is_broadcast: bool) -> None:
        """Verify and process a control message.

        Args:
            message: The message.
            is_broadcast: Whether the rendezvous server published it; if not, a node sent it directly to this one.
        """
        self._traffic.received += 1
        try:
            self._security.verify_control(message)
            self._process(message, is_broadcast=is_broadcast)
        except SecurityError as error:
            is_logged = self._refusals.record(message, error.reason)
            self._traffic.refuse(str(error.reason), is_logged=is_logged)
        except (PayloadError, ArgumentError):
            self._traffic.refuse("malformed")

    def _process(self, message: Message, *, is_broadcast: bool) -> None:
        kind = message.identifier
        if kind == REGISTER_ROUTE:
            content = read(message, RegisterExternalMessageRoute)
            self._receive_registration(message, content, is_broadcast=is_broadcast)
        elif kind == UNREGISTER_ROUTE:
            self._receive_unregistration(message, read(message, UnregisterMessageRoute))
        elif kind == UNREGISTER_NODE:
            leaving = read(message, UnregisterNode)
            node = leaving.receiver_node_identity
            if not self._is_identity_conflict(node, leaving.uri) and node != self._me.identity:
                self._peers.unregister_node(node, message.domain)
                self._responder.forget(node, message.domain)
        elif kind == REQUEST_CLUSTER_ROUTES:
            request = read(message, RequestClusterMessageRoutes)
            if not self._is_identity_conflict(request.requestor_node_identity, request.requestor_uri):
                self._responder.answer_request(message, request)
        elif kind == REQUEST_NODE_ROUTES:
            if read(message, RequestNodeMessageRoutes).target_node_identity == self._me.identity:
                self._advertiser.announce_all()
        elif kind == DISCOVER_ROUTE:
            self._responder.answer_discovery(message, read(message, DiscoverMessageRoute))
        else:
            self._traffic.refuse("unknown kind")

    def _receive_registration(
        self, message: Message, content: RegisterExternalMessageRoute, *, is_broadcast: bool
    ) -> None:
        node, uri = content.node_identity, content.uri
        if self._is_identity_conflict(node, uri):
            return
        if node == self._me.identity:
            self._advertiser.confirm(message.domain, routes_of(content), is_announced=True)
            return
        was_known = node in self._peers.health
        self._peers.register(message, content, is_broadcast=is_broadcast)
        self._peers.drain_barrier.passed(node)
        if is_broadcast and not was_known and node in self._peers.health:
            self._responder.greet(message, node, uri)

    def _receive_unregistration(self, message: Message, content: UnregisterMessageRoute) -> None:
        if content.receiver_node_identity == self._me.identity:
            routes = routes_of(content, with_unknown=True)
            self._advertiser.confirm(message.domain, routes, is_announced=False)
        else:
            self._peers.unregister_routes(message, content)

    def _is_identity_conflict(self, node: bytes, uri: str) -> bool:
        """Return whether another node uses this node's identity; if so, announce this node, so that it notices too."""
        if not self._identity_conflicts.is_conflict(node, uri):
            return False
        if self._identity_conflicts.report(uri, self._clock()):
            self._advertiser.announce_all()
        return True
