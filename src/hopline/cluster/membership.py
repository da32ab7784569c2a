"""A node's part in the cluster: it says what lives here, learns what lives elsewhere, and notices who is gone.

A state machine: messages and the time come in, and what it wants done goes out through what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from google.protobuf.message import Message as Content

from hopline.cluster.announcements import ANY_ACTOR, Announcements, of_any_actor
from hopline.cluster.declaration import OWN_DECLARATION, declared_formats
from hopline.cluster.following import Following
from hopline.cluster.formats import Evidence
from hopline.cluster.health import Health
from hopline.cluster.hearsay import Hearsay
from hopline.cluster.member import Member, Network, Routes, Traffic
from hopline.cluster.namesakes import Namesakes
from hopline.cluster.questions import Questions, Verdict
from hopline.cluster.refusals import Refusals
from hopline.cluster.rendezvous import RendezvousAddress
from hopline.cluster.roll_call import RollCall
from hopline.cluster.searches import Searches
from hopline.cluster.service import (
    CONTROL,
    DISCOVER_ROUTE,
    HEARTBEAT,
    NOT_LEADER,
    PONG,
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    REQUEST_NODE_ROUTES,
    UNREGISTER_NODE,
    UNREGISTER_ROUTE,
    contract_of,
    identifier_of,
    read,
    registration,
    routes_of,
    service_message,
    unregistration,
)
from hopline.cluster.service_pb2 import (
    DiscoverMessageRoute,
    HeartBeat,
    RegisterExternalMessageRoute,
    RendezvousNotLeader,
    RequestClusterMessageRoutes,
    RequestNodeMessageRoutes,
    UnregisterMessageRoute,
    UnregisterNode,
)
from hopline.cluster.settings import ClusterSettings
from hopline.cluster.timespan import from_timespan, to_timespan
from hopline.cluster.vouching import Location, Vouching
from hopline.message import (
    LocalError,
    Message,
    MessageIdentifier,
    PayloadError,
    ReceiverKind,
    get_logger,
    printable_name,
    receiver_kind,
)
from hopline.routing import Route
from hopline.security import Security, SecurityError, SecurityReason

log = get_logger("hopline.cluster")

_HEALTH_PERIOD = 0.25  # seconds between looks who is dead


class Membership:
    """One node among others. Whatever comes in is verified before it changes anything."""

    def __init__(
        self,
        me: Member,
        servers: Iterable[RendezvousAddress],
        settings: ClusterSettings,
        security: Security,
        routes: Routes,
        network: Network,
        *,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        now = clock()
        self.me = me
        self.traffic = Traffic()
        self._settings = settings
        self._security = security
        self._routes = routes
        self._network = network
        self._random = random
        self._unconfirmed = Announcements()
        self._is_retiring = False  # its actors take no new work; its hubs still wait for answers
        self._questions = Questions(settings.known_nodes)
        self._vouching = Vouching(security, settings.known_nodes, settings.unheard_nodes)
        self._announce_at = now
        self._requested_at = now
        self._routes_at = float("inf")
        self._namesakes = Namesakes(me)
        self.refusals = Refusals(security, clock, lambda: self.announce(self._advertised()))
        self._has_joined = False
        self._has_lost = False  # a peer fell silent since this node joined
        self._ticked_at = now
        self._health_at = now
        self._searches: Searches[tuple[bytes, MessageIdentifier]] = Searches(
            settings.discovery_period, settings.discovery_searches
        )
        self._misdirected: Searches[tuple[bytes, MessageIdentifier]] = Searches(
            settings.discovery_period, settings.discovery_searches
        )
        self._hearsay = Hearsay()
        self.roll_call = RollCall()
        self._clock = clock
        self.health = Health(network, settings.missing_heartbeats)
        self.following = Following(
            list(servers), settings, network, resolve=network.resolve, joined=self._joined, now=now
        )

    # -- saying what lives here ----------------------------------------------------------------------------------------

    def announce(self, routes: Iterable[Route]) -> None:
        """Let others know of routes to this node; until they were heard coming back, they are said again."""
        for route in routes:
            for domain in self._domains_of(route):
                self._unconfirmed.announce(domain, route)
        self._announce_at = self._clock()

    def withdraw(self, routes: Iterable[Route]) -> None:
        """Let others know that routes, which the directory has forgotten, lead here no longer."""
        for route in routes:
            is_handled = route.identifier is not None and bool(self._advertised(route.identifier))
            for domain in self._domains_of(route):
                self._unconfirmed.withdraw(domain, route, is_handled=is_handled)
        self._announce_at = self._clock()

    def retire(self) -> None:
        """Let no new work come to the actors of this node, while its hubs can still be reached with answers."""
        self._is_retiring = True
        self.withdraw(route for route in self._routes.advertised() if route.identifier is not None)

    def _advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        """Return the routes to this node that others may know: of some messages, or all."""
        routes = self._routes.advertised(*identifiers)
        return [route for route in routes if route.identifier is None] if self._is_retiring else routes

    @property
    def is_withdrawn(self) -> bool:
        """Return whether everything that was withdrawn came back through the rendezvous: others heard it too."""
        return self._unconfirmed.is_withdrawn

    def _domains_of(self, route: Route) -> tuple[str, ...]:
        """Return the domains in which a route is announced, the strongest first."""
        if route.identifier is None:  # a hub takes answers of any domain
            return tuple(self._vouching.domains)
        try:
            return self._domains_of_message(route.identifier)
        except SecurityError:
            log.warning("%s is not announced: it belongs to no domain", route.identifier)
            return ()

    def _domains_of_message(self, identifier: MessageIdentifier) -> tuple[str, ...]:
        """Return the domains in which a message is announced and looked for, or raise `SecurityError`.

        That is its own. If it is unsigned, the signed ones vouch for the route too: whoever knows this node from one of
        them takes nothing from an unsigned domain.
        """
        home = self._security.domain_of(identifier.identity)
        return (home,) if self._vouching.is_signed(home) else (*self._vouching.signed, home)

    def _announce_again(self, now: float) -> None:
        """Say what nobody confirmed: hearing it come back through the rendezvous is what confirms it."""
        self._announce_at = now + self._settings.announce_period
        grouped = self._unconfirmed.grouped()
        for domain, lives_here in sorted(grouped, key=lambda group: self._vouching.rank(group[0])):
            routes = grouped[domain, lives_here]
            if lives_here:
                self._publish_if_any(REGISTER_ROUTE, self._registration(routes), domain)
            else:
                content = unregistration(self.me.uri, self.me.identity, routes)
                self._publish_if_any(UNREGISTER_ROUTE, content, domain)

    def _registration(self, routes: Iterable[Route]) -> RegisterExternalMessageRoute:
        me = self.me
        return registration(me.uri, me.identity, me.health_uri, self._settings.heartbeat_interval, routes)

    def _publish_if_any(
        self, kind: MessageIdentifier, content: RegisterExternalMessageRoute | UnregisterMessageRoute, domain: str
    ) -> None:
        if content.routes:
            self._publish(kind, content, domain)

    def _publish(self, kind: MessageIdentifier, content: Content, domain: str) -> None:
        self.traffic.published += 1
        if isinstance(content, RegisterExternalMessageRoute):
            message = _announcement(content)
        else:
            message = service_message(kind, content)
        self._network.publish(self._security.protect_in(message, domain))

    def heartbeat(self) -> Message:
        """Make this node's sign of life."""
        interval = to_timespan(self._settings.heartbeat_interval)
        return service_message(
            HEARTBEAT,
            HeartBeat(heart_beat_interval=interval, socket_identity=self.me.identity, health_uri=self.me.health_uri),
        )

    def leave(self) -> None:
        """Say goodbye."""
        for domain in self._vouching.domains:
            content = UnregisterNode(uri=self.me.uri, receiver_node_identity=self.me.identity)
            self._publish(UNREGISTER_NODE, content, domain)

    # -- asking what lives elsewhere -----------------------------------------------------------------------------------

    def _joined(self) -> None:
        """Say what nobody knows yet, and ask; who was here before has most of it, and asks later.

        Who lost others out of hearing meanwhile may have been lost to them. That is said only by those who were away:
        if all who miss a dead node did, one death would make everybody talk to everybody.
        """
        now = self._clock()
        if self._has_lost:
            self._has_lost = False
            self.announce(self._advertised())
        self._announce_again(now)
        settings = self._settings
        delay = settings.routes_start_delay * self._random.uniform(1, settings.routes_start_multiplier)
        if self._has_joined:
            # Everybody may be in this position at once, and on a busy machine again and again.
            earliest = self._requested_at + settings.routes_start_delay * settings.routes_start_multiplier
            self._routes_at = min(self._routes_at, max(now + delay, earliest))
        else:
            self._has_joined = True
            self._request_routes(now)
            self._routes_at = now + delay  # once more, for answers may be lost while everything starts

    def _request_routes(self, now: float) -> None:
        self._requested_at = now
        self._routes_at = now + self._settings.routes_period * self._random.uniform(0.9, 1.1)
        for node, route in self._hearsay.next_turn():
            log.info("%s of %s is said no more", route, printable_name(node))
            self._routes.forget(node, route.receiver, route.identifier)
        self.ask_everybody()

    def ask_everybody(self) -> None:
        """Ask all nodes what lives there."""
        for domain in self._vouching.domains:
            content = RequestClusterMessageRoutes(requestor_uri=self.me.uri, requestor_node_identity=self.me.identity)
            self._publish(REQUEST_CLUSTER_ROUTES, content, domain)

    def look_for(self, message: Message) -> None:
        """Ask who handles a message, or where its receiver lives. One from elsewhere came here by mistake."""
        sought = (message.receiver_identity, message.identifier)
        if self._searches.begin(sought, self._clock()):
            self._ask(*sought)
        if message.hops and self._misdirected.begin(sought, self._clock()):
            self._say_misdirected(*sought)

    def _ask(self, receiver: bytes, identifier: MessageIdentifier) -> None:
        content = DiscoverMessageRoute(requestor_node_identity=self.me.identity, requestor_uri=self.me.uri)
        if receiver_kind(receiver) is ReceiverKind.HUB:
            content.receiver_identity = receiver
            domains = tuple(self._vouching.domains)
        else:
            try:
                content.message_contract.CopyFrom(contract_of(identifier))
                domains = self._domains_of_message(identifier)
            except (LocalError, SecurityError) as error:
                log.warning("%s cannot be looked for: %s", identifier, error)
                return
        for domain in domains:
            self._publish(DISCOVER_ROUTE, content, domain)

    def _say_misdirected(self, receiver: bytes, identifier: MessageIdentifier) -> None:
        if receiver_kind(receiver) is ReceiverKind.HUB:
            route = Route(receiver)
        elif self._advertised(identifier):  # only that actor is gone, and withdrawals name no actor
            return
        else:
            route = of_any_actor(identifier)
        content = unregistration(self.me.uri, self.me.identity, [route])
        for domain in self._domains_of(route):
            self._publish_if_any(UNREGISTER_ROUTE, content, domain)

    # -- hearing -------------------------------------------------------------------------------------------------------

    def hear(self, message: Message) -> None:
        """Take what the rendezvous server published."""
        kind, now = message.identifier, self._clock()
        try:
            if kind == HEARTBEAT:
                interval = from_timespan(read(message, HeartBeat).heart_beat_interval).total_seconds()
                if self.following.heartbeat(interval, now) and self._has_lost:
                    self._joined()
            elif kind == PONG:
                self.following.heard(now)
            elif kind == NOT_LEADER:
                leader = read(message, RendezvousNotLeader).new_leader
                self.following.not_leader(leader.broadcast_uri, leader.unicast_uri, now)
            elif kind in CONTROL:
                self.following.heard(now)
                self.take(message, is_broadcast=True)
            else:  # also eviction notices and new lists of servers: these are never taken from the network
                self._refuse("unknown kind")
        except PayloadError:
            self._refuse("malformed")

    def take(self, message: Message, *, is_broadcast: bool = False) -> None:
        """Take a message about routes, wherever it came from, if it is what it claims to be."""
        self.traffic.heard += 1
        try:
            self._security.check_control(message)
            self._handle(message, is_broadcast=is_broadcast)
        except SecurityError as error:
            self._refuse(str(error.reason), is_logged=self.refusals.note(message, error.reason))
        except (PayloadError, LocalError):
            self._refuse("malformed")

    def _handle(self, message: Message, *, is_broadcast: bool) -> None:
        kind = message.identifier
        if kind == REGISTER_ROUTE:
            content = read(message, RegisterExternalMessageRoute)
            is_newcomer = is_broadcast and content.node_identity not in self.health
            self._learn(message, content, is_broadcast=is_broadcast)
            self.roll_call.answered(content.node_identity)
            if is_newcomer and content.node_identity in self.health:
                self._greet(message, content.node_identity, content.uri)
        elif kind == UNREGISTER_ROUTE:
            self._unlearn(message, read(message, UnregisterMessageRoute))
        elif kind == UNREGISTER_NODE:
            goodbye = read(message, UnregisterNode)
            if not self._is_namesake(goodbye.receiver_node_identity, goodbye.uri):
                self._say_goodbye_to(goodbye.receiver_node_identity, message.domain)
        elif kind == REQUEST_CLUSTER_ROUTES:
            request = read(message, RequestClusterMessageRoutes)
            node, uri = request.requestor_node_identity, request.requestor_uri
            if self._is_namesake(node, uri):
                return
            if message.domain not in self._security.domains:  # which a node without keys hears in a signed network
                raise SecurityError(SecurityReason.WRONG_DOMAIN, message.domain, message.identity)
            verdict = self._questions.ask((node, uri, message.domain), self._clock())
            if verdict is Verdict.ANSWER:
                self._answer(message, node, uri, self._advertised())
            elif verdict is Verdict.TOO_OFTEN:
                self._refuse("asked too often")
        elif kind == REQUEST_NODE_ROUTES:
            if read(message, RequestNodeMessageRoutes).target_node_identity == self.me.identity:
                self.announce(self._advertised())
        elif kind == DISCOVER_ROUTE:
            self._answer_search(message, read(message, DiscoverMessageRoute))
        else:
            self._refuse("unknown kind")

    def _refuse(self, reason: str, *, is_logged: bool = False) -> None:
        if not (is_logged or self.traffic.refused[reason]):
            log.warning("refused what another node said: %s; from now on this is only counted", reason)
        self.traffic.refused[reason] += 1

    def _learn(self, message: Message, content: RegisterExternalMessageRoute, *, is_broadcast: bool) -> None:
        node, uri, domain = content.node_identity, content.uri, message.domain
        if self._is_namesake(node, uri):
            return
        if node == self.me.identity:
            self._unconfirmed.confirm(domain, routes_of(content), lives_here=True)
            return
        interval = from_timespan(content.health.heart_beat_interval).total_seconds()
        location = Location(uri, content.health.uri, interval)
        is_address = self._network.is_address
        if not (node and is_address(uri) and is_address(location.health_uri) and interval > 0):
            self._refuse("malformed")
            return
        if interval > self._settings.longest_heartbeat_interval:
            self._refuse("heartbeat interval too long")
            return
        announced = routes_of(content)
        accepted = [route for route in announced if self._belongs(route, domain)]
        if len(accepted) < len(announced):
            self.refusals.note(message, SecurityReason.WRONG_DOMAIN)
        if not accepted or not self._accepts_location(node, domain, location, accepted):
            return
        if self._hearsay.count_with(node, accepted) > self._settings.known_routes:
            self._refuse("too many routes")
            return
        if not self._finds_slot(node, domain):
            self._refuse("too many nodes")
            return
        if node not in self.health:
            log.info("node %s is at %s", printable_name(node), uri)
        has_moved = location != self._vouching.location_of(node)
        self._vouching.vouch(node, domain, self._vouching.rank(domain), location)
        self._network.speaks(node, message.wire_format)
        self._learn_formats(node, message, is_its_own=has_moved or not is_broadcast)
        self.health.watch(node, location.health_uri, interval)
        self._hearsay.heard(node, accepted)
        self._routes.learn_all(node, uri, accepted)
        self.refusals.accepted(accepted)

    def _learn_formats(self, node: bytes, announcement: Message, *, is_its_own: bool) -> None:
        """Note which formats a node declares to read in an announcement that was accepted.

        That there is no declaration means something only if the announcement came straight from the node, or if it is
        the first from an address: what a server of the reference relays has lost it.
        """
        if not self._vouching.may_change(node, self._vouching.rank(announcement.domain)):
            return
        formats = declared_formats(announcement.extension)
        if formats or is_its_own:
            self._network.reads(node, formats)

    def _accepts_location(self, node: bytes, domain: str, location: Location, routes: list[Route]) -> bool:
        """Return whether a domain may announce these routes of a node at that location. See `hopline.cluster.vouching`.

        What the node is known for already is no attempt at anything: a node announces its hubs in all its domains.
        """
        vouching = self._vouching
        rank = vouching.rank(domain)
        if location != (vouching.location_of(node) or location) and not vouching.may_change(node, rank):
            self._refuse("moved by another domain")
            return False
        if not vouching.may_add(node, rank):
            if not all(self._hearsay.knows(node, route) for route in routes):
                self._refuse("added by an unsigned domain")
            return False
        if vouching.outranks(node, rank, location):
            self.lost(node)
        return True

    def _finds_slot(self, node: bytes, domain: str) -> bool:
        """Return whether a node has a slot in a domain; if need be, that of one that never gave a sign of life."""
        if node in self._vouching or self._vouching.has_slot(domain):
            return True
        silent = self._vouching.longest_unheard(domain)
        if silent is None:
            return False
        self.lost(silent)
        return True

    def _is_namesake(self, node: bytes, uri: str) -> bool:
        """Return whether another node speaks under this node's identity; if so, speak up."""
        if not self._namesakes.is_one(node, uri):
            return False
        if self._namesakes.complain(uri, self._clock()):
            self.announce(self._advertised())
        return True

    def _belongs(self, route: Route, domain: str) -> bool:
        """Return whether a route may be announced in a domain: a hub in any, an actor's message in its own.

        A signed domain may vouch for messages of unsigned domains as well.
        """
        if route.identifier is None:
            return True
        try:
            home = self._security.domain_of(route.identifier.identity)
            belongs = home == domain or (self._vouching.is_signed(domain) and not self._vouching.is_signed(home))
        except SecurityError:
            belongs = False
        if not belongs:
            self._refuse("wrong domain", is_logged=True)
        return belongs

    def _say_goodbye_to(self, node: bytes, domain: str) -> None:
        """Forget a node as far as the domain knows it; the members of one have no say in what others know."""
        if node == self.me.identity or not self._vouching.vouches(domain, node):
            return
        if not self._vouching.may_add(node, self._vouching.rank(domain, UNREGISTER_NODE.identity)):
            self._refuse("removed by an unsigned domain")
            return
        if not self._vouching.withdraw(node, domain):
            self.lost(node)
            return
        for route in self._routes.routes_to(node):
            if route.identifier is not None and self._is_home(domain, route.identifier):
                self._forget_route(node, route)

    def _is_home(self, domain: str, identifier: MessageIdentifier) -> bool:
        try:
            return self._security.domain_of(identifier.identity) == domain
        except SecurityError:
            return False

    def _unlearn(self, message: Message, content: UnregisterMessageRoute) -> None:
        node, domain = content.receiver_node_identity, message.domain
        if node == self.me.identity:
            self._unconfirmed.confirm(domain, routes_of(content, with_unknown=True), lives_here=False)
            return
        rank = self._vouching.rank(domain, UNREGISTER_ROUTE.identity)
        withdrawn = set()
        for route in routes_of(content, with_unknown=True):
            if not self._vouching.may_add(node, rank):
                if self._hearsay.knows(node, route):
                    self._refuse("removed by an unsigned domain")
                continue
            # A hub is the whole node's, whichever domain it was announced in first.
            has_a_say = route.identifier is not None or self._vouching.may_change(node, rank)
            if has_a_say and self._vouching.vouches(domain, node) and self._belongs(route, domain):
                self._forget_route(node, route)
                if route.receiver == ANY_ACTOR:
                    withdrawn.add(route.identifier)
        if withdrawn:
            self._hearsay.forget_messages(node, withdrawn)

    def _forget_route(self, node: bytes, route: Route) -> None:
        self._hearsay.forget(node, route)
        self._routes.forget(node, route.receiver, route.identifier)

    # -- answering -----------------------------------------------------------------------------------------------------

    def _answer_search(self, message: Message, search: DiscoverMessageRoute) -> None:
        if receiver_kind(search.receiver_identity) is ReceiverKind.HUB:
            routes = [route for route in self._advertised() if route.receiver == search.receiver_identity]
        else:
            routes = self._advertised(identifier_of(search.message_contract))
        self._answer(message, search.requestor_node_identity, search.requestor_uri, routes)

    def introduction(self, node: bytes) -> list[Message]:
        """Return what a node must be told before anything else: where the hubs are that its answers go to.

        The reference drops an answer to a node that it does not know, and asks who is there only seconds after it came.
        """
        hubs = [route for route in self._advertised() if route.identifier is None]
        if not hubs:
            return []
        message = _announcement(self._registration(hubs))
        vouching = self._vouching
        domains = [domain for domain in vouching.domains if node not in vouching or vouching.vouches(domain, node)]
        self.traffic.told += len(domains)
        return [self._security.protect_in(message, domain) for domain in domains]

    def _greet(self, announcement: Message, node: bytes, uri: str) -> None:
        """Tell a newcomer what lives here, without waiting until it asks: its first requests may name hubs of ours."""
        if self._questions.greet((node, uri, announcement.domain), self._clock()):
            self._answer(announcement, node, uri, self._advertised())

    def _answer(self, request: Message, node: bytes, uri: str, routes: list[Route]) -> None:
        """Answer the one who asked, and nobody else: a broadcast answer would reach all for the sake of one."""
        if node == self.me.identity:
            return
        if not (node and self._network.is_address(uri)):
            self._refuse("malformed")
            return
        known = self._vouching.location_of(node)
        if known is not None and known.uri != uri:  # to answer there would take the link from its owner
            self._refuse("wrong address")
            return
        domain = request.domain
        content = self._registration(route for route in routes if domain in self._domains_of(route))
        if content.routes:
            self.traffic.told += 1
            self._network.speaks(node, request.wire_format)
            answer = self._security.protect_in(_announcement(content), domain)
            has_hubs = any(route.identifier is None for route in routes)
            self._network.tell(node, uri, answer, introduces=has_hubs)

    # -- who is alive --------------------------------------------------------------------------------------------------

    def hear_heartbeat(self, message: Message) -> None:
        """Take a node's sign of life."""
        try:
            content = read(message, HeartBeat) if message.identifier == HEARTBEAT else None
        except PayloadError:
            content = None
        if content is None:
            self._refuse("malformed")
        elif not self.health.heard(content.socket_identity):
            self._refuse("heartbeat of a stranger")
        else:
            self._vouching.heard(content.socket_identity)
            self._network.speaks(content.socket_identity, message.wire_format, Evidence.HEARTBEAT)

    def lost(self, node: bytes) -> None:
        """Forget a node: it said goodbye, was silent for too long, or cannot be reached."""
        self.health.forget(node)
        self.roll_call.answered(node)
        self._hearsay.forget(node)
        self._vouching.forget(node)
        if self._routes.forget_node(node) is not None:
            log.info("node %s is gone", printable_name(node))
        self._network.disconnect(node)

    # -- time ----------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is due."""
        now = self._clock()
        passed = now - self._ticked_at
        was_away = passed > self._settings.heartbeat_interval
        self._ticked_at = now
        self.health.listen_for(passed)
        if was_away:  # the process was paused, and others will have thought it dead
            self._has_lost = True
        self.following.tick(now)
        self.refusals.tick()
        if now >= self._health_at:
            self._health_at = now + _HEALTH_PERIOD
            for node in self.health.dead():
                log.warning("node %s is silent", printable_name(node))
                self._has_lost = True
                self.lost(node)
        if not self.following.is_joined:
            return
        if was_away:
            self._joined()
        if self._unconfirmed and now >= self._announce_at:
            self._announce_again(now)
            self._unconfirmed.report_if_unheard(now, self._settings.announce_patience, self.following.server)
        if now >= self._routes_at:
            self._request_routes(now)
        for sought in self._searches.due(now):
            self._ask(*sought)
        self._misdirected.due(now)


def _announcement(content: RegisterExternalMessageRoute) -> Message:
    """Return the message that announces routes of this node, and the formats that it reads."""
    return service_message(REGISTER_ROUTE, content).clone(extension=OWN_DECLARATION)
