"""The connection of a running node to its network.

Theory of operation. The connection assembles five parts, each with one job, and runs their timers:

    NodeSockets        binds the node's own addresses
    Outbound           sends messages and control messages straight to other nodes
    Inbound            decodes and verifies what comes, and passes it to the router or the membership
    RendezvousClient   sends to the rendezvous server, and receives what it publishes
    EmbeddedRendezvous runs a server in this node, if the network is embedded

It has two interfaces. The router uses `connect`, `discover` and `explain`: how to reach a node, and how to find a
route. The membership (`hopline.cluster`) uses the methods below "what the membership asks for": it decides what to send
and what to accept, without I/O, and the connection carries it out.

Life cycle. The constructor binds, so that addresses are known before the node has a router. `attach` creates the
membership, announces the receivers, starts reading and the timers, and waits for a rendezvous server, though not for
ever: a node without one goes on alone and keeps trying. `withdraw_actors`, `withdrawn` and `flushed` are the steps of a
graceful stop, in this order; `close` says goodbye and releases everything, also when `attach` was never called; `gone`
stops the embedded server, which must relay the goodbye first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random

from hopline.cluster import Member, Membership, RendezvousAddress, ping
from hopline.cluster.membership.health import Observation
from hopline.cluster.membership.refusals import Refusal
from hopline.cluster.messages.formats import Evidence, PeerFormats
from hopline.message import ArgumentError, Message, MessageIdentifier, NotRunningError, WireFormat, get_logger
from hopline.node.network.embedded import EmbeddedRendezvous
from hopline.node.network.inbound import Inbound
from hopline.node.network.outbound import Outbound
from hopline.node.network.rendezvous_client import RendezvousClient
from hopline.node.network.settings import Network
from hopline.node.network.sockets import NodeSockets
from hopline.node.network.unknown_kinds import UnknownKinds
from hopline.node.network.withdrawal import withdrawn
from hopline.node.report import NetworkReport, PeerReport
from hopline.node.routing.router import Router
from hopline.observers.observer import Observers
from hopline.schemas.book import SchemaBook
from hopline.security import DomainSecurity
from hopline.transport import Link
from hopline.wire import encode

log = get_logger("hopline.network")

_KEY_FILE_PERIOD = 1.0  # seconds between checks whether the key file has changed
_IDENTITY_LIMIT = 256  # bytes; libzmq's


class NetworkConnection:
    """Connects one running node to its network."""

    def __init__(
        self,
        identity: bytes,
        network: Network,
        schemas: SchemaBook,
        observers: Observers,
        clock: Callable[[], float],
    ) -> None:
        has_valid_size = 0 < len(identity) < _IDENTITY_LIMIT
        if not has_valid_size or identity.startswith(b"\0"):
            raise ArgumentError("node identity", "1 to 255 bytes, the first of them not zero", identity)
        self._identity = identity
        self._network = network
        self._schemas = schemas
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._resolved: dict[str, str] = {}  # addresses of servers, by their configured form
        self._is_attached = False
        self._is_closing = False
        self._joined = asyncio.Event()
        self._goodbyes = 0
        self._unknown_kinds = UnknownKinds(clock)
        self._known_kinds: Callable[[], Iterable[MessageIdentifier]] = tuple  # until there is a router
        self._timer: asyncio.TimerHandle | None = None
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._key_timer: asyncio.TimerHandle | None = None
        self.membership: Membership
        self._embedded: EmbeddedRendezvous | None = None
        if network.embedded:
            self._embedded = EmbeddedRendezvous(network, lambda: self.is_joined)
        self._sockets = NodeSockets(identity, network)
        self.uri = self._sockets.uri
        self.health_uri = self._sockets.health_uri
        transport = self._sockets.transport
        self.formats = PeerFormats(network.wire_format, network.cluster.known_nodes)
        self.inbound = Inbound(
            network,
            self._sockets.listener,
            self.formats,
            observers,
            clock,
        )
        self.outbound = Outbound(
            network,
            transport,
            self.formats,
            observers,
            clock,
        )
        self._health = transport.subscriber(self.inbound.take_heartbeat)
        self._rendezvous = RendezvousClient(transport, self._take_broadcast, self._lost_server)

    # -- joining -------------------------------------------------------------------------------------------------------

    async def attach(self, router: Router) -> None:
        """Join the network with the receivers of a router, and wait for a rendezvous server for a while."""
        network = self._network
        await self._resolve_servers()
        self._require_open()
        if self._embedded is not None:
            await self._embedded.start()
        self._require_open()
        member = Member(
            identity=self._identity,
            uri=self.uri,
            health_uri=self.health_uri,
        )
        self.membership = Membership(
            member,
            network.servers,
            network.cluster,
            network.security,
            router.directory,
            self,
            self._schemas,
            clock=self._clock,
            random=Random(self._identity),  # noqa: S311 - it spreads requests over time
        )
        self._known_kinds = router.directory.elsewhere.kinds
        self._is_attached = True
        self.outbound.bind(router, self.membership)
        self.inbound.bind(router, self.membership)
        self.membership.start()
        self.membership.announce(router.directory.advertised())
        router.directory.on_added = self.membership.announce
        router.directory.on_removed = self.membership.withdraw
        router.backpressure.on_full = self.inbound.hold_back
        self.inbound.read()
        self._start_timers()
        try:
            async with asyncio.timeout(network.join_timeout):
                await self._joined.wait()
        except TimeoutError:
            log.warning("no rendezvous server answers yet; the node goes on, and keeps trying")
        self._require_open()

    async def _resolve_servers(self) -> None:
        resolve = self._sockets.transport.resolve
        for server in self._network.servers:
            for uri in (server.broadcast_uri, server.unicast_uri):
                self._resolved[uri] = await resolve(uri)

    def _require_open(self) -> None:
        if self._is_closing:
            raise NotRunningError("the node was stopped while it started")

    # -- timers --------------------------------------------------------------------------------------------------------

    def _start_timers(self) -> None:
        self._send_heartbeat()
        self._tick()
        security = self._network.security
        if isinstance(security, DomainSecurity) and security.key_ring is not None:
            self._follow_key_file(security)

    def _tick(self) -> None:
        interval = self._network.cluster.tick
        self._timer = self._loop.call_later(interval, self._tick)
        self.membership.tick()
        self.outbound.close_idle()

    def _send_heartbeat(self) -> None:
        interval = self._network.cluster.heartbeat_interval
        self._heartbeat_timer = self._loop.call_later(interval, self._send_heartbeat)
        heartbeat = self.membership.heartbeat()
        for frames in self.formats.written_for_all(heartbeat):
            self._sockets.heartbeats.send(frames)

    def _follow_key_file(self, security: DomainSecurity) -> None:
        """Reload the keys when their file changes."""
        self._key_timer = self._loop.call_later(_KEY_FILE_PERIOD, self._follow_key_file, security)
        security.reload_keys()

    # -- what the router asks for --------------------------------------------------------------------------------------

    def connect(self, node: bytes, uri: str) -> Link:
        """Return the link to a node, or raise `PeerGoneError`."""
        return self.outbound.connect(node, uri)

    def discover(self, message: Message) -> None:
        """Look for a route."""
        if self._is_attached:  # else every node will be asked for all its routes in a moment
            self.membership.discover(message)
            self._unknown_kinds.note(message, self._known_kinds())

    def explain(self, identifier: MessageIdentifier) -> str | None:
        """Return why there is no route to a message, if that is because of keys."""
        if not self._is_attached:
            return None
        return self.membership.refusals.explain(identifier)

    # -- what the membership asks for ----------------------------------------------------------------------------------

    def follow(self, server: RendezvousAddress) -> None:
        """Connect to another rendezvous server."""
        self.formats.follow()
        self._rendezvous.follow(server)

    def ping(self) -> None:
        """Ask the server whether it is the leader."""
        wire_format = self.formats.next_guess()
        frames = encode(ping(), wire_format)
        self._rendezvous.send(frames)

    def publish(self, message: Message) -> bool:
        """Send a message to the server, for all nodes. Return False if it has no room."""
        frames = encode(message, self.formats.server)
        return self._rendezvous.send(frames)

    def send(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        """Send a control message straight to a node. See `Outbound.send_control`."""
        self.outbound.send_control(node, uri, message, introduces=introduces)

    def may_answer(self, node: bytes, domain: str) -> bool:
        """Return whether an answer may be sent to a node now, because not too many links are connecting."""
        return self.outbound.may_answer(node, domain)

    def disconnect(self, node: bytes) -> None:
        """Forget a node that is gone, and close the link to it."""
        self.formats.forget(node)
        self.inbound.callers.discard(node)
        self.outbound.disconnect(node)

    def is_address(self, uri: str) -> bool:
        """Return whether a node can be at an address that was announced."""
        return self._sockets.transport.can_connect(uri)

    def resolve(self, uri: str) -> str:
        """Return the address of a server with its name resolved, as of the start of the node."""
        return self._resolved.get(uri, uri)

    def note_written_format(
        self,
        node: bytes,
        wire_format: WireFormat | None,
        evidence: Evidence = Evidence.RELAYED,
    ) -> None:
        """Note in which format a node writes."""
        self.formats.record(node, wire_format, evidence)

    def note_read_formats(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        """Note which formats a node has declared to read."""
        self.formats.declare(node, formats)

    def subscribe(self, uri: str) -> None:
        """Subscribe to a node's heartbeats."""
        self._health.connect(uri)

    def unsubscribe(self, uri: str) -> None:
        """Unsubscribe from a node's heartbeats."""
        self._health.disconnect(uri)

    def _take_broadcast(self, frames: list[bytes]) -> None:
        self.inbound.take_broadcast(frames)
        if self.membership.follower.is_joined:
            self._joined.set()

    def _lost_server(self) -> None:
        now = self._clock()
        self.membership.follower.on_disconnected(now)

    # -- leaving -------------------------------------------------------------------------------------------------------

    def withdraw_actors(self) -> None:
        """Announce that this node takes no more work. Its hubs can still be reached with answers."""
        if self._is_attached:
            self.membership.retire()
            self.membership.tick()

    async def withdrawn(self) -> None:
        """Wait until other nodes have heard of the withdrawal, and what they sent before has come."""
        if self._is_attached:
            await withdrawn(self.membership, self.inbound.callers, lambda: self.is_joined)

    async def flushed(self) -> None:
        """Wait until no message waits for its peer."""
        await self.outbound.flushed()

    def close(self) -> None:
        """Announce that this node leaves, and close everything. What has left still arrives, within its time."""
        self._is_closing = True
        self._joined.set()  # wakes `attach`, which then raises
        self.inbound.cancel_pause()
        for timer in (self._timer, self._heartbeat_timer, self._key_timer):
            if timer is not None:
                timer.cancel()
        linger = self._network.linger_timeout
        self.outbound.close(linger)
        if self._is_attached:
            published_before = self.membership.traffic.published
            self.membership.leave()
            self._goodbyes = self.membership.traffic.published - published_before
        self._sockets.listener.close()
        self._rendezvous.close(linger)
        self._sockets.heartbeats.close()
        self._health.close()
        self._sockets.transport.close()

    async def gone(self) -> None:
        """Stop the embedded server, if there is one, after it has relayed the goodbye."""
        if self._embedded is not None:
            await self._embedded.stop(self._goodbyes)

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def is_joined(self) -> bool:
        """Whether a rendezvous server that leads is heard."""
        return self._is_attached and self.membership.follower.is_joined

    @property
    def is_serving(self) -> bool:
        """Whether this node runs the rendezvous server too."""
        return self._embedded is not None and self._embedded.is_serving

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Announcements of other nodes that were refused because of keys."""
        return self.membership.refusals.all if self._is_attached else ()

    @property
    def unsent(self) -> int:
        """Number of messages that the router has sent and that have not left."""
        return self.outbound.unsent

    def peers(self) -> tuple[PeerReport, ...]:
        """Return the other nodes, as this one knows them from announcements and heartbeats."""
        if not self._is_attached:
            return ()
        return tuple(map(self._peer_report, self.membership.health.observations()))

    def _peer_report(self, observation: Observation) -> PeerReport:
        node = observation.node
        authority = self.membership.authority
        location = authority.location_of(node)
        return PeerReport(
            node=node,
            uri="" if location is None else location.uri,
            domains=authority.domains_of(node),
            format=self.formats.of(node),
            known_for=observation.known_for,
            heartbeat_interval=observation.interval,
            heartbeat_age=observation.heartbeat_age,
        )

    def report(self) -> NetworkReport | None:
        """Return the state of this node's part in the network, or None before it is attached."""
        if not self._is_attached:
            return None
        membership = self.membership
        traffic = membership.traffic
        follower = membership.follower
        refused_messages = self.inbound.refused.items()
        return NetworkReport(
            rendezvous=follower.server.broadcast_uri,
            is_joined=follower.is_joined,
            rendezvous_changes=follower.changes,
            peers=len(membership.health),
            published=traffic.published,
            told=traffic.sent,
            heard=traffic.received,
            refused_routes=dict(traffic.refused),
            refused_messages={str(reason): count for reason, count in refused_messages},
            unacknowledged=self.outbound.peers.unacknowledged,
            links=self.outbound.report(),
        )
