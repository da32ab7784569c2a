"""What follows from how far the nodes have come: which units are closed, and which windows are final.

The laws are those of a network in small: units of records at some nodes, whose clocks differ, written to segments that
arrive late. `test_closing` proves that Spark closes units as it is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hopline.pipeline.stream.closing import EVER, NEVER
from hopline.pipeline.stream.nodes import heard, horizon, passed, silent
from hopline.pipeline.stream.state import NodeState

NODES = ("a", "b", "c")
GAP, WINDOW = 10, 4
IDLE_S = 100.0


@dataclass(frozen=True)
class Record:
    """A record, by the clock of its node."""

    unit: int
    node: str
    us: int
    peer: str | None = None


@dataclass(frozen=True)
class Network:
    """What the nodes have recorded, and in which order their segments arrive."""

    offsets: dict[str, int]
    records: list[Record]
    batches: list[list[Record]]

    @property
    def ahead_us(self) -> dict[str, int]:
        """By how much, at most, each clock differs from another."""
        clocks = self.offsets.values()
        return {node: max(abs(clock - other) for other in clocks) for node, clock in self.offsets.items()}


@st.composite
def units(draw: st.DrawFn, offsets: dict[str, int], unit: int) -> list[Record]:
    """Return the records of a unit, which stays where it is or is sent on; pauses are shorter than the gap."""
    us, node, records = draw(st.integers(0, 60)), draw(st.sampled_from(NODES)), []
    for _ in range(draw(st.integers(1, 5))):
        peer = draw(st.sampled_from([None, *(other for other in NODES if other != node)]))
        records.append(Record(unit, node, us + offsets[node], peer))
        if peer is not None:
            us += draw(st.integers(0, GAP - 1))
            records.append(Record(unit, peer, us + offsets[peer], node))
        us += draw(st.integers(0, GAP - 1))
        node = peer or node
    return records


@st.composite
def networks(draw: st.DrawFn) -> Network:
    offsets = {node: draw(st.integers(-5, 5)) for node in NODES}
    records = [one for unit in range(draw(st.integers(1, 6))) for one in draw(units(offsets, unit))]
    batches: list[list[Record]] = [[] for _ in range(draw(st.integers(1, 6)))]
    for node in NODES:
        own = sorted((record for record in records if record.node == node), key=lambda record: record.us)
        cuts = sorted(draw(st.lists(st.integers(0, len(own)), max_size=4)))
        numbers = sorted(
            draw(st.lists(st.integers(0, len(batches) - 1), min_size=len(cuts) + 1, max_size=len(cuts) + 1))
        )
        for (start, end), number in zip(pairwise([0, *cuts, len(own)]), numbers, strict=True):
            batches[number] += own[start:end]
    return Network(offsets, records, batches)


class Stream:
    """The decisions of a stream over few records."""

    def __init__(self, ahead_us: dict[str, int]) -> None:
        self.ahead_us = ahead_us
        self.nodes: dict[str, NodeState] = {}
        self.pending: list[Record] = []
        self.closed: set[int] = set()
        self.horizon_us = NEVER

    def batch(self, records: Sequence[Record], now: float) -> None:
        """Close what can be closed, and move the horizon."""
        self.pending += records
        times = dict(_times(records))
        mentioned = dict(sorted(_mentions(self.pending), key=lambda mention: -mention[1]))
        self.nodes = heard(self.nodes, times, mentioned, now)
        quiet = silent(self.nodes, now, IDLE_S)
        reached = passed(self.nodes, quiet, self.ahead_us)
        closed = {unit for unit in {record.unit for record in self.pending} if self._is_closed(unit, reached)}
        self.closed |= closed
        self.pending = [record for record in self.pending if record.unit not in closed]
        first_open_us = min((record.us for record in self.pending), default=None)
        self.horizon_us = max(self.horizon_us, horizon(self.nodes, quiet, first_open_us, WINDOW))

    def _is_closed(self, unit: int, reached: dict[str, int]) -> bool:
        own = [record for record in self.pending if record.unit == unit]
        last_us = max(record.us for record in own)
        return all(reached[name] >= last_us + GAP for name, _ in _mentions(own))


def _times(records: Sequence[Record]) -> Iterator[tuple[str, tuple[int, int]]]:
    for node in NODES:
        own = [record.us for record in records if record.node == node]
        if own:
            yield node, (min(own), max(own))


def _mentions(records: Sequence[Record]) -> Iterator[tuple[str, int]]:
    for record in records:
        yield record.node, record.us
        if record.peer is not None:
            yield record.peer, record.us


@given(networks())
def test_no_record_comes_for_a_unit_that_is_closed_nor_before_the_horizon(network: Network) -> None:
    stream = Stream(network.ahead_us)
    everybody = [Record(-1 - number, node, -100) for number, node in enumerate(NODES)]
    for now, records in enumerate([everybody, *network.batches]):
        assert stream.closed.isdisjoint(record.unit for record in records)
        assert all(record.us >= stream.horizon_us for record in records)
        stream.batch(records, float(now))
    stream.batch([], len(network.batches) + IDLE_S)
    assert stream.closed >= {record.unit for record in network.records}
    assert stream.horizon_us > max(record.us for record in network.records)


def test_a_node_that_others_mention_is_waited_for_until_it_has_been_silent_for_the_idle_time() -> None:
    nodes = heard({}, {"a": (5, 9)}, {"a": 5, "b": 7}, now=0.0)
    assert nodes["b"].last_us is None
    assert passed(nodes, silent(nodes, IDLE_S - 1, IDLE_S), {"a": 2}) == {"a": 7, "b": NEVER}
    assert horizon(nodes, (), first_open_us=None, window_us=1) == 7
    assert passed(nodes, silent(nodes, IDLE_S, IDLE_S), {}) == {"a": EVER, "b": EVER}
    nodes = heard(nodes, {"b": (6, 8)}, {}, now=IDLE_S)
    assert silent(nodes, IDLE_S, IDLE_S) == ("a",)
    assert (nodes["b"].first_us, nodes["b"].last_us) == (6, 8)
