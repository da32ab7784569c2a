"""What must always hold, checked after every step of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from hopline.client import TICK, MessageHub
from hopline.message import Message, MessageIdentifier
from hopline.node import Node
from hopline.routing import TICKS_PER_SECOND, Delivery, Label, Outcome, Settled


class Violation(AssertionError):  # noqa: N818 - it is what the simulation looks for, not an error of its own
    """Something happened that must never happen."""


class WatchedHub:
    """A hub's port that sees which promises replies fulfil."""

    confirms_receipts = False

    def __init__(self, hub: MessageHub, note: Callable[[str], None]) -> None:
        self.identity = hub.identity
        self._note = note
        self._hub = hub
        self._fulfilled: Counter[int] = Counter()
        self.streams: set[int] = set()  # keys that take more than one reply

    def offer(self, delivery: Delivery) -> bool:
        """Count the replies that a promise took: one at most."""
        before = self._hub.unexpected
        taken = self._hub.offer(delivery)
        if self._hub.unexpected == before:
            self._count(delivery.message.callback_key)
        return taken

    def label(self, identifier: MessageIdentifier) -> Label:
        """Return what the hub itself says."""
        return self._hub.label(identifier)

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Count the values that came home without a message, too."""
        taken = self._hub.take_value(key, identifier, value)
        if taken:
            self._count(key)
        return taken

    def _count(self, key: int) -> None:
        if key not in self.streams:
            self._fulfilled[key] += 1
            if self._fulfilled[key] > 1:
                self._note(f"the promise with key {key} was fulfilled twice")


class Watch:
    """Sees what the nodes of a simulation do, and raises `Violation` when they must not."""

    def __init__(self, hop_limit: int) -> None:
        self._hop_limit = hop_limit
        self._removed: set[bytes] = set()
        self._came: dict[tuple[bytes, bytes, bytes, int], tuple[int, float]] = {}
        self.dead: dict[bytes, tuple[float, float]] = {}  # nodes that went down, when, and their heartbeat's interval
        self.steps = 0
        self.endings: Counter[Outcome] = Counter()
        self.violation: Violation | None = None

    def check(self) -> None:
        """Raise whatever was noted since the last step."""
        self.steps += 1
        if self.violation is not None:
            raise self.violation

    def check_balance(self, nodes: Iterable[Node]) -> None:
        """Check the balance of nodes."""
        for node in nodes:
            if not (stats := node.stats()).is_balanced:
                raise Violation(f"the outcomes of {node.identity.decode()} do not balance: {stats}")
            if node.is_running and any(host.waiting > node.settings.mailbox_capacity for host in node.hosts):
                raise Violation(f"a mailbox of {node.identity.decode()} holds more than it may")
            if not node.is_running and (stats.waiting or stats.promised):
                raise Violation(f"{node.identity.decode()} stopped and left something behind: {stats}")

    def expect_nothing_left(self, nodes: Iterable[Node]) -> None:
        """Check that nothing waits when all is quiet."""
        for node in nodes:
            stats = node.stats()
            hanging = sum(host.running for host in node.hosts)
            if stats.waiting and not hanging:  # behind a handler that hangs, messages without a lifetime wait forever
                raise Violation(f"{node.identity.decode()} still holds messages when all is quiet: {stats}")
            if stats.promised:
                raise Violation(f"{node.identity.decode()} still waits for answers that nobody wants: {stats}")

    def came_up(self, node: bytes) -> None:
        """Note that a node is there, or will be in a moment."""
        self.dead.pop(node, None)

    def went_down(self, node: bytes, now: float, interval: float) -> None:
        """Note that a node is gone, and that its signs of life came in such intervals."""
        self.dead[node] = (now, interval)

    def removed(self, actor: bytes) -> None:
        """Note that an actor is removed: from now on it gets nothing."""
        self._removed.add(actor)

    def added(self, actor: bytes) -> None:
        """Note that an actor is there again."""
        self._removed.discard(actor)

    def received(self, node: bytes, message: Message, now: float) -> None:
        """Note with what lifetime a message came to a node, and when by the node's clock."""
        if message.ttl_ticks:
            self._came[node, message.correlation_id, message.identity, message.hops] = (message.ttl_ticks, now)

    def sent(self, node: bytes, message: Message, now: float) -> None:
        """Look at a message that leaves a node: its hops, its trace, and what it was charged for its stay."""
        if not 0 < message.hops <= self._hop_limit:
            self.note(f"{message.identifier} was sent with {message.hops} hops")
        if len(message.routing) < message.hops:
            self.note(f"{message.identifier} was sent {message.hops} times, and traces {len(message.routing)}")
        came = self._came.get((node, message.correlation_id, message.identity, message.hops - 1))
        if came is not None:
            charged, stayed = (came[0] - message.ttl_ticks) / TICKS_PER_SECOND, now - came[1]
            if charged < stayed - TICK:
                self.note(f"{message.identifier} stayed {stayed} s and was charged {charged} s")

    def settled(self, settled: Settled) -> None:
        """Look at a message and its outcome, as the node's hook tells it."""
        self.endings[settled.outcome] += 1
        message, outcome = settled.message, settled.outcome
        if outcome is Outcome.DELIVERED and settled.receiver in self._removed:
            self.note(f"{message.identifier} was put before an actor that is removed")
        lifetime = message.ttl_ticks / TICKS_PER_SECOND
        if outcome is Outcome.DELIVERED and lifetime and settled.waited > lifetime + TICK:
            self.note(f"{message.identifier} was delivered after {settled.waited} s of a lifetime of {lifetime} s")

    def note(self, what: str) -> None:
        """Note a violation. Hooks must not harm their node, so it is raised after the step."""
        if self.violation is None:
            self.violation = Violation(what)
