"""What this node knows of other nodes: where they are, which routes lead to them, and whether they are alive.

Invariants:

* `DomainAuthority`, `Health` and `RouteFreshness` know the same nodes: `register` adds a node to all three, and
  `remove` is the only way out of them.
* Nothing is added before every check has passed. A message that is refused changes nothing, with one exception: the
  first announcement of a node by a stronger domain removes the node before the remaining checks, because what weaker
  domains announced of it cannot be trusted any more (see `domain_authority`).
* Everything is bounded: the nodes of each domain, those without contact among them, and the routes of each node.
"""

from __future__ import annotations

from hopline.cluster.membership.announcements import ANY_ACTOR
from hopline.cluster.membership.domain_authority import DomainAuthority, Location
from hopline.cluster.membership.domain_rules import DomainRules
from hopline.cluster.membership.drain_barrier import DrainBarrier
from hopline.cluster.membership.health import Health
from hopline.cluster.membership.lost_peers import LostPeers
from hopline.cluster.membership.member import Traffic
from hopline.cluster.membership.ports import NetworkPort, RouteDirectory, SchemaPort
from hopline.cluster.membership.refusals import Refusals
from hopline.cluster.membership.route_freshness import RouteFreshness
from hopline.cluster.messages.format_declaration import declared_formats
from hopline.cluster.messages.formats import Evidence
from hopline.cluster.messages.schema_declaration import declared_fingerprints
from hopline.cluster.messages.service import UNREGISTER_NODE, UNREGISTER_ROUTE, routes_of
from hopline.cluster.messages.service_pb2 import HeartBeat, RegisterExternalMessageRoute, UnregisterMessageRoute
from hopline.cluster.messages.timespan import from_timespan
from hopline.cluster.settings import ClusterSettings
from hopline.message import Message, get_logger, printable_name
from hopline.routing import Route
from hopline.security import SecurityReason

log = get_logger("hopline.cluster")


