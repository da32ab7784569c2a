"""What to generate: the options, and how many flows of each kind begin when.

Time comes in two kinds. Active time has no quiet minutes; flows are spread evenly over it. Wall time leaves out the
last minute of every hour, so that no flow falls into two hours, however wrong the clocks are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from hopline.capture.records import Level
from hopline.checks import Range, require, require_choice, require_number
from hopline.generator.catalogue import ALL_FORMATS, DEFAULT_RATES, FAULTY, HEALTHY, NESTED, Scenario
from hopline.generator.compiled_scenarios import CompiledFlow, CompiledScenarios
from hopline.generator.flow_template import ANY_NODE, EVERY_NODE, NO_FLOW_IDS, Lifetime
from hopline.generator.randomness import Numbers
from hopline.generator.scenarios import ping
from hopline.generator.topology import MAX_NODES, MIN_NODES
from hopline.message import WireFormat

MIN_MESSAGES = 1_000
MAX_MESSAGES = 100_000_000
MIN_HUGE_MESSAGES = 501
MAX_HUGE_MESSAGES = 1_000_000
MIN_HOURS = 0.01
MAX_HOURS = 24 * 366
MAX_RATE = 1_000_000
ALL_FAULTS_FROM = 20_000
"""From this number of records on, every kind of each requested fault occurs at least once."""
DEFAULT_RATE = 2_000
DEFAULT_START = datetime(2026, 3, 2, 8, tzinfo=UTC)
MIN_DURATION_S = 600
SECOND_US = 1_000_000
HOUR_S = 3_600

_QUIET_BEGIN_S = 5  # of every hour
_ACTIVE_S = 3_530
_CLOSING_DELAY_S = 50
_MAX_HUGE_PART = 8  # a huge flow may be at most one part in so many of all records
_FAULTS_AT_END = 8  # flows of each kind that is planted at the end

CLOSING = Scenario(
    "closing",
    ping,
    (EVERY_NODE, ANY_NODE),
    lifetime=Lifetime.UNLIMITED,
    correlation=NO_FLOW_IDS["guid"],
    formats=ALL_FORMATS,
    before_end_us=0,
)
"""The last record of every node, so that its capture covers everything before."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to generate.

    Attributes:
        messages: Records of the captures; up to nine more are written.
        seed: The same seed and options give the same records.
        nodes: Nodes that are captured.
        level: The level of the captures, full or wire.
        formats: The wire formats of the traffic.
        rates: The share of all flows that have each fault.
        skewed: Nodes whose clocks are wrong.
        rate: Records per second of the captures' own time.
        hours: The captures' own time, instead of `rate`.
        start: The first hour of the captures.
        huge_messages: Answers in a huge flow.

    Raises:
        ArgumentError: A value is out of range.
    """

    messages: int = 100_000
    seed: int = 1
    nodes: int = 8
    level: Level = Level.FULL
    formats: tuple[WireFormat, ...] = ALL_FORMATS
    rates: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_RATES))
    skewed: int = 2
    rate: int = DEFAULT_RATE
    hours: float | None = None
    start: datetime = DEFAULT_START
    huge_messages: int = 600

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        self._check_rates()

    def _check_numbers(self) -> None:
        require_number("messages", self.messages, Range(MIN_MESSAGES, MAX_MESSAGES))
        require_number("nodes", self.nodes, Range(MIN_NODES, MAX_NODES))
        require_number("seed", self.seed, Range(0, 2**63 - 1))
        require_number("skewed", self.skewed, Range(0, self.nodes // 2))
        require_number("rate", self.rate, Range(1, MAX_RATE))
        require_number("huge_messages", self.huge_messages, Range(MIN_HUGE_MESSAGES, MAX_HUGE_MESSAGES))
        if self.hours is not None:
            require_number("hours", self.hours, Range(MIN_HOURS, MAX_HOURS))

    def _check_choices(self) -> None:
        require(self.level is not Level.OFF, "level", "full or wire", str(self.level))
        require(bool(self.formats), "formats", f"some of {', '.join(ALL_FORMATS)}", "none")
        whole_hour = self.start.replace(
            minute=0,
            second=0,
            microsecond=0,
        )
        has_zone = self.start.tzinfo is not None
        is_valid_start = has_zone and self.start == whole_hour
        require(is_valid_start, "start", "a whole hour with a time zone", self.start.isoformat())

    def _check_rates(self) -> None:
        for fault, rate in self.rates.items():
            require_choice("fault", fault, DEFAULT_RATES)
            require(0 <= rate <= 1, f"fault {fault}", "a share from 0 to 1", rate)
        has_huge_flows = bool(self.rates.get("huge"))
        must_have_huge_flow = has_huge_flows and self.has_all_faults
        is_large = self.huge_messages * _MAX_HUGE_PART > self.messages
        is_too_large = must_have_huge_flow and is_large
        expected = f"at most a part in {_MAX_HUGE_PART} of all messages"
        require(not is_too_large, "huge_messages", expected, self.huge_messages)
        require(self.total_rate <= 1, "faults", "shares of at most 1 together", round(self.total_rate, 6))

    @property
    def total_rate(self) -> float:
        """The share of all flows that have a fault."""
        return sum(self.rates.values())

    @property
    def has_all_faults(self) -> bool:
        """Whether every kind of each requested fault occurs at least once."""
        return self.messages >= ALL_FAULTS_FROM

    @property
    def active_us(self) -> int:
        """The active time in microseconds."""
        if self.hours is not None:
            seconds = round(self.hours * HOUR_S)
        else:
            seconds = max(MIN_DURATION_S, self.messages // self.rate)
        duration_us = seconds * SECOND_US
        return duration_us * _ACTIVE_S // HOUR_S

    @property
    def start_us(self) -> int:
        """The start in microseconds since 1970."""
        return int(self.start.timestamp()) * SECOND_US


def scenarios_of(options: Options) -> list[Scenario]:
    """Return the scenarios that the options ask for."""
    faulty: list[Scenario] = []
    for scenario in FAULTY:
        rate = options.rates.get(scenario.fault, 0)
        if rate > 0:
            faulty.append(scenario)
    return [*HEALTHY, *NESTED, *faulty, CLOSING]


# -- time --------------------------------------------------------------------------------------------------------------


def wall_times(active: Numbers) -> Numbers:
    """Return active times as wall times since the start, in microseconds."""
    active_hour_us = _ACTIVE_S * SECOND_US
    hour_us = HOUR_S * SECOND_US
    quiet_begin_us = _QUIET_BEGIN_S * SECOND_US
    hours, rest = np.divmod(active, active_hour_us)
    return hours * hour_us + rest + quiet_begin_us


def wall_time(active: int) -> int:
    """Return one active time as wall time since the start, in microseconds."""
    times = wall_times(np.array([active]))
    return int(times[0])


def closing_time(options: Options) -> int:
    """Return the wall time of the first closing record."""
    last_start = wall_time(options.active_us - 1)
    return last_start + _CLOSING_DELAY_S * SECOND_US


# -- numbers of flows --------------------------------------------------------------------------------------------------


def flow_counts(options: Options, compiled: CompiledScenarios) -> list[int]:
    """Return how many flows of each compiled flow to make, for as many records as requested or a few more.

    The records are shared out by weight. Kinds of faults that would not occur by their weight alone are guaranteed one
    flow from `ALL_FAULTS_FROM` records on; as one flow may be huge, its records are set aside first. In the end the
    most common flow makes up the difference.
    """
    flows = compiled.flows
    weights = [_weight(options, compiled, flow) for flow in flows]
    sizes = [flow.record_count(options.huge_messages) for flow in flows]
    at_end = _counts_at_end(options, compiled)
    records_at_end = [count * sizes[index] for index, count in at_end.items()]
    available = options.messages - sum(records_at_end)
    counts = _share_out(available, weights, sizes)
    if options.has_all_faults:
        guaranteed = _missing_faults(compiled, counts, weights)
        reserved = sum(sizes[index] for index in guaranteed)
        counts = _share_out(available - reserved, weights, sizes)
        for index in _missing_faults(compiled, counts, weights):
            counts[index] = 1
    _merge_huge_flows(compiled, counts)
    _fill_up(compiled, counts, available, weights, sizes)
    for index, count in at_end.items():
        counts[index] = count
    return counts


def _weight(options: Options, compiled: CompiledScenarios, flow: CompiledFlow) -> float:
    """Return the share that a flow has of all flows."""
    scenario = flow.scenario
    if scenario.before_end_us is not None:
        return 0.0
    by_name = {other.scenario.name: other.scenario for other in compiled.flows}
    scenarios = list(by_name.values())
    if scenario.fault:
        kinds = [other for other in scenarios if _is_kind_of(other, scenario.fault)]
        rate = options.rates[scenario.fault]
        return rate / len(kinds) * flow.share
    healthy_rate = 1 - options.total_rate
    healthy_weights = [other.weight for other in scenarios if not other.fault]
    total_weight = sum(healthy_weights)
    return healthy_rate * scenario.weight / total_weight * flow.share


def _is_kind_of(scenario: Scenario, fault: str) -> bool:
    return scenario.fault == fault and scenario.before_end_us is None


def _share_out(records: int, weights: list[float], sizes: list[int]) -> list[int]:
    flows = records / _sum_of_products(weights, sizes)
    return [int(flows * weight + 0.5) for weight in weights]


def _sum_of_products(factors: Sequence[float], sizes: Sequence[int]) -> float:
    pairs = zip(factors, sizes, strict=True)
    return sum(factor * size for factor, size in pairs)


def _missing_faults(compiled: CompiledScenarios, counts: list[int], weights: list[float]) -> list[int]:
    """Return a flow, its most common format, for each kind of fault that would not occur at all."""
    by_scenario: dict[str, list[int]] = {}
    for index, flow in enumerate(compiled.flows):
        scenario = flow.scenario
        if scenario.fault and scenario.before_end_us is None:
            indexes = by_scenario.setdefault(scenario.name, [])
            indexes.append(index)
    missing: list[int] = []
    for indexes in by_scenario.values():
        occurs = any(counts[index] for index in indexes)
        if occurs:
            continue
        most_common = max(indexes, key=weights.__getitem__)
        missing.append(most_common)
    return missing


def _merge_huge_flows(compiled: CompiledScenarios, counts: list[int]) -> None:
    """Leave all huge flows to one compiled flow, so that they are spread over the batches and memory is bounded."""
    huge: list[int] = []
    for index, flow in enumerate(compiled.flows):
        if flow.template.repeated:
            huge.append(index)
    for index in huge[1:]:
        first = huge[0]
        counts[first] += counts[index]
        counts[index] = 0


def _fill_up(
    compiled: CompiledScenarios,
    counts: list[int],
    records: int,
    weights: list[float],
    sizes: list[int],
) -> None:
    """Set the number of the most common quotes so that there are `records` records, or just more."""
    names = [flow.scenario.name for flow in compiled.flows]
    quotes = [index for index, name in enumerate(names) if name == "quote"]
    filler = max(quotes, key=weights.__getitem__)
    counts[filler] = 0
    records_so_far = int(_sum_of_products(counts, sizes))
    missing_records = records - records_so_far
    flows = -(-missing_records // sizes[filler])
    counts[filler] = max(0, flows)


def _counts_at_end(options: Options, compiled: CompiledScenarios) -> dict[int, int]:
    """Return the numbers of flows that begin at the end: each kind in one format only."""
    counts: dict[int, int] = {}
    names: set[str] = set()
    for index, flow in enumerate(compiled.flows):
        scenario = flow.scenario
        if scenario.before_end_us is None or scenario.name in names:
            continue
        names.add(scenario.name)
        if scenario is CLOSING:
            counts[index] = options.nodes
        else:
            counts[index] = _FAULTS_AT_END if options.has_all_faults else 0
    return counts


def batch_share(total: int, batch: int, batches: int, flow: int) -> int:
    """Return a batch's part of a number of flows, so that the parts of all batches add up to it.

    Small numbers are spread: different flows have their first instances in different batches.
    """
    phase = flow * 7919 % batches
    begin = total * batch + phase
    end = begin + total
    before = begin // batches
    after = end // batches
    return after - before
