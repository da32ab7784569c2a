"""What this node announces of itself: its routes, its heartbeats, and that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hopline.cluster.membership.announcements import Announcements, of_any_actor
from hopline.cluster.membership.control_sender import ControlSender
from hopline.cluster.membership.domain_rules import DomainRules
from hopline.cluster.membership.member import Member
from hopline.cluster.membership.ports import RouteDirectory
from hopline.cluster.membership.route_queries import RouteQueries
from hopline.cluster.messages.service import (
    HEARTBEAT,
    REGISTER_ROUTE,
    UNREGISTER_NODE,
    UNREGISTER_ROUTE,
    registration,
    service_message,
    unregistration,
)
from hopline.cluster.messages.service_pb2 import HeartBeat, RegisterExternalMessageRoute, UnregisterNode
from hopline.cluster.messages.timespan import to_timespan
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.cluster.settings import ClusterSettings
from hopline.message import Message, MessageIdentifier, ReceiverKind, receiver_kind
from hopline.routing import Route


class RouteAdvertiser:
    """Publishes the routes of one node, and repeats each until the rendezvous server has relayed it.

    `announce` and `withdraw` only record what is to be published; `publish_unconfirmed` publishes it.
    """

    def __init__(
        self,
        me: Member,
        settings: ClusterSettings,
        rules: DomainRules,
        directory: RouteDirectory,
        sender: ControlSender,
        clock: Callable[[], float],
    ) -> None:
        self._me = me
        self._settings = settings
        self._rules = rules
        self._directory = directory
        self._sender = sender
        self._clock = clock
        self._unconfirmed = Announcements(settings.repeat_after)
        self._publish_at = clock()
        self._is_retiring = False  # actors accept no new work; hubs still wait for replies
        self._misdirected: RouteQueries[tuple[bytes, MessageIdentifier]] = RouteQueries(
            settings.discovery_period, settings.discovery_searches
        )

    # -- routes --------------------------------------------------------------------------------------------------------

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Return the routes to this node that others may know: those of some messages, or all."""
        routes = self._directory.advertised(*identifiers)
        if not self._is_retiring:
            return routes
        return [route for route in routes if route.identifier is None]

    def announce(self, routes: Iterable[Route]) -> None:
        """Announce routes to this node."""
        for route in routes:
            for domain in self._rules.domains_of_route(route):
                self._unconfirmed.announce(domain, route)
        self._publish_at = self._clock()

    def announce_all(self) -> None:
        """Announce every route to this node again."""
        self.announce(self.advertised())

    def withdraw(self, routes: Iterable[Route]) -> None:
        """Withdraw routes that the directory has already removed."""
        for route in routes:
            is_handled = route.identifier is not None and bool(self.advertised(route.identifier))
            for domain in self._rules.domains_of_route(route):
                self._unconfirmed.withdraw(domain, route, is_handled=is_handled)
        self._publish_at = self._clock()

    def retire(self) -> None:
        """Withdraw the actors of this node, so that no new work arrives, and keep its hubs reachable for replies."""
        self._is_retiring = True
        self.withdraw(route for route in self._directory.advertised() if route.identifier is not None)

    def report_misdirected(self, receiver: bytes, identifier: MessageIdentifier) -> None:
        """Withdraw a route that led another node's message here by mistake, at most once in a period."""
        if not self._misdirected.begin((receiver, identifier), self._clock()):
            return
        if receiver_kind(receiver) is ReceiverKind.HUB:
            route = Route(receiver)
        elif self.advertised(identifier):  # another actor handles it, and withdrawals name no actor
            return
        else:
            route = of_any_actor(identifier)
        content = unregistration(self._me.uri, self._me.identity, [route])
        for domain in self._rules.domains_of_route(route):
            self._sender.publish_routes(UNREGISTER_ROUTE, content, domain)

    # -- confirmation --------------------------------------------------------------------------------------------------

    def confirm(self, domain: str, routes: Iterable[Route], *, is_announced: bool) -> None:
        """Record that an announcement or a withdrawal of this node came back from the rendezvous server."""
        self._unconfirmed.confirm(domain, routes, self._clock(), is_announced=is_announced)

    @property
    def is_confirmed(self) -> bool:
        """Whether everything that was announced or withdrawn has come back from the rendezvous server."""
        return self._unconfirmed.is_confirmed

    @property
    def is_withdrawn(self) -> bool:
        """Whether everything that was withdrawn has come back from the rendezvous server."""
        return self._unconfirmed.is_withdrawn

    def tick(self, now: float, server: RendezvousAddress) -> None:
        """Publish again what is unconfirmed, and once more what was confirmed, when that is due."""
        if self._unconfirmed.repeat_due(now):
            self._publish_at = now
        if self._unconfirmed and now >= self._publish_at:
            self.publish_unconfirmed(now)
            self._unconfirmed.report_if_unconfirmed(now, self._settings.announce_timeout, server)
        self._misdirected.due(now)  # only to expire entries: a mistake that persists is reported by the next message

    def publish_unconfirmed(self, now: float) -> None:
        """Publish the announcements and withdrawals that have not come back, the strongest domain first."""
        self._publish_at = now + self._settings.announce_period
        grouped = self._unconfirmed.grouped()
        for domain, is_announced in sorted(grouped, key=lambda group: self._rules.rank(group[0])):
            routes = grouped[domain, is_announced]
            if is_announced:
                self._sender.publish_routes(REGISTER_ROUTE, self.registration(routes), domain)
            else:
                content = unregistration(self._me.uri, self._me.identity, routes)
                self._sender.publish_routes(UNREGISTER_ROUTE, content, domain)

    # -- messages ------------------------------------------------------------------------------------------------------

    def registration(self, routes: Iterable[Route]) -> RegisterExternalMessageRoute:
        """Return the content of an announcement of routes to this node."""
        me = self._me
        return registration(me.uri, me.identity, me.health_uri, self._settings.heartbeat_interval, routes)

    def heartbeat(self) -> Message:
        """Return a heartbeat of this node."""
        content = HeartBeat(
            heart_beat_interval=to_timespan(self._settings.heartbeat_interval),
            socket_identity=self._me.identity,
            health_uri=self._me.health_uri,
        )
        return service_message(HEARTBEAT, content)

    def leave(self) -> None:
        """Publish that this node leaves."""
        content = UnregisterNode(uri=self._me.uri, receiver_node_identity=self._me.identity)
        for domain in self._rules.domains:
            self._sender.publish(UNREGISTER_NODE, content, domain)
