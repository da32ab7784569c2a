"""Giving one play many times: who takes the roles, when each step happens, and the bytes of each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hopline.generator.draws import Draws, Numbers, Octets, guids, hashed, hex_digits
from hopline.generator.placeholders import TICKS_PER_MILLISECOND
from hopline.generator.script import ANYONE, ASKER, ATTACKER, EACH, GATEWAY, OTHER_ATTACKER, Delay, Lifetime, Play
from hopline.generator.stage import Cell
from hopline.generator.templates import Fill, Gap, Template
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
class Setting:
    """What all performances share."""

    topology: Topology
    seed: int
    keys: Mapping[str, Sequence[Mac]]
    key_change: int  # moment from which the newest key of a domain signs
    items: int  # of a huge flow


@dataclass(frozen=True)
class Parent:
    """What began the flows of a performance: a step of another one, whose handlers sent their first messages."""

    performance: Performance
    step: int
    nodes: Numbers


class Performance:
    """A play given for some flows at once: rows are flows, but for what is repeated in a huge one.

    Flows that its handlers begin are performances of their own, `nested`. They have the numbers behind its own: those
    of the first come after all of its own, and so on.
    """

    def __init__(
        self,
        setting: Setting,
        cell: Cell,
        flows: Numbers,
        starts: Numbers,
        draws: Draws,
        parent: Parent | None = None,
    ) -> None:
        self.setting = setting
        self.cell = cell
        self.flows = flows
        self.parent = parent
        self.nested: list[Performance] = []
        self._draws = draws
        self.count = len(flows)
        self.nodes = self._cast(cell.play)
        self.correlations = guids(setting.seed, flows)
        self._ids = hex_digits(hashed(setting.seed ^ 0x1D, flows).astype(">u8").view(np.uint8).reshape(-1, 8))
        low, span = _LIFETIMES_MS[cell.play.lifetime]
        self.lifetimes = (low + draws.below(span, self.count)) * MILLISECOND
        self.times: list[Numbers] = []
        self._schedule(starts)
        self._noise: dict[int, Octets] = {}
        self._signatures: dict[int, Octets] = {}

    # -- roles ---------------------------------------------------------------------------------------------------------

    def _cast(self, play: Play) -> Numbers:
        """Give each role a node: a column a role."""
        count, captured = self.count, self.setting.topology.captured
        columns: list[Numbers] = []
        for role in play.roles:
            if role >= 0:
                columns.append(placed(role, captured, self._draws.below(2, count)))
            elif role == ASKER:
                columns.append(self._draws.below(captured, count))
            elif role == EACH:
                columns.append(np.arange(count) % captured)
            elif role == ANYONE:
                columns.append(columns[-1])
            else:
                strangers = {GATEWAY: 0, ATTACKER: 1, OTHER_ATTACKER: 2}
                columns.append(np.full(count, captured + strangers[role]))
        if self.parent is not None:  # who asks is given: another node of the pair does the work where it is the same
            columns[0] = self.parent.nodes
            for at in range(1, len(columns)):
                columns[at] = np.where(columns[at] == columns[0], columns[at] ^ 1, columns[at])
        elif play.roles[0] == ASKER and len(play.roles) > 1:
            last = max((at for at, role in enumerate(play.roles) if role >= 0), default=0)
            partners = [columns[at] for at in sorted({1, last}) if play.roles[at] >= 0]
            for _ in partners:  # who asks is neither of those that it talks to
                taken = np.logical_or.reduce([columns[0] == partner for partner in partners])
                columns[0] = np.where(taken, (columns[0] + 1) % captured, columns[0])
        for at, role in enumerate(play.roles):
            if role == ANYONE:
                before = columns[at - 1] if play.roles[0] in (ASKER, EACH) else self._draws.below(captured, count)
                columns[at] = (before + 1) % captured
        return np.stack(columns, axis=1)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _schedule(self, starts: Numbers) -> None:
        for step in self.cell.play.steps:
            if step.delay is Delay.START:
                self.times.append(starts)
                continue
            before, items = self.times[step.after], self.setting.items
            if step.delay is Delay.ASKED:
                self.times.append(self._asked(step.cause) + self._took(Delay.RUN))
            elif step.delay is Delay.ITEM:
                self.times.append(before + _DELAYS[Delay.RUN][1] + self._item_space * np.arange(1, items + 1))
            elif step.delay is Delay.ITEMS:
                self.times.append(before + _DELAYS[Delay.RUN][1] + self._item_space * (items + 2))
            else:
                took = self._took(step.delay, len(before))
                if step.delay is Delay.TRANSIT:
                    took += self.setting.topology.nearest[self.nodes[:, step.peer], self.nodes[:, step.role]]
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
        for request, cell in zip(self.cell.play.requests, self.cell.nested, strict=True):
            if request.cause == cause:
                now = now + self._took(Delay.RUN)
                flows = self.flows + self.count * (1 + sum(one.cell.flows for one in self.nested))
                parent = Parent(self, cause, self.nodes[:, request.role])
                nested = Performance(self.setting, cell, flows, now, self._draws, parent)
                self.nested.append(nested)
                now = nested.ends
        return now

    @property
    def ends(self) -> Numbers:
        """When whoever began the flows goes on: with the answer, without one when their time is over, or at once."""
        fate = self.cell.play.fate
        if not fate.callback:
            return self.times[0]
        return self.times[0] + self.lifetimes if fate.taken_at < 0 else self.times[fate.taken_at]

    @property
    def everything(self) -> list[Performance]:
        """This performance, and all that is nested in it, those that begin others before these."""
        return [self, *(one for nested in self.nested for one in nested.everything)]

    @property
    def seen_parent(self) -> Performance | None:
        """The performance whose handlers began this one, where records show it."""
        if self.parent is None or 0 not in self.cell.sites:
            return None
        began = self.parent.performance
        return began if self.parent.step in began.cell.sites else None

    @property
    def depth(self) -> int:
        """How many flows lie between the first one and the innermost, both included."""
        return 1 + max((nested.depth for nested in self.nested), default=0)

    @property
    def _item_space(self) -> int:
        return max(1, min(_MOST_ITEM_SPACE, _ALL_ITEMS_US // self.setting.items))

    def clock(self, step: int) -> Numbers:
        """Give the moments of a step by the clock of the node where it happens."""
        return self.times[step] + self.setting.topology.skews[self.nodes[:, self.cell.play.steps[step].role]]

    def rows(self, step: int) -> int:
        """Count the records of a step."""
        return len(self.times[step])

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def image_rows(self, image: int) -> int:
        """Count the different messages that an image stands for."""
        is_repeated = any(self.cell.play.steps[step].image == image for step in self.cell.play.repeated)
        return self.setting.items if is_repeated else self.count

    def write(self, image: int, out: Octets) -> None:
        """Fill rows with the bytes of an image."""
        shown = self.cell.play.images[image]
        template = self.cell.templates[image]
        self._fill(template, out, shown.aged_at)
        for fill in template.fills:
            if fill.gap is Gap.SIGNATURE:
                out[:, fill.start : fill.stop] = self._signature(shown.letter, shown.signer)

    def _fill(self, template: Template, out: Octets, aged_at: int) -> None:
        out[:] = template.octets
        for fill in template.fills:
            value = self._value(fill, aged_at, len(out))
            if value is not None:
                out[:, fill.start : fill.stop] = value

    def _value(self, fill: Fill, aged_at: int, rows: int) -> Octets | None:
        topology = self.setting.topology
        match fill.gap:
            case Gap.CORRELATION:
                return self.correlations
            case Gap.NODE:
                return topology.identities[self.nodes[:, fill.of]]
            case Gap.HUB:
                return topology.hubs[self.nodes[:, fill.of]]
            case Gap.URI:
                return topology.uris[self.nodes[:, fill.of]]
            case Gap.ID:
                return self._ids
            case Gap.NOISE:
                return self._drawn(fill.of, rows, fill.stop - fill.start)
            case Gap.KEY:
                return _eight_bytes(self.keys)
            case Gap.TICKS:
                return _eight_bytes(self.remaining(aged_at) * TICKS_PER_MICROSECOND)
            case Gap.MILLISECONDS:  # a part of one counts whole: what is left must never become "no limit"
                return _eight_bytes(-(-self.remaining(aged_at) * TICKS_PER_MICROSECOND // TICKS_PER_MILLISECOND))
            case Gap.SIGNATURE:
                return None

    @property
    def keys(self) -> Numbers:
        """The numbers of the promises."""
        return self.flows + 1

    def remaining(self, aged_at: int) -> Numbers:
        """Give what is left of the lifetime at a step."""
        return self.lifetimes - (self.times[aged_at] - self.times[0])

    def _drawn(self, letter: int, rows: int, digits: int) -> Octets:
        if letter not in self._noise:
            self._noise[letter] = hex_digits(self._draws.octets(rows, digits // 2))
        return self._noise[letter]

    def _signature(self, letter: int, signer: str) -> Octets:
        if letter not in self._signatures:
            template = self.cell.signed_contents[letter]
            contents = np.empty((self.count, template.size), np.uint8)
            self._fill(template, contents, -1)
            self._signatures[letter] = _signed(self.setting, signer, contents, self.times[0])
        return self._signatures[letter]


def _signed(setting: Setting, signer: str, contents: Octets, moments: Numbers) -> Octets:
    newest, *older = setting.keys[signer]
    uses_old = (moments < setting.key_change).tolist() if older else [False] * len(contents)
    before = older[0] if older else newest
    size, joined = contents.shape[1], contents.tobytes()
    digests = [
        (before if is_old else newest).of(joined[at * size : at * size + size]) for at, is_old in enumerate(uses_old)
    ]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(contents), newest.size)


def _eight_bytes(numbers: Numbers) -> Octets:
    return np.ascontiguousarray(numbers.astype("<i8")).view(np.uint8).reshape(len(numbers), 8)
