"""The table of flows: what belongs together by its correlation id, how long it took, where, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import FLOWS
from hopline.pipeline.tables.asking import (
    ANSWERED,
    ASKED_BY,
    BY_EXCEPTION,
    IN_VAIN,
    LATE,
    UNANSWERED,
    asked,
    matters,
)
from hopline.pipeline.tables.causality import Records
from hopline.pipeline.tables.clocks import Clocks, Watched
from hopline.pipeline.tables.critical_path import paths
from hopline.pipeline.tables.flow_records import COLUMNS, capped, records_of, without_offences
from hopline.pipeline.tables.flow_totals import TOTALS, totals
from hopline.pipeline.tables.large_flows import totals_of_large_flows
from hopline.pipeline.tables.matching import crosses, matched
from hopline.pipeline.traces import Kernel, TracesOfMessages
from hopline.pipeline.traces.arrays import DAY_US, NONE, longs, picked, starts_of
from hopline.pipeline.traces.columns import Flags, Longs
from hopline.pipeline.windows import last_seen

_SCHEMA = arrow_schema(FLOWS)
_TIME = _SCHEMA.field("start_ts").type


def flows(messages: DataFrame, skew: DataFrame) -> DataFrame:
    """Give a row for each flow: exact totals, the outcome, and the critical path of its first records."""
    traces = TracesOfMessages(messages)
    kernel = walking(skew.toArrow(), last_seen(messages).toArrow(), totals_of_large_flows(traces))
    return traces.made_by(kernel).to(FLOWS)


def walking(skew: pa.Table, ends: pa.Table, large: pa.Table) -> Kernel:
    """Give the kernel that does so.

    `ends` are the times of the nodes' last messages, and `large` the totals of flows that are too large to be counted
    in one piece.
    """
    known = _Known(Clocks(skew), Watched(ends), _LargeFlows(large))
    return Kernel(
        columns=tuple(dict.fromkeys((*COLUMNS, *ASKED_BY, "flow_id", "hops", "bytes"))),
        schema=_SCHEMA,
        work=partial(_flows, known),
        together="flow",
        shrink=capped,
    )


class _LargeFlows:
    """The totals of flows that are too large to be counted here."""

    def __init__(self, counted: pa.Table) -> None:
        self._counted = counted.sort_by("flow").combine_chunks()
        self._flows = longs(self._counted, "flow")

    def places(self, flow: Longs) -> Longs:
        """Tell where these flows are among them, or none."""
        if not len(self._flows):
            return np.full(len(flow), NONE)
        at = np.minimum(np.searchsorted(self._flows, flow), len(self._flows) - 1)
        return np.where(self._flows[at] == flow, at, NONE)

    def instead(self, places: Longs, counted: tuple[Longs | Flags, ...]) -> Iterator[Longs | Flags]:
        """Give these totals instead of what was counted of the same flows."""
        is_large = places != NONE
        for name, here in zip(TOTALS.names, counted, strict=True):
            if is_large.any():
                here[is_large] = self._counted[name].to_numpy()[places[is_large]]
            yield here


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known beyond the flows themselves."""

    clocks: Clocks
    watched: Watched
    large: _LargeFlows


def _flows(known: _Known, rows: pa.Table) -> pa.Table:
    recorded = capped(rows)
    rows = without_offences(recorded)
    if not len(rows):
        return _SCHEMA.empty_table()
    records = records_of(rows)
    first = np.flatnonzero(starts_of(records.flow))
    flow = longs(rows, "flow")[first]
    in_large = known.large.places(flow)
    counted = totals(records, longs(rows, "hops"), longs(rows, "bytes"))
    total = dict(zip(TOTALS.names, known.large.instead(in_large, counted), strict=True))
    found = paths(rows, records, known.clocks)
    ended = _ended(rows, recorded, flow, known)
    outcome = np.select(
        [
            in_large != NONE,
            ~found.has_root,
            ended.got_exception | (total["is_failed"] & ~ended.got_answer),
            ~ended.is_asked & ended.is_lost,
            ended.waited_in_vain | (~ended.is_asked & total["is_expired"]),
            ended.is_unanswered,
        ],
        ["truncated", "orphan", "failed", "failed", "expired", "unanswered"],
        "complete",
    )
    start, end = records.ts[found.root], records.ts[found.last]
    return pa.table(
        {
            "date": pa.array((start // DAY_US).astype(np.int32)).cast(pa.date32()),
            "flow_id": picked(rows, "flow_id", first),
            "start_ts": pa.array(start, _TIME),
            "end_ts": pa.array(end, _TIME),
            "duration_us": end - start,
            "origin": picked(rows, "node", np.where(found.has_root, found.root, NONE)),
            "identity": picked(rows, "identity", found.root),
            "messages": total["messages"],
            "records": total["records"],
            "hops": total["hops"],
            "nodes": _nodes(records),
            "bytes": total["bytes"],
            "depth": found.depth,
            "outcome": pa.array(outcome),
            "skew_us": found.skew_us,
            "skew_bound_us": found.skew_bound_us,
            "critical_path": found.stages,
        }
    )


def _nodes(records: Records) -> Longs:
    known = np.unique(records.on_node[records.node != 0], return_index=True)[1]
    return np.bincount(records.flow[records.node != 0][known], minlength=int(records.flow[-1]) + 1)


@dataclass(frozen=True, slots=True)
class _Ended:
    """What became of those who asked in each flow, and of what crossed in those where nobody did."""

    is_asked: Flags
    got_exception: Flags
    got_answer: Flags
    waited_in_vain: Flags
    is_unanswered: Flags
    is_lost: Flags


def _ended(rows: pa.Table, recorded: pa.Table, flow: Longs, known: _Known) -> _Ended:
    """Tell how the flows ended. What was lost is told by all that was recorded, as forged messages arrive as well."""
    waiting = rows.filter(pa.array((longs(rows, "ask") != 0) & matters(rows)))
    found = asked(waiting, known.watched)
    asking = np.searchsorted(flow, longs(found.rows, "flow")[found.request])

    def has(*outcomes: int) -> Flags:
        flags = np.zeros(len(flow), np.bool_)
        flags[asking[np.isin(found.outcome, outcomes)]] = True
        return flags

    is_asked = has(ANSWERED, BY_EXCEPTION, LATE, IN_VAIN, UNANSWERED)
    one_way = np.isin(longs(recorded, "flow"), flow[~is_asked])
    crossing = recorded.filter(pa.array(one_way & crosses(recorded))).combine_chunks()
    is_lost = np.zeros(len(flow), np.bool_)
    if len(crossing):
        ways = matched(crossing)
        lost = ways.leaves[ways.never_arrived(known.watched, ways.skew(known.clocks))[1]]
        is_lost[np.searchsorted(flow, longs(crossing, "flow")[lost])] = True
    return _Ended(
        is_asked,
        has(BY_EXCEPTION),
        has(ANSWERED, BY_EXCEPTION, LATE),
        has(IN_VAIN, LATE),
        has(UNANSWERED),
        is_lost,
    )
