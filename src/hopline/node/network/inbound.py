"""What a node receives: messages of other nodes, what the rendezvous server publishes, and heartbeats.

A message of another node is decoded and verified before anything else happens; then control messages go to the
membership, and all others to the router. What is not acceptable is counted by reason. When the router has no room for
more, the node stops reading for a while, so that TCP holds back the senders.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from hopline.cluster import Membership, sender_of
from hopline.cluster.messages.formats import Evidence, PeerFormats, is_copy
from hopline.cluster.messages.service import LEADER_MESSAGES, PING
from hopline.message import Message
from hopline.node.network.outbound import CONTROL_IDENTITIES
from hopline.node.network.settings import Network
from hopline.node.routing.router import Router
from hopline.observers.observer import Observers
from hopline.routing import Outcome
from hopline.security import SecurityError
from hopline.transport import Frames, Listener
from hopline.wire import RemoteError, decode

_NOT_ROUTED = CONTROL_IDENTITIES | {PING.identity}
_LONGEST_PAUSE = 1.0  # seconds without reading


class Inbound:
    """Receives frames. `bind` must be called before anything is read."""

    def __init__(
        self,
        network: Network,
        listener: Listener,
        formats: PeerFormats,
        observers: Observers,
        clock: Callable[[], float],
    ) -> None:
        self.pings = 0
        self.refused: Counter[str] = Counter()  # messages of other nodes, by reason
        self.callers: set[bytes] = set()  # nodes that sent work for actors here
        self._limits = network.limits
        self._verify = network.security.verify
        self._listener = listener
        self._formats = formats
        self._format_by = formats.written_by.get  # looked up for every message that comes
        self._observers = observers
        self._clock = clock
        self._router: Router
        self._membership: Membership
        self._pause_timer: asyncio.TimerHandle | None = None

    def bind(self, router: Router, membership: Membership) -> None:
        """Set where messages go."""
        self._router = router
        self._membership = membership

    def read(self) -> None:
        """Begin to read what other nodes send."""
        self._listener.read(self.take)

    # -- messages of other nodes ---------------------------------------------------------------------------------------

    def take(self, frames: list[bytes]) -> None:
        """Decode, verify and pass on a message of another node."""
        now = self._clock()
        try:
            message = decode(frames, limits=self._limits)
        except RemoteError as error:
            if self._observers.frames_received is not None:
                self._observers.frames_received(frames, None)
            self.refused[error.reason] += 1
            self._router.refuse(None, str(error), frames)
            return
        if message.identity in _NOT_ROUTED:
            self._take_control(message, frames)
            return
        observe = self._observers.received
        record = None if observe is None else observe(frames, message, now)
        try:
            self._verify(message)
        except SecurityError as error:
            self.refused[error.reason] += 1
            self._router.refuse(message, str(error), frames)
            return
        routing = message.routing
        if routing:
            sender = routing[-1].identity
            if self._format_by(sender) is not message.wire_format:
                self._formats.record(sender, message.wire_format, Evidence.SENT)
            if not message.receiver_identity and sender not in self.callers:
                self._note_caller(sender)
        # A message from another node has at least one hop, or it would be forwarded as if it had started here.
        self._router.receive_from_wire(message if message.hops > 0 else message.clone(hops=1), now, record)

    def _note_caller(self, node: bytes) -> None:
        if node in self._membership.health:  # only known nodes: forged ones must not fill the set
            self.callers.add(node)

    def _take_control(self, message: Message, frames: Frames) -> None:
        observers, refused = self._observers, self._membership.traffic.refused
        if observers.frames_received is not None:
            observers.frames_received(frames, sender_of(message))
        refused_before = None if observers.control_ended is None else refused.copy()
        if message.identity == PING.identity:
            self.pings += 1
        else:
            self._membership.receive(message)
        reason = None if refused_before is None else next(iter(refused - refused_before), None)
        if reason is None:
            if observers.control_delivered is not None:
                observers.control_delivered(message)
        elif observers.control_ended is not None:
            observers.control_ended(message, Outcome.REJECTED, reason, frames)

    # -- the rendezvous server and heartbeats --------------------------------------------------------------------------

    def take_broadcast(self, frames: list[bytes]) -> None:
        """Pass on what the rendezvous server published."""
        is_copied = is_copy(frames)
        message = self._decoded(frames)
        if message is None:
            return
        is_from_leader = message.identifier in LEADER_MESSAGES
        self._formats.record_server(message.wire_format, is_own_message=is_from_leader, is_copied=is_copied)
        if not is_copied:
            self._membership.receive_broadcast(message)

    def take_heartbeat(self, frames: list[bytes]) -> None:
        """Pass on the heartbeat of a node."""
        if is_copy(frames):
            return
        message = self._decoded(frames)
        if message is not None:
            self._membership.receive_heartbeat(message)

    def _decoded(self, frames: list[bytes]) -> Message | None:
        try:
            return decode(frames, limits=self._limits)
        except RemoteError:
            self._membership.traffic.refused["malformed"] += 1
            return None

    # -- backpressure --------------------------------------------------------------------------------------------------

    def hold_back(self, is_full: bool) -> None:
        """Stop reading while no more messages can wait for room here, so that they wait at their senders.

        The answers that actors here wait for may be among what is not read, and without them room may never be made.
        Hence the pause is limited; after it, what finds no room ends as an overflow, and answers come in.
        """
        self.cancel_pause()
        if is_full:
            self._listener.pause()
        # Resume in another turn of the loop: room is made while a message is being routed.
        delay = _LONGEST_PAUSE if is_full else 0.0
        self._pause_timer = asyncio.get_running_loop().call_later(delay, self._listener.resume)

    def cancel_pause(self) -> None:
        """Cancel the timer that ends a pause."""
        if self._pause_timer is not None:
            self._pause_timer.cancel()
