"""Instantiating a flow template for many flows at once: nodes for the roles, times of the steps, bytes of messages.

Theory of operation. All arrays have one row per flow, except for the repeated steps of a huge flow: a batch with such
steps has a single flow, and their arrays have one row per item. Random values come from one `RandomStream` in the order
in which they are needed, and what a flow's number alone must determine (its ids) is hashed from that number; so a seed
always gives the same bytes, and the order of draws in this file is part of the format.

A handler's own requests are nested batches, created while the times of the outer one are computed, because a handler
goes on only when it has its answers. The flows of a nested batch are numbered behind those of the batches before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hopline.generator.compiled_scenarios import CompiledFlow
from hopline.generator.flow_template import (
    ANY_NODE,
    ATTACKER,
    EVERY_NODE,
    GATEWAY,
    MISSING,
    OTHER_ATTACKER,
    REQUESTER,
    Delay,
    Lifetime,
    Step,
)
from hopline.generator.frame_templates import FrameTemplate, Slot, SlotKind
from hopline.generator.placeholders import TICKS_PER_MILLISECOND
from hopline.generator.randomness import Numbers, Octets, RandomStream, guids, hashed, hex_digits
from hopline.generator.topology import Topology, node_of_service
from hopline.security.mac import Mac

TICKS_PER_MICROSECOND = 10
MILLISECOND = 1_000

# The shortest delay and how much longer it may be, in microseconds. Most are little longer than the shortest.
_DELAYS = {
    Delay.QUEUE: (4, 90),
    Delay.TRANSIT: (0, 900),
    Delay.MAILBOX: (12, 4_000),
    Delay.RUN: (120, 24_000),
    Delay.IMMEDIATE: (2, 30),
    Delay.OVERTIME: (20_000, 400_000),
    Delay.EXPIRY: (10, 500),
    Delay.DUPLICATE: (200, 40_000),
    Delay.REPLAY: (1_000_000, 18_000_000),
    Delay.FORWARD: (3, 40),
}
_LONGEST_RUN = _DELAYS[Delay.RUN][1]
_LIFETIMES_MS = {
    Lifetime.UNLIMITED: (0, 1),
    Lifetime.LONG: (5_000, 12_000),
    Lifetime.SHORT: (120, 400),
}
_MAX_ITEM_INTERVAL_US, _MAX_ITEMS_DURATION_US = 60, 6_000_000
_BUSINESS_ID_SEED = 0x1D
_UNCAPTURED = {GATEWAY: 0, ATTACKER: 1, OTHER_ATTACKER: 2}  # in the order of the topology


@dataclass(frozen=True, kw_only=True)
class GeneratorContext:
    """What all batches share."""

    topology: Topology
    seed: int
    keys: Mapping[str, Sequence[Mac]]
    key_change: int  # time from which the newest key of a domain signs
    items: int  # answers of a huge flow

    @property
    def item_interval(self) -> int:
        """Microseconds between two answers of a huge flow."""
        interval = min(_MAX_ITEM_INTERVAL_US, _MAX_ITEMS_DURATION_US // self.items)
        return max(1, interval)


@dataclass(frozen=True)
class ParentStep:
    """What began the flows of a nested batch: the delivery that was being handled, and the nodes where."""

    batch: FlowBatch
    step: int
    nodes: Numbers


class FlowBatch:
    """Some flows of one template.

    Attributes:
        flows: The number of each flow.
        nodes: The node of each role, one column per role.
        times: The times of each step, in microseconds since the start, by a perfect clock.
        lifetimes: The lifetime of each request in microseconds, zero without a limit.
        nested: The batches that its handlers began.
    """

    def __init__(
        self,
        context: GeneratorContext,
        compiled: CompiledFlow,
        flows: Numbers,
        starts: Numbers,
        stream: RandomStream,
        parent: ParentStep | None = None,
    ) -> None:
        self.context = context
        self.compiled = compiled
        self.template = compiled.template
        self.flows = flows
        self.count = len(flows)
        self.parent = parent
        self.nested: list[FlowBatch] = []
        self._stream = stream
        self._noise: dict[int, Octets] = {}
        self._signatures: dict[int, Octets] = {}
        self.correlations = guids(context.seed, flows)
        self._business_ids = _business_ids(context.seed, flows)
        self.nodes = self._assign_roles()
        shortest, span = _LIFETIMES_MS[self.template.lifetime]
        self.lifetimes = (shortest + stream.below(span, self.count)) * MILLISECOND
        self.times: list[Numbers] = []
        self._schedule(starts)

    # -- roles ---------------------------------------------------------------------------------------------------------

    def _assign_roles(self) -> Numbers:
        """Return a node for each role, one column per role."""
        roles = self.template.roles
        columns: list[Numbers] = []
        for role in roles:
            columns.append(columns[-1] if role == ANY_NODE else self._candidates(role))
        if self.parent is not None:
            self._put_requester_on_parent_node(columns, self.parent.nodes)
        elif roles[0] == REQUESTER and len(roles) > 1:
            self._keep_requester_from_partners(columns)
        for index, role in enumerate(roles):
            if role == ANY_NODE:
                columns[index] = self._neighbours(columns, index)
        return np.stack(columns, axis=1)

    def _candidates(self, role: int) -> Numbers:
        captured = self.context.topology.captured
        if role >= 0:
            choices = self._stream.below(2, self.count)
            return node_of_service(role, captured, choices)
        if role == REQUESTER:
            return self._stream.below(captured, self.count)
        if role == EVERY_NODE:
            return np.arange(self.count) % captured
        return np.full(self.count, captured + _UNCAPTURED[role])

    @staticmethod
    def _put_requester_on_parent_node(columns: list[Numbers], parent_nodes: Numbers) -> None:
        """Set the requester to the parent's node; a service on that node moves to the other node of its pair."""
        columns[0] = parent_nodes
        for index in range(1, len(columns)):
            nodes = columns[index]
            columns[index] = np.where(nodes == parent_nodes, nodes ^ 1, nodes)

    def _keep_requester_from_partners(self, columns: list[Numbers]) -> None:
        """Move the requester to a node that is neither the first nor the last service that it talks to."""
        roles = self.template.roles
        services = [index for index, role in enumerate(roles) if role >= 0]
        last_service = max(services, default=0)
        partner_roles = sorted({1, last_service})
        partners = [columns[index] for index in partner_roles if roles[index] >= 0]
        for _ in partners:
            collisions = [columns[0] == partner for partner in partners]
            is_taken = np.logical_or.reduce(collisions)
            next_nodes = (columns[0] + 1) % self.context.topology.captured
            columns[0] = np.where(is_taken, next_nodes, columns[0])

    def _neighbours(self, columns: list[Numbers], index: int) -> Numbers:
        captured = self.context.topology.captured
        if self.template.roles[0] in (REQUESTER, EVERY_NODE):
            previous = columns[index - 1]
        else:
            previous = self._stream.below(captured, self.count)
        return (previous + 1) % captured

    # -- times ---------------------------------------------------------------------------------------------------------

    def _schedule(self, starts: Numbers) -> None:
        for step in self.template.steps:
            if step.delay is Delay.START:
                times = starts
            elif step.delay is Delay.NESTED_REQUESTS:
                times = self._run_nested_requests(step.cause) + self._delays(Delay.RUN, self.count)
            elif step.delay in (Delay.ITEM, Delay.AFTER_ITEMS):
                times = self._item_times(step)
            else:
                times = self._times_after(step, starts)
            self.times.append(times)

    def _times_after(self, step: Step, starts: Numbers) -> Numbers:
        previous = self.times[step.after]
        delays = self._delays(step.delay, len(previous))
        if step.delay is Delay.TRANSIT:
            senders = self.nodes[:, step.peer]
            receivers = self.nodes[:, step.role]
            delays += self.context.topology.distances[senders, receivers]
        elif step.delay is Delay.OVERTIME:
            delays += self.lifetimes
        elif step.delay is Delay.EXPIRY:
            previous = np.maximum(previous, starts + self.lifetimes)
        return previous + delays

    def _item_times(self, step: Step) -> Numbers:
        items = self.context.items
        begin = self.times[step.after] + _LONGEST_RUN
        if step.delay is Delay.ITEM:
            return begin + self.context.item_interval * np.arange(1, items + 1)
        return begin + self.context.item_interval * (items + 2)

    def _delays(self, delay: Delay, count: int) -> Numbers:
        shortest, span = _DELAYS[delay]
        return shortest + (self._stream.small(count) * span >> 16)

    def _run_nested_requests(self, cause: int) -> Numbers:
        """Begin the requests of a delivery's handler one after the other, and return when it has all answers."""
        now = self.times[cause]
        for request, compiled in zip(self.template.requests, self.compiled.nested, strict=True):
            if request.cause != cause:
                continue
            now = now + self._delays(Delay.RUN, self.count)
            earlier = 1 + sum(batch.compiled.flow_count for batch in self.nested)
            flows = self.flows + self.count * earlier
            parent = ParentStep(self, cause, self.nodes[:, request.role])
            nested = FlowBatch(self.context, compiled, flows, now, self._stream, parent)
            self.nested.append(nested)
            now = nested.resume_times
        return now

    @property
    def resume_times(self) -> Numbers:
        """When the requesters go on: with an answer, without one when the lifetime ends, or at once if one-way."""
        begin = self.times[0]
        expected = self.template.expected
        if not expected.callback:
            return begin
        if expected.resolved_at == MISSING:
            return begin + self.lifetimes
        return self.times[expected.resolved_at]

    def clock_times(self, step: int) -> Numbers:
        """Return the times of a step by the clocks of the nodes where it happens."""
        nodes = self.nodes[:, self.template.steps[step].role]
        return self.times[step] + self.context.topology.skews[nodes]

    # -- nesting -------------------------------------------------------------------------------------------------------

    def with_nested(self) -> Iterator[FlowBatch]:
        """Yield this batch and all batches nested in it, outer ones first."""
        yield self
        for batch in self.nested:
            yield from batch.with_nested()

    @property
    def recorded_parent(self) -> FlowBatch | None:
        """The batch whose handlers began this one, if records show that."""
        if self.parent is None or 0 not in self.compiled.record_types:
            return None
        outer = self.parent.batch
        is_recorded = self.parent.step in outer.compiled.record_types
        return outer if is_recorded else None

    @property
    def depth(self) -> int:
        """The number of levels of nested flows, this one included."""
        return 1 + max((batch.depth for batch in self.nested), default=0)

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def step_rows(self, step: int) -> int:
        """Return the number of records of a step."""
        return len(self.times[step])

    @property
    def record_count(self) -> int:
        """The number of records of all steps."""
        return sum(self.step_rows(step) for step in self.compiled.record_types)

    def snapshot_rows(self, snapshot: int) -> int:
        """Return the number of different messages that a snapshot stands for."""
        steps = self.template.steps
        is_repeated = any(steps[step].snapshot == snapshot for step in self.template.repeated)
        return self.context.items if is_repeated else self.count

    def write(self, snapshot_number: int, out: Octets) -> None:
        """Fill `out` with the bytes of a snapshot, one row per message."""
        snapshot = self.template.snapshots[snapshot_number]
        frame_template = self.compiled.frame_templates[snapshot_number]
        self._fill(frame_template, out, snapshot.ttl_step)
        for slot in frame_template.slots:
            if slot.kind is SlotKind.SIGNATURE:
                signatures = self._signatures_of(snapshot.message_index, snapshot.signer)
                out[:, slot.start : slot.stop] = signatures

    def _fill(self, frame_template: FrameTemplate, out: Octets, ttl_step: int) -> None:
        """Fill in everything but signatures, which cover the rest."""
        out[:] = frame_template.octets
        for slot in frame_template.slots:
            if slot.kind is not SlotKind.SIGNATURE:
                out[:, slot.start : slot.stop] = self._slot_values(slot, ttl_step, len(out))

    def _slot_values(self, slot: Slot, ttl_step: int, rows: int) -> Octets:
        topology = self.context.topology
        match slot.kind:
            case SlotKind.CORRELATION:
                return self.correlations
            case SlotKind.NODE:
                return topology.identities[self.nodes[:, slot.owner]]
            case SlotKind.HUB:
                return topology.hubs[self.nodes[:, slot.owner]]
            case SlotKind.URI:
                return topology.uris[self.nodes[:, slot.owner]]
            case SlotKind.BUSINESS_ID:
                return self._business_ids
            case SlotKind.NOISE:
                return self._noise_of(slot.owner, rows, slot.stop - slot.start)
            case SlotKind.CALLBACK_KEY:
                return _eight_bytes(self.callback_keys)
            case SlotKind.TICKS:
                return _eight_bytes(self._remaining_ticks(ttl_step))
            case SlotKind.MILLISECONDS:
                # Round up: what remains must never become zero, which means "no limit".
                milliseconds = -(-self._remaining_ticks(ttl_step) // TICKS_PER_MILLISECOND)
                return _eight_bytes(milliseconds)
            case SlotKind.SIGNATURE:
                raise AssertionError("a signature covers the other slots: fill them first")

    @property
    def callback_keys(self) -> Numbers:
        """The callback keys of the requests."""
        return self.flows + 1

    def _remaining_ticks(self, step: int) -> Numbers:
        elapsed = self.times[step] - self.times[0]
        return (self.lifetimes - elapsed) * TICKS_PER_MICROSECOND

    def _noise_of(self, message_index: int, rows: int, digits: int) -> Octets:
        noise = self._noise.get(message_index)
        if noise is None:
            noise = hex_digits(self._stream.octets(rows, digits // 2))
            self._noise[message_index] = noise
        return noise

    def _signatures_of(self, message_index: int, signer: str) -> Octets:
        signatures = self._signatures.get(message_index)
        if signatures is None:
            frame_template = self.compiled.signed_contents[message_index]
            contents = np.empty((self.count, frame_template.size), np.uint8)
            self._fill(frame_template, contents, MISSING)
            signatures = self._sign(signer, contents)
            self._signatures[message_index] = signatures
        return signatures

    def _sign(self, signer: str, contents: Octets) -> Octets:
        """Sign each row with the key that its domain had at the start of the flow."""
        newest, *older = self.context.keys[signer]
        first_key = older[0] if older else newest
        is_before_change = self.times[0] < self.context.key_change
        rows, size = contents.shape
        joined = contents.tobytes()
        digests: list[bytes] = []
        for row, uses_first_key in enumerate(is_before_change.tolist()):
            key = first_key if uses_first_key else newest
            content = joined[row * size : (row + 1) * size]
            digests.append(key.of(content))
        return np.frombuffer(b"".join(digests), np.uint8).reshape(rows, newest.size)


def _business_ids(seed: int, flows: Numbers) -> Octets:
    hashes = hashed(seed ^ _BUSINESS_ID_SEED, flows)
    octets = hashes.astype(">u8").view(np.uint8)
    return hex_digits(octets.reshape(-1, 8))


def _eight_bytes(numbers: Numbers) -> Octets:
    little_endian = np.ascontiguousarray(numbers.astype("<i8"))
    return little_endian.view(np.uint8).reshape(len(numbers), 8)
