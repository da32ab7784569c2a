"""How much of what, and when: flows of each kind for each stretch of time. Whole numbers throughout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from hopline.capture.records import Level
from hopline.generator.catalogue import ALL_FORMATS, DEFAULT_RATES, FAULTY, NESTED, USUAL, Scene
from hopline.generator.draws import Numbers
from hopline.generator.scenarios import ping
from hopline.generator.script import ANYONE, EACH, ZERO_IDS, Lifetime
from hopline.generator.stage import Cell, Stage
from hopline.generator.topology import MAX_NODES, MIN_NODES
from hopline.message import LocalError, WireFormat

MIN_MESSAGES, MAX_MESSAGES = 1_000, 100_000_000
SURE_FROM = 20_000
"""With as many records every kind of fault that is asked for is there at least once."""
DEFAULT_RATE = 2_000
MIN_SPAN_S = 600
SECOND, HOUR_S = 1_000_000, 3_600
# Nothing begins around the turn of an hour, so that no flow falls into two of them, whatever the clocks say.
_AFTER_TURN_S, _ACTIVE_S = 5, 3_530
_CLOSING_S = 50
_HUGE_SHARE = 8
_LAST_FAULTS = 8  # of each kind that is planted at the end
DEFAULT_START = datetime(2026, 3, 2, 8, tzinfo=UTC)

CLOSING = Scene(
    "closing",
    ping,
    (EACH, ANYONE),
    lifetime=Lifetime.UNLIMITED,
    correlation=ZERO_IDS["guid"],
    formats=ALL_FORMATS,
    before_end_us=0,
)
"""What every node says last: its capture goes on beyond everything before."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to generate. `messages` are records of a capture; a fault's rate is its share of all flows."""

    messages: int = 100_000
    seed: int = 1
    nodes: int = 8
    level: Level = Level.FULL
    formats: tuple[WireFormat, ...] = ALL_FORMATS
    rates: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_RATES))
    skewed: int = 2  # nodes whose clocks are wrong
    rate: int = DEFAULT_RATE  # records a second, over the time that there is
    hours: float | None = None
    start: datetime = DEFAULT_START
    huge_messages: int = 600  # answers in a huge flow

    def __post_init__(self) -> None:
        for name, low, high in (
            ("messages", MIN_MESSAGES, MAX_MESSAGES),
            ("nodes", MIN_NODES, MAX_NODES),
            ("seed", 0, 2**63 - 1),
            ("skewed", 0, self.nodes // 2),
            ("rate", 1, 1_000_000),
            ("huge_messages", 501, 1_000_000),
        ):
            if not low <= getattr(self, name) <= high:
                raise LocalError(name, f"{low:,} to {high:,}", getattr(self, name))
        if self.level is Level.OFF:
            raise LocalError("level", "full or wire", str(self.level))
        if not self.formats:
            raise LocalError("formats", f"some of {', '.join(ALL_FORMATS)}", "none")
        if self.hours is not None and not 0.01 <= self.hours <= 24 * 366:
            raise LocalError("hours", "0.01 to 8784", self.hours)
        if self.start.tzinfo is None or self.start.minute or self.start.second or self.start.microsecond:
            raise LocalError("start", "a whole hour with a time zone", self.start.isoformat())
        for fault, rate in self.rates.items():
            if fault not in DEFAULT_RATES:
                raise LocalError("fault", f"one of {', '.join(DEFAULT_RATES)}", fault)
            if not 0 <= rate <= 1:
                raise LocalError(f"fault {fault}", "a share from 0 to 1", rate)
        if self.rates.get("huge") and self.huge_messages * _HUGE_SHARE > self.messages >= SURE_FROM:
            raise LocalError("huge_messages", f"at most a part in {_HUGE_SHARE} of all messages", self.huge_messages)
        if sum(self.rates.values()) > 1:
            raise LocalError("faults", "shares of at most 1 together", round(sum(self.rates.values()), 6))

    @property
    def active_us(self) -> int:
        """How long flows begin, in microseconds without the quiet minutes."""
        seconds = round(self.hours * HOUR_S) if self.hours is not None else max(MIN_SPAN_S, self.messages // self.rate)
        return seconds * SECOND * _ACTIVE_S // HOUR_S

    @property
    def start_us(self) -> int:
        """The start, in microseconds since 1970."""
        return int(self.start.timestamp()) * SECOND


def scenes_of(options: Options) -> list[Scene]:
    """Give the plays that are needed."""
    return [*USUAL, *NESTED, *(scene for scene in FAULTY if options.rates.get(scene.fault, 0) > 0), CLOSING]


def moments(active: Numbers) -> Numbers:
    """Turn active time into time since the start."""
    hours, rest = np.divmod(active, _ACTIVE_S * SECOND)
    return hours * (HOUR_S * SECOND) + rest + _AFTER_TURN_S * SECOND


def closing_moment(options: Options) -> int:
    """Tell when every node says its last word."""
    return int(moments(np.array([options.active_us - 1]))[0]) + _CLOSING_S * SECOND


def counts(options: Options, stage: Stage) -> list[int]:
    """Give the number of flows of each cell, so that there are as many records as asked for, or hardly more."""
    weights = [_weight(options, stage, cell) for cell in stage.cells]
    sizes = [cell.records(options.huge_messages) for cell in stage.cells]
    closing = _closing(options, stage)
    wanted = options.messages - sum(number * sizes[at] for at, number in closing.items())
    found = _shared_out(wanted, weights, sizes)
    if options.messages >= SURE_FROM:
        # What is there for certain takes its part first, which for a huge flow is not little.
        certain = _missing(stage, found, weights)
        found = _shared_out(wanted - sum(sizes[at] for at in certain), weights, sizes)
        for at in _missing(stage, found, weights):
            found[at] = 1
    _put_huge_ones_together(stage, found)
    # What is too much or too little is made good with the most ordinary flows.
    quotes = [at for at, cell in enumerate(stage.cells) if cell.scene.name == "quote"]
    filler = max(quotes, key=lambda at: weights[at])
    others = sum(number * size for at, (number, size) in enumerate(zip(found, sizes, strict=True)) if at != filler)
    found[filler] = max(0, -(-(wanted - others) // sizes[filler]))
    for at, number in closing.items():
        found[at] = number
    return found


def _weight(options: Options, stage: Stage, cell: Cell) -> float:
    if cell.scene.before_end_us is not None:
        return 0.0
    if cell.scene.fault:
        siblings = {
            one.scene.name
            for one in stage.cells
            if one.scene.fault == cell.scene.fault and one.scene.before_end_us is None
        }
        return options.rates[cell.scene.fault] / len(siblings) * cell.share
    usual = {one.scene.name: one.scene.weight for one in stage.cells if not one.scene.fault}
    ordinary = 1 - sum(options.rates.values())
    return ordinary * cell.scene.weight / sum(usual.values()) * cell.share


def _shared_out(records: int, weights: list[float], sizes: list[int]) -> list[int]:
    flows = records / sum(weight * size for weight, size in zip(weights, sizes, strict=True))
    return [int(flows * weight + 0.5) for weight in weights]


def _missing(stage: Stage, found: list[int], weights: list[float]) -> list[int]:
    """Give a cell for each kind of fault that would not be there at all."""
    by_scene: dict[str, list[int]] = {}
    for at, cell in enumerate(stage.cells):
        if cell.scene.fault and cell.scene.before_end_us is None:
            by_scene.setdefault(cell.scene.name, []).append(at)
    return [max(cells, key=lambda at: weights[at]) for cells in by_scene.values() if not any(found[at] for at in cells)]


def _put_huge_ones_together(stage: Stage, found: list[int]) -> None:
    """Leave huge flows to one cell: no two of them come into one batch, and what a batch has in memory is bounded."""
    cells = [at for at, cell in enumerate(stage.cells) if cell.play.repeated]
    for at in cells[1:]:
        found[cells[0]] += found[at]
        found[at] = 0


def _closing(options: Options, stage: Stage) -> dict[int, int]:
    """Return the numbers of flows that begin at the end, by cell: in one format each."""
    found: dict[int, int] = {}
    seen: set[str] = set()
    for at, cell in enumerate(stage.cells):
        if cell.scene.before_end_us is not None and cell.scene.name not in seen:
            seen.add(cell.scene.name)
            found[at] = options.nodes if cell.scene is CLOSING else _LAST_FAULTS * (options.messages >= SURE_FROM)
    return found


def in_batch(total: int, batch: int, batches: int, cell: int) -> int:
    """Give a batch's part of a number, so that all parts sum to it; small numbers are spread over the batches."""
    phase = cell * 7919 % batches
    return (total * (batch + 1) + phase) // batches - (total * batch + phase) // batches
