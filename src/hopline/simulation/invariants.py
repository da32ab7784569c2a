"""What must always hold for every node of a simulation, checked after every step.

A hook of a node must not raise, because the node would handle the error. So a violation that a hook detects is recorded
with `report`, and raised by `check` after the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from hopline.client import TICK, MessageHub
from hopline.message import Message, MessageIdentifier
from hopline.node import Node
from hopline.routing import TICKS_PER_SECOND, Delivery, Label, MessageOutcome, Outcome


class Violation(AssertionError):  # noqa: N818 - it is what the simulation looks for, not an error of its own
    """An invariant does not hold."""


class CheckedHub:
    """A hub's port that checks that no promise is fulfilled twice."""

    confirms_receipts = False

    def __init__(self, hub: MessageHub, report: Callable[[str], None]) -> None:
        self.identity = hub.identity
        self._report = report
        self._hub = hub
        self._fulfilled: Counter[int] = Counter()
        self.streams: set[int] = set()  # keys that accept more than one reply

    def offer(self, delivery: Delivery) -> bool:
        """Pass a reply to the hub, and count it if a promise accepted it."""
        unexpected = self._hub.unexpected
        is_accepted = self._hub.offer(delivery)
        if self._hub.unexpected == unexpected:
            self._count(delivery.message.callback_key)
        return is_accepted

    def label(self, identifier: MessageIdentifier) -> Label:
        """Return the hub's own label."""
        return self._hub.label(identifier)

    def take_value(self, key: int, identifier: MessageIdentifier, value: object) -> bool:
        """Pass a reply that was not encoded to the hub, and count it if a promise accepted it."""
        is_accepted = self._hub.take_value(key, identifier, value)
        if is_accepted:
            self._count(key)
        return is_accepted

    def _count(self, key: int) -> None:
        if key in self.streams:
            return
        self._fulfilled[key] += 1
        if self._fulfilled[key] > 1:
            self._report(f"the promise with key {key} was fulfilled twice")


class _ArrivalKey(NamedTuple):
    """A message at a node: its flow, its kind, and how often it was sent."""

    node: bytes
    correlation_id: bytes
    identity: bytes
    hops: int


class _Arrival(NamedTuple):
    """The lifetime of a message when it arrived, and the time by the clock of the node."""

    ttl_ticks: int
    time: float


class NodeInvariants:
    """Observes the nodes of a simulation, and raises `Violation` from `check`."""

    def __init__(self, hop_limit: int) -> None:
        self._hop_limit = hop_limit
        self._removed_actors: set[bytes] = set()
        self._arrivals: dict[_ArrivalKey, _Arrival] = {}
        self.dead: dict[bytes, tuple[float, float]] = {}  # stopped nodes: since when, and their heartbeat interval
        self.steps = 0
        self.outcomes: Counter[Outcome] = Counter()
        self._violation: Violation | None = None

    def report(self, problem: str) -> None:
        """Record a violation, to be raised after the step. Only the first one counts."""
        if self._violation is None:
            self._violation = Violation(problem)

    # -- checks --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the violation that was reported since the last step, if there is one."""
        self.steps += 1
        if self._violation is not None:
            raise self._violation

    def check_balance(self, nodes: Iterable[Node]) -> None:
        """Check that every message of the nodes is accounted for, and that mailboxes keep their bounds."""
        for node in nodes:
            stats = node.stats()
            name = node.identity.decode()
            if not stats.is_balanced:
                raise Violation(f"the outcomes of {name} do not balance: {stats}")
            if not node.is_running:
                if stats.waiting or stats.promised:
                    raise Violation(f"{name} has stopped with unfinished messages: {stats}")
                continue
            capacity = node.settings.mailbox_capacity
            for host in node.hosts:
                if host.waiting > capacity:
                    raise Violation(f"a mailbox of {name} holds more than its capacity")

    def check_idle(self, nodes: Iterable[Node]) -> None:
        """Check that nothing waits when no more calls are made."""
        for node in nodes:
            stats = node.stats()
            name = node.identity.decode()
            # Behind a handler that hangs, messages without a lifetime wait for ever.
            is_hanging = any(host.running for host in node.hosts)
            if stats.waiting and not is_hanging:
                raise Violation(f"{name} still holds messages although it is idle: {stats}")
            if stats.promised:
                raise Violation(f"{name} still waits for replies although no caller does: {stats}")

    # -- observations --------------------------------------------------------------------------------------------------

    def node_started(self, node: bytes) -> None:
        """Record that a node runs, or is about to."""
        self.dead.pop(node, None)

    def node_stopped(self, node: bytes, now: float, heartbeat_interval: float) -> None:
        """Record that a node has stopped or crashed."""
        self.dead[node] = (now, heartbeat_interval)

    def actor_removed(self, actor: bytes) -> None:
        """Record that an actor was removed: no message may be delivered to it from now on."""
        self._removed_actors.add(actor)

    def actor_added(self, actor: bytes) -> None:
        """Record that an actor was added again."""
        self._removed_actors.discard(actor)

    def received(self, node: bytes, message: Message, now: float) -> None:
        """Record the lifetime with which a message arrived at a node, and the time by the node's clock."""
        if message.ttl_ticks:
            key = _ArrivalKey(node, message.correlation_id, message.identity, message.hops)
            self._arrivals[key] = _Arrival(message.ttl_ticks, now)

    def sent(self, node: bytes, message: Message, now: float) -> None:
        """Check a message that leaves a node: its hops, its trace, and that its stay was deducted from its lifetime."""
        identifier = message.identifier
        hops = message.hops
        entries = len(message.routing)
        if not 0 < hops <= self._hop_limit:
            self.report(f"{identifier} was sent with {hops} hops")
        if entries < hops:
            self.report(f"{identifier} was sent {hops} times, but its trace has {entries} entries")
        arrival_key = _ArrivalKey(node, message.correlation_id, message.identity, hops - 1)
        arrival = self._arrivals.get(arrival_key)
        if arrival is None:
            return
        deducted_ticks = arrival.ttl_ticks - message.ttl_ticks
        deducted = deducted_ticks / TICKS_PER_SECOND
        stay = now - arrival.time
        if deducted < stay - TICK:
            self.report(f"{identifier} stayed for {stay} s, but {deducted} s were deducted from its lifetime")

    def on_outcome(self, settled: MessageOutcome) -> None:
        """Check the outcome of a message, as the node's hook reports it."""
        self.outcomes[settled.outcome] += 1
        if settled.outcome is not Outcome.DELIVERED:
            return
        message = settled.message
        identifier = message.identifier
        waited = settled.waited
        if settled.receiver in self._removed_actors:
            self.report(f"{identifier} was delivered to an actor that was removed")
        lifetime = message.ttl_ticks / TICKS_PER_SECOND
        if lifetime and waited > lifetime + TICK:
            self.report(f"{identifier} was delivered after {waited} s of a lifetime of {lifetime} s")
