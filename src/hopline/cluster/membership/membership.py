"""A node's membership in a cluster: it announces its routes, learns those of others, and notices which are gone.

Theory of operation. There is no registry. The rendezvous server relays every control message to every node, the
sender included, and each node keeps its own table of routes. That table is soft state: every message may be lost, so
each fact has a way to be repeated and a way to expire.

* **Joining.** `RendezvousFollower` finds the server that leads. When that server answers, the node publishes its routes
  and asks all others for theirs (`RouteDiscovery`).
* **Announcing.** `RouteAdvertiser` publishes an announcement or a withdrawal until it comes back from the server,
  which proves that the server has relayed it.
* **Learning.** `PeerRegistry` checks an announcement against the rules of its domain before anything changes. A route
  expires when its node answers several requests without naming it.
* **Answering.** `RouteResponder` sends this node's routes directly to a node that asks, and to a new node before it
  asks. It sends them again when they were lost on the way (`OwedAnswers`).
* **Liveness.** The nodes that this one sends to are watched by their heartbeats (`Health`). One that misses them is
  removed with all its routes; any other expires when it has not answered several requests. One that is heard again
  later is asked for its routes until it announces itself (`LostPeers`).
* **Being away.** A node that was paused, or without a server for `repeat_after`, may have been forgotten by others and
  have missed what they announced. It announces itself again, and asks, but not in every such moment: on a busy machine
  every node may be paused again and again, and announcements would keep it busy. After a shorter time neither is
  needed: changes are announced twice, and whoever forgot this node listens for it. So the failure of a server, which is
  such a time for every node, causes no messages but those that find the next server.
* **Leaving.** `retire` withdraws the actors, `DrainBarrier` shows when all messages sent before have arrived, and
  `leave` publishes the end.

Every message is verified (`Security.verify_control`) before it changes anything, with two exceptions that carry no
signature in the protocol: heartbeats, which count only for nodes that were announced, and the messages of a server
about leadership, which can only move this node between its configured servers.

This is a state machine without I/O: messages and the clock come in, and everything that has to be done goes out through
`NetworkPort` and `RouteDirectory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

from hopline.cluster.membership.advertiser import RouteAdvertiser
from hopline.cluster.membership.control_receiver import ControlReceiver
from hopline.cluster.membership.control_sender import ControlSender
from hopline.cluster.membership.discovery import RouteDiscovery
from hopline.cluster.membership.domain_authority import DomainAuthority
from hopline.cluster.membership.domain_rules import DomainRules
from hopline.cluster.membership.drain_barrier import DrainBarrier
from hopline.cluster.membership.follower import RendezvousFollower
from hopline.cluster.membership.health import Health
from hopline.cluster.membership.member import Member, Traffic
from hopline.cluster.membership.peer_registry import PeerRegistry
from hopline.cluster.membership.ports import NetworkPort, RouteDirectory, SchemaPort
from hopline.cluster.membership.refusals import Refusals
from hopline.cluster.membership.responder import RouteResponder
from hopline.cluster.messages.service import CONTROL, HEARTBEAT, NOT_LEADER, PONG, read
from hopline.cluster.messages.service_pb2 import HeartBeat, RendezvousNotLeader
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.cluster.settings import ClusterSettings
from hopline.message import Message, PayloadError
from hopline.routing import Route
from hopline.security import Security

_HEALTH_PERIOD = 0.25  # seconds between checks for dead nodes


class Membership:
    """One node's membership. Call `start` once, then `tick` regularly, and hand in every message that arrives.

    Args:
        me: The identity and the addresses of this node.
        servers: The rendezvous servers, in the order in which they are tried.
        settings: Times and limits.
        security: Signs and verifies control messages.
        directory: The routes of the node, which membership extends and reads.
        network: Where everything is sent.
        schemas: The schemas of the node's payloads.
        clock: The time in seconds, which never goes back.
        random: Spreads requests over time.
    """

    def __init__(
        self,
        me: Member,
        servers: Iterable[RendezvousAddress],
        settings: ClusterSettings,
        security: Security,
        directory: RouteDirectory,
        network: NetworkPort,
        schemas: SchemaPort,
        *,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self.me = me
        self.traffic = Traffic()
        self._settings = settings
        self._clock = clock
        rules = DomainRules(security)
        sender = ControlSender(security, network, schemas, self.traffic)
        self._advertiser = RouteAdvertiser(me, settings, rules, directory, sender, clock)
        self.refusals = Refusals(security, clock, self._advertiser.announce_all)
        self._peers = PeerRegistry(settings, rules, directory, network, schemas, self.refusals, self.traffic)
        self._discovery = RouteDiscovery(me, settings, rules, self._peers, sender, random)
        self._responder = RouteResponder(
            me,
            settings,
            rules,
            self._peers.authority,
            self._advertiser,
            sender,
            network,
            self.traffic,
            clock,
            random,
        )
        self._receiver = ControlReceiver(
            me, security, self._advertiser, self._responder, self._peers, self.refusals, self.traffic, clock
        )
        self.follower = RendezvousFollower(
            list(servers), settings, network, resolve=network.resolve, on_joined=self._on_joined
        )
        self._was_paused = False  # since it last announced itself
        self._was_away = False  # the same, or without a server
        self._announced_again_at = -math.inf
        self._ticked_at = clock()
        self._check_health_at = self._ticked_at

    def start(self) -> None:
        """Connect to the first rendezvous server."""
        self.follower.start(self._clock())

    @property
    def health(self) -> Health:
        """The known nodes, and the heartbeats of those that this one sends to."""
        return self._peers.health

    @property
    def authority(self) -> DomainAuthority:
        """The known nodes, and the domains that have announced them."""
        return self._peers.authority

    @property
    def drain_barrier(self) -> DrainBarrier:
        """The nodes whose messages may still be under way while this node stops."""
        return self._peers.drain_barrier

    # -- what this node announces --------------------------------------------------------------------------------------

    def announce(self, routes: Iterable[Route]) -> None:
        """Announce routes to this node. They are published again until they come back from the rendezvous server."""
        self._advertiser.announce(routes)

    def withdraw(self, routes: Iterable[Route]) -> None:
        """Withdraw routes that the directory has already removed."""
        self._advertiser.withdraw(routes)

    def retire(self) -> None:
        """Withdraw the actors of this node, so that no new work arrives, and keep its hubs reachable for replies."""
        self._advertiser.retire()

    @property
    def is_confirmed(self) -> bool:
        """Whether everything that was announced or withdrawn has come back from the rendezvous server."""
        return self._advertiser.is_confirmed

    @property
    def is_withdrawn(self) -> bool:
        """Whether everything that was withdrawn has come back from the rendezvous server."""
        return self._advertiser.is_withdrawn

    def heartbeat(self) -> Message:
        """Return a heartbeat of this node, to be published at its health address."""
        return self._advertiser.heartbeat()

    def leave(self) -> None:
        """Publish that this node leaves."""
        self._advertiser.leave()

    def introduction(self, node: bytes) -> list[Message]:
        """Return the messages that must precede anything else on a new link to a node."""
        return self._responder.introduction(node)

    # -- what it asks --------------------------------------------------------------------------------------------------

    def request_routes(self) -> None:
        """Ask every node for all its routes."""
        self._discovery.request_routes()

    def discover(self, message: Message) -> None:
        """Look for a route for a message. If it came from another node, also correct that node's table."""
        receiver, identifier = message.receiver_identity, message.identifier
        self._discovery.discover(receiver, identifier, self._clock())
        if message.hops:
            self._advertiser.report_misdirected(receiver, identifier)

    def _on_joined(self, silence: float) -> None:
        """Publish what no server has relayed yet; if this node was away, announce everything, and ask for routes.

        Args:
            silence: Seconds since a server was last heard.
        """
        now = self._clock()
        was_away = self._was_paused or silence >= self._settings.repeat_after
        is_first = math.isinf(silence)
        self._was_paused = False
        if was_away and not is_first:
            self._was_away = True
            self._announce_again(now)
        self._advertiser.publish_unconfirmed(now)
        if was_away:
            self._discovery.joined(now)

    def _announce_again(self, now: float) -> None:
        """Announce this node again if it was away, unless it did a moment ago."""
        if self._was_away and now - self._announced_again_at >= self._discovery.shortest_period:
            self._was_away = False
            self._announced_again_at = now
            self._advertiser.announce_all()

    # -- what it receives ----------------------------------------------------------------------------------------------

    def receive_broadcast(self, message: Message) -> None:
        """Process a message that the rendezvous server published."""
        kind, now = message.identifier, self._clock()
        try:
            if kind == HEARTBEAT:
                read(message, HeartBeat)  # one that is malformed does not count
                self.follower.on_heartbeat(now)
            elif kind == PONG:
                self.follower.on_leader_message(now)
            elif kind == NOT_LEADER:
                leader = read(message, RendezvousNotLeader).new_leader
                self.follower.on_not_leader(leader.broadcast_uri, leader.unicast_uri, now)
            elif kind in CONTROL:
                self.follower.on_leader_message(now)
                self.receive(message, is_broadcast=True)
            else:  # includes eviction notices and new server lists, which are never accepted from the network
                self.traffic.refuse("unknown kind")
        except PayloadError:
            self.traffic.refuse("malformed")

    def receive_heartbeat(self, message: Message) -> None:
        """Process a heartbeat of another node."""
        try:
            if message.identifier != HEARTBEAT:
                self.traffic.refuse("malformed")
                return
            content = read(message, HeartBeat)
        except PayloadError:
            self.traffic.refuse("malformed")
            return
        returned = self._peers.record_heartbeat(message, content, self._clock())
        if returned is not None:
            self._responder.exchange(content.socket_identity, returned.uri)

    def receive(self, message: Message, *, is_broadcast: bool = False) -> None:
        """Verify and process a control message, whether it was published or sent directly to this node."""
        self._receiver.receive(message, is_broadcast=is_broadcast)

    # -- liveness and time ---------------------------------------------------------------------------------------------

    def watch(self, node: bytes) -> None:
        """Listen for the heartbeats of a node, because this one sends messages to it."""
        self._peers.watch(node)

    def remove_node(self, node: bytes) -> None:
        """Remove a node that cannot be reached."""
        self._peers.lose(node, self._clock())

    def answer_lost(self, node: bytes, domain: str | None = None) -> None:
        """Send the latest answer to a node again in a while: it did not arrive, or may not have.

        Args:
            node: The identity of the node.
            domain: The domain of the answer, or None for all domains.
        """
        self._responder.lost(node, domain)

    def tick(self) -> None:
        """Do everything that is due."""
        now = self._clock()
        elapsed = now - self._ticked_at
        was_paused = elapsed > self._settings.heartbeat_interval  # so others may have declared this node dead
        self._ticked_at = now
        self.health.advance(elapsed)
        if was_paused:
            self._was_paused = True
        self.follower.tick(now)
        self.refusals.tick()
        self._responder.tick(now)
        if now >= self._check_health_at:
            self._check_health_at = now + _HEALTH_PERIOD
            self._peers.remove_dead(now)
        if not self.follower.is_joined:
            return
        if was_paused:
            self._on_joined(elapsed)
        self._announce_again(now)
        self._advertiser.tick(now, self.follower.server)
        self._discovery.tick(now)
