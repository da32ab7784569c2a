"""What a node sends straight to other nodes: messages of the router, and control messages of the membership.

Both share one link to each node. The first thing on a new link is this node's introduction, which says where its hubs
are, so that answers find them. A message is signed when it is offered to a link and encoded when it leaves, because
only then its remaining lifetime and the format of the peer are certain. What a link cannot deliver goes back to the
router; of a lost control message the membership is told, which repeats answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakSet

from hopline.cluster import CONTROL, Membership
from hopline.cluster.messages.formats import PeerFormats
from hopline.message import ArgumentError, LocalError, Message, PeerGoneError, get_logger
from hopline.node.network.answer_links import AnswerLinks
from hopline.node.network.settings import Network
from hopline.node.report import LinkReport
from hopline.node.routing.router import Router
from hopline.observers.observer import Observers
from hopline.routing import TICKS_PER_SECOND, Outcome
from hopline.transport import Frames, Link, PeerLink, Transport, parse
from hopline.wire import encode

log = get_logger("hopline.network")

CONTROL_IDENTITIES = frozenset(kind.identity for kind in CONTROL)
_NEVER_LEFT = "it never left for its node"
_ANSWER_LINGER = 1.0  # seconds that answers have to leave when their link is closed in favour of another


class Outbound:
    """Sends to other nodes. `bind` must be called before anything is sent."""

    def __init__(
        self,
        network: Network,
        transport: Transport,
        formats: PeerFormats,
        observers: Observers,
        clock: Callable[[], float],
    ) -> None:
        self._limits = network.limits
        self._sign = network.security.sign
        self._formats = formats
        self._format_of = formats.by_node.get  # looked up for every message that leaves
        self._observers = observers
        self._clock = clock
        self._router: Router
        self._membership: Membership
        self._introduced: WeakSet[Link] = WeakSet()  # links that begin with this node's introduction
        self._answer_links = AnswerLinks(
            network.cluster.answer_links,
            self._close_answer_link,
        )
        self._is_closed = False
        self.peers = transport.peers(self._prepare, self._write, self._gave_up, clock)
        self.peers.on_broken = self._broke
        observers.on_change(self._follow_observers)

    def bind(self, router: Router, membership: Membership) -> None:
        """Set where messages go back to that cannot be delivered, and what introduces this node."""
        self._router = router
        self._membership = membership

    def _follow_observers(self) -> None:
        self.peers.on_sent = self._observers.frames_sent

    # -- links ---------------------------------------------------------------------------------------------------------

    def connect(self, node: bytes, uri: str) -> Link:
        """Return the link to a node for the router's messages.

        Raises:
            PeerGoneError: The node cannot be reached, because its address is none or this node stops.
        """
        link = self._link(node, uri)
        self._membership.watch(node)
        self._introduce(link, node)
        self._answer_links.carries(node)
        return link

    def _link(self, node: bytes, uri: str) -> PeerLink:
        if self._is_closed:
            raise PeerGoneError(node)
        try:
            parse(uri)
        except ArgumentError as error:
            raise PeerGoneError(node) from error
        return self.peers.link(node, uri)

    def _introduce(self, link: Link, node: bytes) -> None:
        """Send this node's introduction, unless the link began with it."""
        if link not in self._introduced:
            self._introduced.add(link)
            for message in self._membership.introduction(node):
                self._offer_control(link, node, message)

    def disconnect(self, node: bytes) -> None:
        """Close the link to a node that was removed. What never left goes back to the router."""
        self._answer_links.closed(node)
        self._close_link(node)

    def close_idle(self) -> None:
        """Close links that were opened for an answer and are no longer needed."""
        self._answer_links.close_idle(self._clock())

    def _close_link(self, node: bytes, linger: float = 0.0) -> None:
        unsent = self.peers.disconnect(node, linger)
        self._take_back(node, unsent)

    def _close_answer_link(self, node: bytes) -> None:
        self._close_link(node, linger=_ANSWER_LINGER)

    # -- what the transport calls --------------------------------------------------------------------------------------

    def _prepare(self, message: Message) -> Message:
        """Sign a message that is offered to a link. Control messages are signed by the membership."""
        if message.identity in CONTROL_IDENTITIES:
            return message
        return self._sign(message)

    def _write(self, message: Message, node: bytes, waited: float) -> Frames:
        """Encode a message that leaves after so many seconds in its link. No frames: it does not leave."""
        if waited and message.ttl_ticks:
            remaining = message.ttl_ticks - int(waited * TICKS_PER_SECOND)
            if remaining <= 0:
                self._take_back(node, [(message, waited)])
                return ()
            message = message.clone(ttl_ticks=remaining)
        wire_format = self._format_of(node) or self._formats.server
        try:
            return encode(message, wire_format, limits=self._limits)
        except LocalError:
            if not waited:  # it is being offered: the caller gets the error
                raise
            self._take_back(node, [(message, waited)])  # the peer's format has changed since it was offered
            return ()

    def _broke(self, node: bytes) -> None:
        """Note that a connection broke: an answer that has left may not have arrived."""
        self._membership.answer_lost(node)

    def _gave_up(self, node: bytes, unsent: Sequence[tuple[Message, float]]) -> None:
        """Note that a node cannot be reached.

        A node that is sent nothing but answers may be too busy to shake hands, as all are that start together. It stays
        known: others would not find it again before it asks for routes, minutes later.
        """
        is_sent_to = self._answer_links.is_carrying(node)
        self._answer_links.closed(node)
        if is_sent_to:
            self._membership.remove_node(node)
        self._membership.answer_lost(node)
        self._take_back(node, unsent)

    def _take_back(self, node: bytes, unsent: Sequence[tuple[Message, float]]) -> None:
        for message, waited in unsent:
            if message.identity in CONTROL_IDENTITIES:
                self._control_lost(node, message, Outcome.FAILED, _NEVER_LEFT)
            else:
                self._router.take_back(message, node, waited)

    # -- control messages ----------------------------------------------------------------------------------------------

    def send_control(self, node: bytes, uri: str, message: Message, *, introduces: bool) -> None:
        """Send a control message to a node, if it is there and its link has room.

        The message goes before the introduction: if the link has room for one message only, it is the answer that the
        peer asked for, and that names this node as well.

        Args:
            node: The identity of the node.
            uri: Its address.
            message: The message.
            introduces: Whether the message says where this node's hubs are, so that no introduction is needed.
        """
        try:
            link = self._link(node, uri)
        except PeerGoneError:
            log.debug("cannot answer %s", uri)
            self._control_submitted(message)
            self._control_ended(message, Outcome.FAILED, _NEVER_LEFT)
            return
        self._answer_links.answered(node, message.domain, link, self._clock())
        self._offer_control(link, node, message)
        if introduces:
            self._introduced.add(link)
        else:
            self._introduce(link, node)

    def may_answer(self, node: bytes, domain: str) -> bool:
        """Return whether an answer may be sent to a node now, because not too many links are connecting."""
        return self._answer_links.may_answer(node, domain, self._clock())

    def _offer_control(self, link: Link, node: bytes, message: Message) -> None:
        """Offer a control message to a link. If there is no room it is dropped; an answer is repeated later."""
        self._control_submitted(message)
        try:
            has_room = link.offer(message.clone(socket_identity=node))
        except PeerGoneError:
            self._control_lost(node, message, Outcome.FAILED, _NEVER_LEFT)
            return
        if not has_room:
            self._control_lost(node, message, Outcome.OVERFLOW, "no room for it in the link to its node")

    def _control_lost(self, node: bytes, message: Message, outcome: Outcome, reason: str) -> None:
        self._control_ended(message, outcome, reason)
        self._membership.answer_lost(node, message.domain)

    def _control_submitted(self, message: Message) -> None:
        if self._observers.control_submitted is not None:
            self._observers.control_submitted(message)

    def _control_ended(self, message: Message, outcome: Outcome, reason: str) -> None:
        if self._observers.control_ended is not None:
            self._observers.control_ended(message, outcome, reason)

    # -- state and end -------------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Number of the router's messages that links have accepted and that have not left."""
        count = 0
        for link in self.peers.links:
            for message in link.unsent:
                if message.identity not in CONTROL_IDENTITIES:
                    count += 1
        return count

    def report(self) -> tuple[LinkReport, ...]:
        """Return the state of every link."""
        return tuple(_link_report(link) for link in self.peers.links)

    async def flushed(self) -> None:
        """Wait until nothing waits in a link."""
        await self.peers.nothing_waits()

    def close(self, linger: float) -> None:
        """Close every link. What has left still arrives, within `linger` seconds."""
        self._is_closed = True
        self.peers.close(linger)


def _link_report(link: PeerLink) -> LinkReport:
    return LinkReport(
        node=link.node,
        uri=link.uri,
        waiting=link.waiting,
        is_silent=link.is_silent,
    )
