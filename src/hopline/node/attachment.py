"""What attaches a running node to its network: the sockets on one side, the router and the membership on the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from weakref import WeakSet

from hopline.cluster import CONTROL, Member, Membership, RendezvousAddress, ping, said_by
from hopline.cluster.formats import Evidence, PeerFormats, is_copy
from hopline.cluster.refusals import Refusal
from hopline.cluster.relay import LEADERS_KINDS
from hopline.cluster.service import PING
from hopline.message import (
    LocalError,
    Message,
    MessageIdentifier,
    NotRunningError,
    PeerGoneError,
    WireFormat,
    get_logger,
)
from hopline.node.answer_links import AnswerLinks
from hopline.node.embedded import EmbeddedRendezvous
from hopline.node.network import Network
from hopline.node.report import LinkReport, NetworkReport
from hopline.node.router import Router
from hopline.node.tap import OnReceived, Tap
from hopline.node.uplink import Uplink
from hopline.routing import TICKS_PER_SECOND, Outcome
from hopline.security import DomainSecurity, SecurityError
from hopline.transport import Frames, Link, PeerLink, advertised, open_transport, parse
from hopline.wire import RemoteError, decode, encode

log = get_logger("hopline.network")

_CONTROL = frozenset(kind.identity for kind in CONTROL)
_NOT_ROUTED = _CONTROL | {PING.identity}
_KEY_FILE_PERIOD = 1.0  # seconds between looks whether the key file changed
_UNDER_WAY = 0.1  # seconds for the first message of a node that has sent none before and has not heard that we stop
_ROLL_CALL_TIME = 3.0  # seconds within which those who sent work must have heard that we stop
_ASK_AGAIN = 0.6  # seconds between questions; who was told everything half a second ago is not told again
_LOOK = 0.005
_OUTLET_CAPACITY = 1_000
_NEVER_LEFT = "it never left for its node"
_LONGEST_PAUSE = 1.0  # seconds without reading
_ANSWER_LINGER = 1.0  # seconds that answers may still take to leave when their link makes room for another
_LONGEST_IDENTITY = 256  # libzmq's limit


class Attachment:
    """Lives as long as the node runs. Opening binds; attaching joins; leaving and closing undo both."""

    def __init__(self, identity: bytes, network: Network, clock: Callable[[], float]) -> None:
        if not 0 < len(identity) < _LONGEST_IDENTITY or identity.startswith(b"\0"):
            raise LocalError("node identity", "1 to 255 bytes, the first of them not zero", identity)
        self._identity = identity
        self._network = network
        self._limits = network.limits
        self._protect = network.security.protect
        self._check = network.security.check
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._formats = PeerFormats(network.wire_format, network.cluster.known_nodes)
        self._format_of = self._formats.by_node.get  # asked for every message that leaves
        self._format_by = self._formats.written_by.get  # and for every message that comes
        self._introduced: WeakSet[Link] = WeakSet()  # links that begin with where this node's hubs are
        self._answer_links = AnswerLinks(network.cluster.answer_links, self._close_answer_link, self._is_alive)
        self._resolved: dict[str, str] = {}
        self._is_closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._key_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None
        self._joined = asyncio.Event()
        self.pings = 0
        self._tap: Tap | None = None
        self._on_received: OnReceived | None = None
        self._refused: Counter[str] = Counter()  # messages of other nodes, by reason
        self._goodbyes = 0
        self._callers: set[bytes] = set()  # nodes that sent work for actors here
        self._router: Router
        self.membership: Membership
        self._is_attached = False
        self._embedded = EmbeddedRendezvous(network, lambda: self.is_joined) if network.embedded else None
        self._open()

    # -- sockets -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        network = self._network
        host = parse(network.address).host
        self._transport = network.transport or open_transport(network.sockets, network.curve)
        try:
            self._frontend = self._transport.listener(network.address, "address", identity=self._identity)
            self.uri = advertised(self._frontend.uri, network.advertise)
        except LocalError:
            self._transport.close()
            raise
        try:
            self._heartbeats, health_uri = self._transport.publisher(
                network.heartbeat_address or f"tcp://{host}:0", "heartbeat_address", _OUTLET_CAPACITY
            )
            self.health_uri = advertised(health_uri, network.advertise)
        except LocalError:
            self._frontend.close()
            self._transport.close()
            raise
        self._health = self._transport.subscriber(self._take_heartbeat)
        self._backend = self._transport.peers(self._prepare, self._write, self._gave_up, self._clock)
        self._uplink = Uplink(self._transport, self._take_broadcast, self._uplink_broke)

    def watch(self, tap: Tap | None, *, everything: bool) -> None:  # noqa: ARG002 - the wire is always of interest
        """Tell a tap what goes over the wire."""
        self._tap = tap
        self._on_received = None if tap is None else tap.on_received
        self._backend.on_sent = None if tap is None else tap.on_sent

    async def attach(self, router: Router) -> None:
        """Join the network with what the router has, and wait for a rendezvous server for a while."""
        network = self._network
        servers = network.servers
        for server in servers:
            for uri in (server.broadcast_uri, server.unicast_uri):
                self._resolved[uri] = await self._transport.resolve(uri)
        self._require_open()
        if self._embedded is not None:
            await self._embedded.start()
        self._require_open()
        self._router = router
        self.membership = Membership(
            Member(identity=self._identity, uri=self.uri, health_uri=self.health_uri),
            servers,
            network.cluster,
            network.security,
            router.directory,
            self,
            clock=self._clock,
            random=Random(self._identity),  # noqa: S311 - it spreads requests over time
        )
        self._is_attached = True
        self.membership.announce(router.directory.advertised())
        router.directory.on_added = self.membership.announce
        router.directory.on_removed = self.membership.withdraw
        router.on_full = self._hold_up
        self._frontend.read(self._take)
        self._send_heartbeat()
        self._tick()
        if isinstance(network.security, DomainSecurity) and network.security.key_ring is not None:
            self._follow_key_file(network.security)
        try:
            async with asyncio.timeout(network.join_time):
                await self._joined.wait()
        except TimeoutError:
            log.warning("no rendezvous server answers yet; the node goes on, and keeps trying")
        self._require_open()

    def _require_open(self) -> None:
        if self._is_closing:
            raise NotRunningError("the node was stopped while it started")

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._network.cluster.tick, self._tick)
        self.membership.tick()
        self._answer_links.close_idle(self._clock())

    def _send_heartbeat(self) -> None:
        self._heartbeat_timer = self._loop.call_later(self._network.cluster.heartbeat_interval, self._send_heartbeat)
        for frames in self._formats.written_for_all(self.membership.heartbeat()):
            self._heartbeats.send(frames)

    def _follow_key_file(self, security: DomainSecurity) -> None:
        """Use other keys as soon as they are in the file."""
        self._key_timer = self._loop.call_later(_KEY_FILE_PERIOD, self._follow_key_file, security)
        security.reload_keys()

    # -- what the router asks for --------------------------------------------------------------------------------------

    def connect(self, node: bytes, uri: str) -> Link:
        """Return the link to a node. A new one begins with this node's introduction."""
        link = self._link(node, uri)
        self._introduce(link, node)
        self._answer_links.carries(node)
        return link

    def _introduce(self, link: Link, node: bytes) -> None:
        """Tell a node where the hubs of this one are, unless it was told on this link."""
        if link not in self._introduced:
            self._introduced.add(link)
            for message in self.membership.introduction(node):
                self._offer(link, node, message)

    def _link(self, node: bytes, uri: str) -> PeerLink:
        if self._is_closing:
            raise PeerGoneError(node)
        try:
            parse(uri)
        except LocalError as error:
            raise PeerGoneError(node) from error
        return self._backend.link(node, uri)

    def discover(self, message: Message) -> None:
        """Look for a route."""
        if self._is_attached:  # else everybody is asked for everything in a moment
            self.membership.look_for(message)

    def explain(self, identifier: MessageIdentifier) -> str | None:
        """Return why there is no route to a message, if that is because of keys."""
        return self.membership.refusals.explain(identifier) if self._is_attached else None

    def _prepare(self, message: Message) -> Message:
        return message if message.identity in _CONTROL else self._protect(message)

    def _write(self, message: Message, node: bytes, waited: float) -> Frames:
        if waited and message.ttl_ticks:
            left = message.ttl_ticks - int(waited * TICKS_PER_SECOND)
            if left <= 0:
                self._take_back(node, [(message, waited)])
                return ()
            message = message.clone(ttl_ticks=left)
        try:
            return encode(message, self._format_of(node) or self._formats.server, limits=self._limits)
        except LocalError:
            if not waited:  # whoever offers it is told
                raise
            self._take_back(node, [(message, waited)])  # the peer's format is another since it was offered
            return ()

    def _gave_up(self, node: bytes, left: list[tuple[Message, float]]) -> None:
        self._answer_links.closed(node)
        self.membership.lost(node)
        self._take_back(node, left)

    def _take_back(self, node: bytes, left: list[tuple[Message, float]]) -> None:
        for message, waited in left:
            if message.identity not in _CONTROL:
                self._router.take_back(message, node, waited)
            elif self._tap is not None:
                self._tap.ended(message, Outcome.FAILED, _NEVER_LEFT)

    # -- what comes in -------------------------------------------------------------------------------------------------

    def _take(self, frames: list[bytes]) -> None:
        """Take a message from another node."""
        now = self._clock()
        try:
            message = decode(frames, limits=self._limits)
        except RemoteError as error:
            if self._tap is not None:
                self._tap.received_from(None, frames)
            self._refused[error.reason] += 1
            self._router.refuse(None, str(error), frames)
            return
        if message.identity in _NOT_ROUTED:
            self._take_control(message, frames)
            return
        if self._on_received is not None:
            self._on_received(frames, message, now)
        try:
            self._check(message)
        except SecurityError as error:
            self._refused[error.reason] += 1
            self._router.refuse(message, str(error), frames)
            return
        routing = message.routing
        if routing and self._format_by(routing[-1].identity) is not message.wire_format:
            self.speaks(routing[-1].identity, message.wire_format, Evidence.SENT)
        if routing and not message.receiver_identity and routing[-1].identity not in self._callers:
            self._note_caller(routing[-1].identity)
        # Whatever comes from outside was sent at least once: else it would be sent on as if it had begun here.
        self._router.receive(message if message.hops > 0 else message.clone(hops=1), now)
        if self._tap is not None:
            self._tap.arrival = None

    def _hold_up(self, is_full: bool) -> None:
        """Read nothing while no more messages can wait for room here, so that those who send them wait there.

        Among what is not read may be the answers that actors here wait for, and without which no room is ever made.
        Hence the pause has an end: after it, what finds no room overflows, and answers come in.
        """
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        if is_full:
            self._frontend.pause()
        # Not at once where there is room: it was made while a message was being routed.
        self._pause_timer = self._loop.call_later(_LONGEST_PAUSE if is_full else 0.0, self._frontend.resume)

    def _note_caller(self, node: bytes) -> None:
        if node in self.membership.health:  # else anybody could fill this
            self._callers.add(node)

    def _take_control(self, message: Message, frames: Frames) -> None:
        tap, refused = self._tap, self.membership.traffic.refused
        before = None if tap is None else refused.copy()
        if tap is not None:
            tap.received_from(said_by(message), frames)
        if message.identity == PING.identity:
            self.pings += 1
        else:
            self.membership.take(message)
        if tap is not None and before is not None:
            reasons = refused - before
            tap.took_control(message, frames, next(iter(reasons), None))

    def _take_broadcast(self, frames: list[bytes]) -> None:
        """Take what the rendezvous server published."""
        is_copied = is_copy(frames)
        try:
            message = decode(frames, limits=self._network.limits)
        except RemoteError:
            self.membership.traffic.refused["malformed"] += 1
            return
        says_it_itself = message.identifier in LEADERS_KINDS
        self._formats.hear_server(message.wire_format, says_it_itself=says_it_itself, is_copied=is_copied)
        if is_copied:
            return
        self.membership.hear(message)
        if self.membership.following.is_joined:
            self._joined.set()

    def _take_heartbeat(self, frames: list[bytes]) -> None:
        if is_copy(frames):
            return
        try:
            message = decode(frames, limits=self._network.limits)
        except RemoteError:
            self.membership.traffic.refused["malformed"] += 1
            return
        self.membership.hear_heartbeat(message)

    # -- what the membership asks for ----------------------------------------------------------------------------------

    def follow(self, server: RendezvousAddress) -> None:
        """Connect to another rendezvous server."""
        self._formats.follow()
        self._uplink.follow(server)

    def ping(self) -> None:
        """Ask the server whether it leads."""
        self._uplink.send(encode(ping(), self._formats.next_guess()))

    def publish(self, message: Message) -> bool:
        """Give a message to the server, for everybody."""
        return self._uplink.send(encode(message, self._formats.server))

    def _uplink_broke(self) -> None:
        self.membership.following.broke(self._clock())

    def tell(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        """Send a message straight to a node, if it is there and has room; one that `introduces` may open the link.

        Where there is room for one message only, it is that of the answer that was asked for: it names this node too.
        """
        try:
            link = self._link(node, uri)
        except PeerGoneError:
            log.debug("cannot answer %s", uri)
            if self._tap is not None:
                self._tap.tells(message)
                self._tap.ended(message, Outcome.FAILED, _NEVER_LEFT)
            return
        self._answer_links.answered(node, message.domain, link, self._clock())
        self._offer(link, node, message)
        if introduces:
            self._introduced.add(link)
        else:
            self._introduce(link, node)

    def _offer(self, link: Link, node: bytes, message: Message) -> None:
        """Offer a message about routes to a link; what finds no room there is said again when somebody asks."""
        tap = self._tap
        if tap is not None:
            tap.tells(message)
        try:
            has_room = link.offer(message.clone(socket_identity=node))
        except PeerGoneError:
            has_room = True
            if tap is not None:
                tap.ended(message, Outcome.FAILED, _NEVER_LEFT)
        if tap is not None and not has_room:
            tap.ended(message, Outcome.OVERFLOW, "no room for it in the link to its node")

    def disconnect(self, node: bytes) -> None:
        """Close the link to a node that is gone; what never left may find another way."""
        self._formats.forget(node)
        self._callers.discard(node)
        self._answer_links.closed(node)
        self._close_link(node)

    def _close_link(self, node: bytes, linger: float = 0.0) -> None:
        self._take_back(node, self._backend.disconnect(node, linger))

    def _close_answer_link(self, node: bytes) -> None:
        self._close_link(node, linger=_ANSWER_LINGER)

    def _is_alive(self, node: bytes) -> bool:
        return self.membership.health.was_heard(node)

    def is_address(self, uri: str) -> bool:
        """Tell whether a node can be at an address that it or another one announced."""
        return self._transport.can_connect(uri)

    def resolve(self, uri: str) -> str:
        """Give an address of a server with its name looked up, as of when the node started."""
        return self._resolved.get(uri, uri)

    def speaks(self, node: bytes, wire_format: WireFormat | None, evidence: Evidence = Evidence.RELAYED) -> None:
        """Note in which format a node writes."""
        self._formats.learn(node, wire_format, evidence)

    def reads(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        """Note which formats a node has declared to read."""
        self._formats.declare(node, formats)

    def subscribe(self, uri: str) -> None:
        """Listen to a node's signs of life."""
        self._health.connect(uri)

    def unsubscribe(self, uri: str) -> None:
        """Listen no longer."""
        self._health.disconnect(uri)

    # -- the end -------------------------------------------------------------------------------------------------------

    def withdraw_actors(self) -> None:
        """Let no new work come: others forget the actors here, and still reach the hubs with their answers."""
        if not self._is_attached:
            return
        self.membership.retire()
        self.membership.tick()

    async def withdrawn(self) -> None:
        """Wait until others heard of it, and what they sent before has come."""
        if not self._is_attached or self.membership.is_withdrawn or not self.membership.health:
            return
        while self.is_joined and not self.membership.is_withdrawn:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(_LOOK)
        await self._heard_by_callers()
        await asyncio.sleep(_UNDER_WAY)

    async def _heard_by_callers(self) -> None:
        """Wait until whatever was sent here before its sender heard of the withdrawal has come. See `RollCall`."""
        membership, loop = self.membership, self._loop
        roll_call = membership.roll_call
        roll_call.begin(node for node in self._callers if node in membership.health)
        deadline = loop.time() + _ROLL_CALL_TIME
        ask_at = 0.0
        while self.is_joined and not roll_call.is_complete and (now := loop.time()) < deadline:
            if now >= ask_at:
                membership.ask_everybody()
                ask_at = now + _ASK_AGAIN
            await asyncio.sleep(_LOOK)

    async def flushed(self) -> None:
        """Wait until no message waits for its peer."""
        await self._backend.nothing_waits()

    def close(self) -> None:
        """Say goodbye, and close everything; what left already still gets there, within its time."""
        self._is_closing = True
        self._joined.set()  # who still waits for that is told
        for timer in (self._timer, self._heartbeat_timer, self._key_timer, self._pause_timer):
            if timer is not None:
                timer.cancel()
        linger = self._network.goodbye_time
        self._backend.close(linger)
        if self._is_attached:
            said = self.membership.traffic.published
            self.membership.leave()
            self._goodbyes = self.membership.traffic.published - said
        self._frontend.close()
        self._uplink.close(linger)
        self._heartbeats.close()
        self._health.close()
        self._transport.close()

    async def gone(self) -> None:
        """Stop the server, if this node has it, once it relayed the goodbye."""
        if self._embedded is not None:
            await self._embedded.stop(self._goodbyes)

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def is_joined(self) -> bool:
        """Tell whether a rendezvous server that leads is heard."""
        return self._is_attached and self.membership.following.is_joined

    @property
    def is_serving(self) -> bool:
        """Tell whether this node is the rendezvous too."""
        return self._embedded is not None and self._embedded.is_serving

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What other nodes said and was refused because of keys."""
        return self.membership.refusals.all if self._is_attached else ()

    @property
    def unsent(self) -> int:
        """How many messages that the router sent have not left yet."""
        return sum(message.identity not in _CONTROL for link in self._backend.links for message in link.unsent)

    def report(self) -> NetworkReport | None:
        """Tell of this node's part in the network, if it has one already."""
        if not self._is_attached:
            return None
        membership = self.membership
        traffic, following = membership.traffic, membership.following
        return NetworkReport(
            rendezvous=following.server.broadcast_uri,
            is_joined=following.is_joined,
            rendezvous_changes=following.changes,
            peers=len(membership.health),
            published=traffic.published,
            told=traffic.told,
            heard=traffic.heard,
            refused_routes=dict(traffic.refused),
            refused_messages={str(reason): count for reason, count in self._refused.items()},
            unacknowledged=self._backend.unacknowledged,
            links=tuple(
                LinkReport(node=link.node, uri=link.uri, waiting=link.waiting, is_silent=link.is_silent)
                for link in self._backend.links
            ),
        )