class PeerRegistry:
    """Applies announcements, withdrawals and heartbeats of other nodes, each after checking that it may."""

    def __init__(
        self,
        settings: ClusterSettings,
        rules: DomainRules,
        directory: RouteDirectory,
        network: NetworkPort,
        schemas: SchemaPort,
        refusals: Refusals,
        traffic: Traffic,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._directory = directory
        self._network = network
        self._schemas = schemas
        self._refusals = refusals
        self._traffic = traffic
        self._freshness = RouteFreshness()
        self.authority = DomainAuthority(rules, settings.known_nodes, settings.unheard_nodes)
        self.health = Health(network, settings.missing_heartbeats)
        self._lost = LostPeers(self.health)
        self.drain_barrier = DrainBarrier()

    # -- announcements -------------------------------------------------------------------------------------------------

    def register(self, message: Message, content: RegisterExternalMessageRoute, *, is_broadcast: bool) -> None:
        """Add the announced routes of another node, as far as its domain permits.

        Args:
            message: The announcement, already verified.
            content: What it carries.
            is_broadcast: Whether it came through the rendezvous server, and not directly from the node.
        """
        node = content.node_identity
        domain = message.domain
        location = self._location_in(content)
        if location is None:
            return
        routes = self._permitted_routes(message, routes_of(content))
        if not routes or not self._is_permitted(node, domain, location, routes):
            return
        if not self._has_capacity(node, domain, routes):
            return
        if node not in self.health:
            log.info("node %s is at %s", printable_name(node), location.uri)
        self._lost.forget(node)
        has_moved = location != self.authority.location_of(node)
        self.authority.record(node, domain, location)
        self._network.note_written_format(node, message.wire_format)
        self._note_read_formats(node, message, is_authentic=has_moved or not is_broadcast)
        self.health.add(node, location.health_uri, location.interval)
        if self._freshness.is_later_round(node):
            self.authority.settle(node)
        self._freshness.record(node, routes)
        self._directory.learn_all(node, location.uri, routes)
        self._refusals.accepted(routes)
        self._compare_schemas(message, content, routes)

    def _location_in(self, content: RegisterExternalMessageRoute) -> Location | None:
        """Return the location in an announcement; None if it is refused."""
        health = content.health
        interval = from_timespan(health.heart_beat_interval).total_seconds()
        location = Location(
            uri=content.uri,
            health_uri=health.uri,
            interval=interval,
        )
        is_address = self._network.is_address
        has_addresses = is_address(location.uri) and is_address(location.health_uri)
        is_complete = content.node_identity and has_addresses and interval > 0
        if not is_complete:
            self._traffic.refuse("malformed")
            return None
        if interval > self._settings.longest_heartbeat_interval:
            self._traffic.refuse("heartbeat interval too long")
            return None
        return location

    def _permitted_routes(self, message: Message, announced: list[Route]) -> list[Route]:
        """Return the routes that may be announced in the domain of a message; record the others as refused."""
        permitted = [route for route in announced if self._may_announce(message.domain, route)]
        if len(permitted) < len(announced):
            self._refusals.record(message, SecurityReason.WRONG_DOMAIN)
        return permitted

    def _may_announce(self, domain: str, route: Route) -> bool:
        is_permitted = self._rules.may_announce(domain, route)
        if not is_permitted:
            self._traffic.refuse("wrong domain", is_logged=True)
        return is_permitted

    def _is_permitted(self, node: bytes, domain: str, location: Location, routes: list[Route]) -> bool:
        """Return whether a domain may announce these routes of a node at that location. See `domain_authority`."""
        authority = self.authority
        rank = self._rules.rank(domain)
        previous_location = authority.location_of(node)
        has_moved = previous_location is not None and location != previous_location
        if has_moved and not authority.may_change(node, rank):
            self._traffic.refuse("moved by another domain")
            return False
        if not authority.may_add(node, rank):
            # A node announces its hubs in all its domains: repeating known routes is not an attempt to add any.
            is_repetition = all(self._freshness.has(node, route) for route in routes)
            if not is_repetition:
                self._traffic.refuse("added by an unsigned domain")
            return False
        if authority.outranks(node, rank, location):
            self.remove(node)
        return True

    def _has_capacity(self, node: bytes, domain: str, routes: list[Route]) -> bool:
        """Return whether the node and its routes fit; if need be, another node is replaced (see `node_slots`)."""
        if self._freshness.count_with(node, routes) > self._settings.known_routes:
            self._traffic.refuse("too many routes")
            return False
        if node in self.authority or self.authority.has_slot(domain):
            return True
        replaceable = self.authority.replaceable(domain)
        if replaceable is None:
            self._traffic.refuse("too many nodes")
            return False
        self.remove(replaceable)
        return True

    def _note_read_formats(self, node: bytes, announcement: Message, *, is_authentic: bool) -> None:
        """Record which formats a node declares to read in an announcement that was accepted.

        A missing declaration counts only if `is_authentic`: the announcement came directly from the node, or is the
        first from an address. A server of the reference drops the declaration of what it relays.
        """
        rank = self._rules.rank(announcement.domain)
        if not self.authority.may_change(node, rank):
            return
        formats = declared_formats(announcement.extension)
        if formats or is_authentic:
            self._network.note_read_formats(node, formats)

    def _compare_schemas(self, message: Message, content: RegisterExternalMessageRoute, routes: list[Route]) -> None:
        """Compare the schemas of the messages that were accepted with those of this node."""
        fingerprints = declared_fingerprints(message.extension, content)
        if fingerprints:
            accepted = {route.identifier for route in routes}
            announced = {identifier: value for identifier, value in fingerprints.items() if identifier in accepted}
            self._schemas.compare(content.node_identity, announced)

    # -- withdrawals ---------------------------------------------------------------------------------------------------

    def unregister_routes(self, message: Message, content: UnregisterMessageRoute) -> None:
        """Remove the withdrawn routes of another node, as far as its domain permits."""
        node = content.receiver_node_identity
        domain = message.domain
        rank = self._rules.rank(domain, UNREGISTER_ROUTE.identity)
        may_remove = self.authority.may_add(node, rank)
        withdrawn = set()
        for route in routes_of(content, with_unknown=True):
            if not may_remove:
                if self._freshness.has(node, route):
                    self._traffic.refuse("removed by an unsigned domain")
                continue
            # A hub belongs to the whole node, whichever domain announced it first.
            has_authority = route.identifier is not None or self.authority.may_change(node, rank)
            if not (has_authority and self.authority.is_announced_in(domain, node)):
                continue
            if self._may_announce(domain, route):
                self._remove_route(node, route)
                if route.receiver == ANY_ACTOR:
                    withdrawn.add(route.identifier)
        if withdrawn:
            self._freshness.forget_messages(node, withdrawn)

    def unregister_node(self, node: bytes, domain: str) -> None:
        """Remove what a domain announced of a node that leaves it, and the node itself if no other domain is left."""
        authority = self.authority
        if not authority.is_announced_in(domain, node):
            return
        rank = self._rules.rank(domain, UNREGISTER_NODE.identity)
        if not authority.may_add(node, rank):
            self._traffic.refuse("removed by an unsigned domain")
            return
        is_announced_elsewhere = authority.withdraw(node, domain)
        if not is_announced_elsewhere:
            self.remove(node)
            return
        for route in self._directory.routes_to(node):
            identifier = route.identifier
            if identifier is not None and self._rules.is_home(domain, identifier):
                self._remove_route(node, route)

    def drop_stale_routes(self) -> None:
        """Remove the routes that were missing from several rounds of answers, and begin another round.

        A node that has answered none of them is removed with all its routes, unless its heartbeats are heard.
        """
        for node in self._freshness.unanswering():
            if not self.health.is_watched(node):
                log.info("node %s no longer answers", printable_name(node))
                self.remove(node)
        for node, route in self._freshness.next_round():
            log.info("route %s withdrawn: node %s no longer advertises it", route, printable_name(node))
            self._directory.forget(node, route.receiver, route.identifier)

    def _remove_route(self, node: bytes, route: Route) -> None:
        self._freshness.forget(node, route)
        self._directory.forget(node, route.receiver, route.identifier)

    def remove(self, node: bytes) -> None:
        """Remove a node: it left, was silent for too long, or cannot be reached."""
        self.health.forget(node)
        self.drain_barrier.passed(node)
        self._freshness.forget(node)
        self.authority.forget(node)
        self._schemas.forget(node)
        if self._directory.forget_node(node) is not None:
            log.info("node %s is gone", printable_name(node))
        self._network.disconnect(node)

    def lose(self, node: bytes, now: float) -> None:
        """Remove a node that is silent or cannot be reached; if this node sent to it, listen whether it comes back."""
        location = self.authority.location_of(node)
        was_watched = self.health.is_watched(node)
        self.remove(node)
        if was_watched and location is not None:
            self._lost.add(node, location, now)

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def watch(self, node: bytes) -> None:
        """Listen for the heartbeats of a node, because this one sends to it."""
        self.health.watch(node)
        self.authority.record_contact(node)

    def record_heartbeat(self, message: Message, content: HeartBeat, now: float) -> Location | None:
        """Record a heartbeat, and refuse one of a node that is not known.

        Returns:
            Where the node is, if it was lost, and routes are to be exchanged with it now.
        """
        node = content.socket_identity
        if node in self._lost:
            location = self._lost.record_heartbeat(node, now)
            if location is not None:
                log.info("node %s is heard again", printable_name(node))
            return location
        if not self.health.record_heartbeat(node):
            self._traffic.refuse("heartbeat of a stranger")
            return None
        self._network.note_written_format(node, message.wire_format, Evidence.HEARTBEAT)
        return None

    def remove_dead(self, now: float) -> None:
        """Remove the nodes that were silent for too long, and listen whether they come back."""
        self._lost.expire(now)
        for node in self.health.dead():
            log.warning("node %s is silent", printable_name(node))
            self.lose(node, now)
