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
  asks.
* **Liveness.** Every known node is watched by its heartbeats (`Health`). A node that misses them is removed with all
  its routes. A node that missed the heartbeats of others may itself have been declared dead, so it announces itself
  again. Only nodes that were away do so: if every node that misses a dead one did, one death would make all nodes
  announce themselves.
* **Leaving.** `retire` withdraws the actors, `DrainBarrier` shows when all messages sent before have arrived, and
  `leave` publishes the end.

Every message is verified (`Security.verify_control`) before it changes anything, with two exceptions that carry no
signature in the protocol: heartbeats, which count only for nodes that were announced, and the messages of a server
about leadership, which can only move this node between its configured servers.

This is a state machine without I/O: messages and the clock come in, and everything that has to be done goes out through
`NetworkPort` and `RouteDirectory`.
"""

from __future__ import annotations

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
from hopline.cluster.membership.ports import NetworkPort, RouteDirectory
from hopline.cluster.membership.refusals import Refusals
from hopline.cluster.membership.responder import RouteResponder
from hopline.cluster.messages.service import CONTROL, HEARTBEAT, NOT_LEADER, PONG, read
from hopline.cluster.messages.service_pb2 import HeartBeat, RendezvousNotLeader
from hopline.cluster.messages.timespan import from_timespan
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
        *,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self.me = me
        self.traffic = Traffic()
        self._settings = settings
        self._clock = clock
        rules = DomainRules(security)
        sender = ControlSender(security, network, self.traffic)
        self._advertiser = RouteAdvertiser(me, settings, rules, directory, sender, clock)
        self.refusals = Refusals(security, clock, self._advertiser.announce_all)
        self._peers = PeerRegistry(settings, rules, directory, network, self.refusals, self.traffic)
        self._discovery = RouteDiscovery(me, settings, rules, self._peers, sender, random)
        self._responder = RouteResponder(
            me,
            settings.known_nodes,
            rules,
            self._peers.authority,
            self._advertiser,
            sender,
            network,
            self.traffic,
            clock,
        )
        self._receiver = ControlReceiver(
            me, security, self._advertiser, self._responder, self._peers, self.refusals, self.traffic, clock
        )
        self.follower = RendezvousFollower(
            list(servers), settings, network, resolve=network.resolve, on_joined=self._on_joined
        )
        self._has_missed_peers = False  # a peer fell silent, or this node was paused, since it last announced itself
        self._ticked_at = clock()
        self._check_health_at = self._ticked_at

    def start(self) -> None:
        """Connect to the first rendezvous server."""
        self.follower.start(self._clock())

    @property
    def health(self) -> Health:
        """The known nodes and their heartbeats."""
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

    def _on_joined(self) -> None:
        """Publish what no server has relayed yet, and ask for routes."""
        now = self._clock()
        if self._has_missed_peers:
            self._has_missed_peers = False
            self._advertiser.announce_all()
        self._advertiser.publish_unconfirmed(now)
        self._discovery.joined(now)

    # -- what it receives ----------------------------------------------------------------------------------------------

    def receive_broadcast(self, message: Message) -> None:
        """Process a message that the rendezvous server published."""
        kind, now = message.identifier, self._clock()
        try:
            if kind == HEARTBEAT:
                self._receive_server_heartbeat(message, now)
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

    def _receive_server_heartbeat(self, message: Message, now: float) -> None:
        interval = from_timespan(read(message, HeartBeat).heart_beat_interval).total_seconds()
        is_late = self.follower.on_heartbeat(interval, now)
        if is_late and self._has_missed_peers:
            self._on_joined()

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
        self._peers.record_heartbeat(message, content)

    def receive(self, message: Message, *, is_broadcast: bool = False) -> None:
        """Verify and process a control message, whether it was published or sent directly to this node."""
        self._receiver.receive(message, is_broadcast=is_broadcast)

    # -- liveness and time ---------------------------------------------------------------------------------------------

    def remove_node(self, node: bytes) -> None:
        """Remove a node that cannot be reached."""
        self._peers.remove(node)

    def tick(self) -> None:
        """Do everything that is due."""
        now = self._clock()
        elapsed = now - self._ticked_at
        was_paused = elapsed > self._settings.heartbeat_interval  # so others may have declared this node dead
        self._ticked_at = now
        self.health.advance(elapsed)
        if was_paused:
            self._has_missed_peers = True
        self.follower.tick(now)
        self.refusals.tick()
        if now >= self._check_health_at:
            self._check_health_at = now + _HEALTH_PERIOD
            if self._peers.remove_dead():
                self._has_missed_peers = True
        if not self.follower.is_joined:
            return
        if was_paused:
            self._on_joined()
        self._advertiser.tick(now, self.follower.server)
        self._discovery.tick(now)
