"""The truth about single records, from the logs as they were numbered: faults, incidents, rejects and the audit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import ENDINGS, Event, Level
from hopline.generator.compiled_scenarios import EVENTS, CompiledScenarios
from hopline.generator.flow_template import MISSING
from hopline.generator.node_logs import LogPart
from hopline.generator.randomness import Numbers, guids
from hopline.generator.topology import Topology
from hopline.generator.truth_tables import SCHEMAS, TIME, TruthTableFiles, texts_of

_HOUR_US = 3_600_000_000
_SOURCES = (Event.SUBMITTED, Event.RECEIVED)
_OUTCOMES = (Event.DELIVERED, Event.SENT, *ENDINGS)
_IS_SOURCE = np.array([event in _SOURCES for event in EVENTS])
_IS_OUTCOME = np.array([event in _OUTCOMES for event in EVENTS])

_TEXTS = ("fault", "kind", "event", "code", "verdict", "identity", "domain")

_Rows = npt.NDArray[np.intp]
_RecordTypes = npt.NDArray[np.int32]


class RecordTruth:
    """Writes the tables `faults`, `incidents` and `rejects`, and counts what `audit` sums up."""

    def __init__(
        self,
        tables: TruthTableFiles,
        compiled: CompiledScenarios,
        topology: Topology,
        seed: int,
    ) -> None:
        self._tables = tables
        self._compiled = compiled
        self._texts = {name: compiled.column(name, np.object_) for name in _TEXTS}
        self._is_incident = compiled.column("is_incident", np.bool_)
        self._has_flow = compiled.column("has_flow", np.bool_)
        self._seed = seed
        self._node_names = topology.names()
        self._names = pa.array(self._node_names, pa.string())
        self._audit: dict[tuple[int, int], Numbers] = {}
        self.totals: Counter[str] = Counter()

    def add(self, part: LogPart) -> None:
        """Add consecutive records of a node."""
        self._add_faults(part)
        self._add_gaps(part)
        self._add_incidents(part)
        self._add_rejects(part)
        self._count_records(part)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _add_faults(self, part: LogPart) -> None:
        rows = np.flatnonzero(self._compiled.is_marked[part.record_type])
        if not len(rows):
            return
        record_type = part.record_type[rows]
        faults = self._text("fault", record_type)
        self._tables.add(
            "faults",
            len(rows),
            **{"class": faults},
            kind=self._text("kind", record_type),
            **self._position(part, rows),
            peer=self._peers(part, rows),
            flow_id=self._flow_ids(part, rows),
            identity=self._text("identity", record_type),
        )
        for fault, count in Counter(faults.to_pylist()).items():
            self.totals[f"fault.{fault}"] += count

    def _add_gaps(self, part: LogPart) -> None:
        """Mark the records in front of which others were dropped; the kind of the fault is their number."""
        rows = np.flatnonzero(part.dropped)
        if not len(rows):
            return
        kinds = [str(count) for count in part.dropped[rows]]
        self._tables.add(
            "faults",
            len(rows),
            **{"class": "dropped"},
            kind=pa.array(kinds, pa.string()),
            **self._position(part, rows),
        )
        self.totals["fault.dropped"] += len(rows)

    def _add_incidents(self, part: LogPart) -> None:
        rows = np.flatnonzero(self._is_incident[part.record_type])
        if not len(rows):
            return
        record_type = part.record_type[rows]
        self._tables.add(
            "incidents",
            len(rows),
            **self._position(part, rows),
            peer=self._peers(part, rows),
            offence=self._text("verdict", record_type),
            domain=self._text("domain", record_type),
            flow_id=self._flow_ids(part, rows),
            identity=self._text("identity", record_type),
        )

    def _add_rejects(self, part: LogPart) -> None:
        rows = np.flatnonzero(self._compiled.is_reject[part.record_type])
        if not len(rows):
            return
        record_type = part.record_type[rows]
        self._tables.add(
            "rejects",
            len(rows),
            **self._position(part, rows),
            event=self._text("event", record_type),
            code=self._text("code", record_type),
        )

    def _position(self, part: LogPart, rows: _Rows) -> dict[str, Any]:
        return {
            "node": self._node_names[part.node],
            "seq": part.seq[rows],
            "ts": pa.array(part.ts[rows]).cast(TIME),
        }

    def _text(self, name: str, record_type: _RecordTypes) -> pa.Array:
        texts = self._texts[name][record_type]
        return pa.array(texts, pa.string())

    def _peers(self, part: LogPart, rows: _Rows) -> pa.Array:
        peers = part.peer[rows]
        indexes = pa.array(peers, mask=peers == MISSING)
        return self._names.take(indexes)

    def _flow_ids(self, part: LogPart, rows: _Rows) -> pa.Array:
        flow_ids = texts_of(guids(self._seed, part.flow[rows]))
        has_flow = self._has_flow[part.record_type[rows]]
        indexes = pa.array(np.arange(len(rows)), mask=~has_flow)
        return flow_ids.take(indexes)

    # -- audit ---------------------------------------------------------------------------------------------------------

    def _count_records(self, part: LogPart) -> None:
        hours = part.ts // _HOUR_US
        for hour in np.unique(hours).tolist():
            key = part.node, hour
            counts = self._hour_counts(part, hours == hour)
            counts_so_far = self._audit.get(key, 0)
            self._audit[key] = counts_so_far + counts
        is_reject = self._compiled.is_reject[part.record_type]
        self.totals["records"] += len(part.record_type)
        self.totals["rejects"] += int(is_reject.sum())
        self.totals["dropped"] += int(part.dropped.sum())

    def _hour_counts(self, part: LogPart, is_in_hour: npt.NDArray[np.bool_]) -> Numbers:
        """Return the counts of some records, in the order of the columns of `audit`."""
        record_type = part.record_type[is_in_hour]
        dropped = part.dropped[is_in_hour].sum()
        rejects = self._compiled.is_reject[record_type].sum()
        events = self._event_counts(record_type)
        copies = self._broadcast_copies(record_type)
        return np.array([len(record_type), dropped, rejects, *events, copies])

    def _event_counts(self, record_type: _RecordTypes) -> Numbers:
        events = self._compiled.events[record_type]
        return np.bincount(events, minlength=len(EVENTS))

    def _broadcast_copies(self, record_type: _RecordTypes) -> int:
        """Return by how many the outcomes of broadcasts exceed their sources: the copies that routers made."""
        is_broadcast = self._compiled.is_broadcast[record_type]
        events = self._event_counts(record_type[is_broadcast])
        outcomes = int(events[_IS_OUTCOME].sum())
        if self._compiled.level is not Level.FULL:
            return outcomes  # neither submissions nor deliveries are recorded, so a sending has no source
        return outcomes - int(events[_IS_SOURCE].sum())

    def write_totals(self) -> None:
        """Write the table `audit`."""
        count_columns = SCHEMAS["audit"].names[2:]
        for (node, hour), counts in sorted(self._audit.items()):
            values = dict(zip(count_columns, counts.tolist(), strict=True))
            hour_start = pa.array([hour * _HOUR_US]).cast(TIME)
            self._tables.add(
                "audit",
                1,
                node=self._node_names[node],
                hour=hour_start,
                **values,
            )
