"""Giving one template many times: who takes the roles, when each step add_step, and the bytes of each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hopline.generator.compiled_scenarios import CompiledFlow
from hopline.generator.flow_template import (
    ANY_NODE,
    ATTACKER,
    EVERY_NODE,
    GATEWAY,
    OTHER_ATTACKER,
    REQUESTER,
    Delay,
    FlowTemplate,
    Lifetime,
)
from hopline.generator.frame_templates import FrameTemplate, Slot, SlotKind
from hopline.generator.placeholders import TICKS_PER_MILLISECOND
from hopline.generator.randomness import Numbers, Octets, RandomStream, guids, hashed, hex_digits
from hopline.generator.topology import Topology, placed
from hopline.security.mac import Mac

TICKS_PER_MICROSECOND = 10
MILLISECOND = 1_000
LONGEST_FLOW_US = 30_000_000
# Shortest time and how much longer it may take, in microseconds; most take little longer.
_DELAYS = {
    Delay.QUEUE: (4, 90),
    Delay.TRANSIT: (0, 900),
    Delay.MAILBOX: (12, 4_000),
    Delay.RUN: (120, 24_000),
    Delay.TAIL: (2, 30),
    Delay.OVERTIME: (20_000, 400_000),
    Delay.LIFETIME: (10, 500),
    Delay.AGAIN: (200, 40_000),
    Delay.LATER: (1_000_000, 18_000_000),
    Delay.TURN: (3, 40),
}
_LIFETIMES_MS = {Lifetime.UNLIMITED: (0, 1), Lifetime.LONG: (5_000, 12_000), Lifetime.SHORT: (120, 400)}
_MOST_ITEM_SPACE, _ALL_ITEMS_US = 60, 6_000_000


@dataclass(frozen=True)
class GeneratorContext:
    """What all flow_batches share."""

    topology: Topology
    seed: int
    keys: Mapping[str, Sequence[Mac]]
    key_change: int  # moment from which the newest key of a domain signs
    items: int  # of a huge flow


@dataclass(frozen=True)
class ParentStep:
    """What began the flows of a performance: a step of another one, whose handlers sent their first messages."""

    performance: FlowBatch
    step: int
    nodes: Numbers


class FlowBatch:
    """A template given for some flows at once: rows are flows, but for what is repeated in a huge one.

    Flows that its handlers begin are flow_batches of their own, `nested`. They have the numbers behind its own: those
    of the first come after all of its own, and so on.
    """

    def __init__(
        self,
        context: GeneratorContext,
        compiled_flow: CompiledFlow,
        flows: Numbers,
        starts: Numbers,
        draws: RandomStream,
        parent: ParentStep | None = None,
    ) -> None:
        self.context = context
        self.compiled_flow = compiled_flow
        self.flows = flows
        self.parent = parent
        self.nested: list[FlowBatch] = []
        self._draws = draws
        self.count = len(flows)
        self.nodes = self._cast(compiled_flow.template)
        self.correlations = guids(context.seed, flows)
        self._ids = hex_digits(hashed(context.seed ^ 0x1D, flows).astype(">u8").view(np.uint8).reshape(-1, 8))
        low, span = _LIFETIMES_MS[compiled_flow.template.lifetime]
        self.lifetimes = (low + draws.below(span, self.count)) * MILLISECOND
        self.times: list[Numbers] = []
        self._schedule(starts)
        self._noise: dict[int, Octets] = {}
        self._signatures: dict[int, Octets] = {}

    # -- roles ---------------------------------------------------------------------------------------------------------

    def _cast(self, template: FlowTemplate) -> Numbers:
        """Give each role a node: a column a role."""
        count, captured = self.count, self.context.topology.captured
        columns: list[Numbers] = []
        for role in template.roles:
            if role >= 0:
                columns.append(placed(role, captured, self._draws.below(2, count)))
            elif role == REQUESTER:
                columns.append(self._draws.below(captured, count))
            elif role == EVERY_NODE:
                columns.append(np.arange(count) % captured)
            elif role == ANY_NODE:
                columns.append(columns[-1])
            else:
                strangers = {GATEWAY: 0, ATTACKER: 1, OTHER_ATTACKER: 2}
                columns.append(np.full(count, captured + strangers[role]))
        if self.parent is not None:  # who asks is given: another node of the pair does the work where it is the same
            columns[0] = self.parent.nodes
            for at in range(1, len(columns)):
                columns[at] = np.where(columns[at] == columns[0], columns[at] ^ 1, columns[at])
        elif template.roles[0] == REQUESTER and len(template.roles) > 1:
            last = max((at for at, role in enumerate(template.roles) if role >= 0), default=0)
            partners = [columns[at] for at in sorted({1, last}) if template.roles[at] >= 0]
            for _ in partners:  # who asks is neither of those that it talks to
                taken = np.logical_or.reduce([columns[0] == partner for partner in partners])
                columns[0] = np.where(taken, (columns[0] + 1) % captured, columns[0])
        for at, role in enumerate(template.roles):
            if role == ANY_NODE:
                before = (
                    columns[at - 1]
                    if template.roles[0] in (REQUESTER, EVERY_NODE)
                    else self._draws.below(captured, count)
                )
                columns[at] = (before + 1) % captured
        return np.stack(columns, axis=1)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _schedule(self, starts: Numbers) -> None:
        for step in self.compiled_flow.template.steps:
            if step.delay is Delay.START:
                self.times.append(starts)
                continue
            before, items = self.times[step.after], self.context.items
            if step.delay is Delay.ASKED:
                self.times.append(self._asked(step.cause) + self._took(Delay.RUN))
            elif step.delay is Delay.ITEM:
                self.times.append(before + _DELAYS[Delay.RUN][1] + self._item_space * np.arange(1, items + 1))
            elif step.delay is Delay.ITEMS:
                self.times.append(before + _DELAYS[Delay.RUN][1] + self._item_space * (items + 2))
            else:
                took = self._took(step.delay, len(before))
                if step.delay is Delay.TRANSIT:
                    took += self.context.topology.nearest[self.nodes[:, step.peer], self.nodes[:, step.role]]
                elif step.delay is Delay.OVERTIME:
                    took += self.lifetimes
                elif step.delay is Delay.LIFETIME:
                    before = np.maximum(before, starts + self.lifetimes)
                self.times.append(before + took)

    def _took(self, delay: Delay, rows: int | None = None) -> Numbers:
        low, span = _DELAYS[delay]
        return low + (self._draws.small(self.count if rows is None else rows) * span >> 16)

    def _asked(self, cause: int) -> Numbers:
        """Begin what the handler of a delivery asks for, one after the other, and return when it has all of it."""
        now = self.times[cause]
        for request, compiled_flow in zip(self.compiled_flow.template.requests, self.compiled_flow.nested, strict=True):
            if request.cause == cause:
                now = now + self._took(Delay.RUN)
                flows = self.flows + self.count * (1 + sum(one.compiled_flow.flows for one in self.nested))
                parent = ParentStep(self, cause, self.nodes[:, request.role])
                nested = FlowBatch(self.context, compiled_flow, flows, now, self._draws, parent)
                self.nested.append(nested)
                now = nested.ends
        return now

    @property
    def ends(self) -> Numbers:
        """When whoever began the flows goes on: with the answer, without one when their time is over, or at once."""
        expected = self.compiled_flow.template.expected
        if not expected.callback:
            return self.times[0]
        return self.times[0] + self.lifetimes if expected.taken_at < 0 else self.times[expected.taken_at]

    @property
    def everything(self) -> list[FlowBatch]:
        """This performance, and all that is nested in it, those that begin others before these."""
        return [self, *(one for nested in self.nested for one in nested.everything)]

    @property
    def seen_parent(self) -> FlowBatch | None:
        """The performance whose handlers began this one, where records show it."""
        if self.parent is None or 0 not in self.compiled_flow.record_types:
            return None
        began = self.parent.performance
        return began if self.parent.step in began.compiled_flow.record_types else None

    @property
    def depth(self) -> int:
        """How many flows lie between the first one and the innermost, both included."""
        return 1 + max((nested.depth for nested in self.nested), default=0)

    @property
    def _item_space(self) -> int:
        return max(1, min(_MOST_ITEM_SPACE, _ALL_ITEMS_US // self.context.items))

    def clock(self, step: int) -> Numbers:
        """Give the moments of a step by the clock of the node where it add_step."""
        return (
            self.times[step] + self.context.topology.skews[self.nodes[:, self.compiled_flow.template.steps[step].role]]
        )

    def rows(self, step: int) -> int:
        """Count the records of a step."""
        return len(self.times[step])

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def image_rows(self, snapshot: int) -> int:
        """Count the different messages that an snapshot stands for."""
        is_repeated = any(
            self.compiled_flow.template.steps[step].snapshot == snapshot
            for step in self.compiled_flow.template.repeated
        )
        return self.context.items if is_repeated else self.count

    def write(self, snapshot: int, out: Octets) -> None:
        """Slot rows with the bytes of an snapshot."""
        shown = self.compiled_flow.template.snapshots[snapshot]
        template = self.compiled_flow.templates[snapshot]
        self._fill(template, out, shown.ttl_step)
        for fill in template.slots:
            if fill.gap is SlotKind.SIGNATURE:
                out[:, fill.start : fill.stop] = self._signature(shown.message_index, shown.signer)

    def _fill(self, template: FrameTemplate, out: Octets, ttl_step: int) -> None:
        out[:] = template.octets
        for fill in template.slots:
            value = self._value(fill, ttl_step, len(out))
            if value is not None:
                out[:, fill.start : fill.stop] = value

    def _value(self, fill: Slot, ttl_step: int, rows: int) -> Octets | None:
        topology = self.context.topology
        match fill.gap:
            case SlotKind.CORRELATION:
                return self.correlations
            case SlotKind.NODE:
                return topology.identities[self.nodes[:, fill.of]]
            case SlotKind.HUB:
                return topology.hubs[self.nodes[:, fill.of]]
            case SlotKind.URI:
                return topology.uris[self.nodes[:, fill.of]]
            case SlotKind.ID:
                return self._ids
            case SlotKind.NOISE:
                return self._drawn(fill.of, rows, fill.stop - fill.start)
            case SlotKind.KEY:
                return _eight_bytes(self.keys)
            case SlotKind.TICKS:
                return _eight_bytes(self.remaining(ttl_step) * TICKS_PER_MICROSECOND)
            case SlotKind.MILLISECONDS:  # a part of one counts whole: what is left must never become "no limit"
                return _eight_bytes(-(-self.remaining(ttl_step) * TICKS_PER_MICROSECOND // TICKS_PER_MILLISECOND))
            case SlotKind.SIGNATURE:
                return None

    @property
    def keys(self) -> Numbers:
        """The numbers of the promises."""
        return self.flows + 1

    def remaining(self, ttl_step: int) -> Numbers:
        """Give what is left of the lifetime at a step."""
        return self.lifetimes - (self.times[ttl_step] - self.times[0])

    def _drawn(self, message_index: int, rows: int, digits: int) -> Octets:
        if message_index not in self._noise:
            self._noise[message_index] = hex_digits(self._draws.octets(rows, digits // 2))
        return self._noise[message_index]

    def _signature(self, message_index: int, signer: str) -> Octets:
        if message_index not in self._signatures:
            template = self.compiled_flow.signed_contents[message_index]
            contents = np.empty((self.count, template.size), np.uint8)
            self._fill(template, contents, -1)
            self._signatures[message_index] = _signed(self.context, signer, contents, self.times[0])
        return self._signatures[message_index]


def _signed(context: GeneratorContext, signer: str, contents: Octets, moments: Numbers) -> Octets:
    newest, *older = context.keys[signer]
    uses_old = (moments < context.key_change).tolist() if older else [False] * len(contents)
    before = older[0] if older else newest
    size, joined = contents.shape[1], contents.tobytes()
    digests = [
        (before if is_old else newest).of(joined[at * size : at * size + size]) for at, is_old in enumerate(uses_old)
    ]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(contents), newest.size)


def _eight_bytes(numbers: Numbers) -> Octets:
    return np.ascontiguousarray(numbers.astype("<i8")).view(np.uint8).reshape(len(numbers), 8)
