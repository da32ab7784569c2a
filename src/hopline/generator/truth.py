"""What is true of the captures, told from what was planted. Nothing here looks at frames or matches records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import ENDINGS, Event, Level, shown
from hopline.generator.compiled_scenarios import EVENTS, CompiledScenarios
from hopline.generator.expectations import (
    RecordTypeTexts,
    asked_at,
    counts_as_hop,
    firsts_of,
    is_question_seen,
    is_stitched,
    leaves_of,
    of_the_flow,
    outcomes_of,
    roots_of,
)
from hopline.generator.flow_batch import FlowBatch
from hopline.generator.flow_template import MISSING, Lifetime, TransitStatus
from hopline.generator.node_logs import LogPart
from hopline.generator.randomness import Numbers, Octets, guids
from hopline.generator.topology import Topology
from hopline.generator.truth_tables import SCHEMAS, TIME, TruthTableFiles
from hopline.message import WireFormat

_HOUR_US = 3_600_000_000
_SEVERITIES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")
_CAME_IN = np.array([event in (Event.SUBMITTED, Event.RECEIVED) for event in EVENTS])
_OUTCOMES = np.array([event in (Event.DELIVERED, Event.SENT, *ENDINGS) for event in EVENTS])


class GroundTruth:
    """Collects the tables. RecordColumns of flows are written as they come; what is counted, at the end."""

    def __init__(self, directory: Path, compiled: CompiledScenarios, topology: Topology, seed: int, start: int) -> None:
        self._tables = TruthTableFiles(directory)
        self._stage = compiled
        self._topology = topology
        self._seed = seed
        self._start = start
        self._names = pa.array(topology.names(), pa.string())
        self._hubs = pa.array([shown(row.tobytes()) for row in topology.hubs], pa.string())
        size = topology.nodes
        self._pairs = {arrival: np.zeros((size, size), np.int64) for arrival in TransitStatus}
        self._verdicts: dict[tuple[str, str], Numbers] = {}
        self._audit: dict[tuple[int, int], Numbers] = {}
        self._sites = RecordTypeTexts(compiled)
        self.totals: dict[str, int] = {}

    # -- flows and callbacks -------------------------------------------------------------------------------------------

    def add(self, one: FlowBatch) -> None:
        """Take what some flows of one kind are like."""
        self._count_transits(one)
        if is_stitched(one.compiled_flow):
            self._add_flows(one, of_the_flow(one.compiled_flow))
            if one.compiled_flow.template.expected.callback and is_question_seen(one.compiled_flow):
                self._add_callbacks(one)

    def _add_flows(self, one: FlowBatch, steps: list[int]) -> None:
        template, expected = one.compiled_flow.template, one.compiled_flow.template.expected
        roots = roots_of(one.compiled_flow)
        starts = _extreme([one.clock(step) for step in roots or firsts_of(one.compiled_flow)], np.minimum)
        answered = expected.answered_at in one.compiled_flow.record_types
        ends = (
            one.clock(expected.answered_at)
            if answered
            else _extreme([one.clock(step) for step in leaves_of(one.compiled_flow)], np.maximum)
        )
        origin = one.nodes[:, template.steps[0].role] if roots else None
        outcome = outcomes_of(one.compiled_flow)[0] if roots else "orphan"
        parent, first = one.seen_parent, one
        while (before := first.seen_parent) is not None:
            first = before
        times = {step: one.rows(step) // one.count for step in steps}
        message_count = {template.snapshots[template.steps[step].snapshot].message_index: times[step] for step in steps}
        sendings = sum(times[step] for step in steps if counts_as_hop(template.steps[step]))
        self._tables.add(
            "flows",
            one.count,
            flow_id=_texts(one.correlations),
            scene=template.name,
            wire_format=template.wire_format.name,
            outcome=outcome,
            origin=None if origin is None else self._names.take(pa.array(origin)),
            identity=shown(template.snapshots[0].message.identity),
            messages=sum(message_count.values()),
            records=sum(times.values()),
            hops=sendings,
            nodes=_distinct(one.nodes[:, sorted({template.steps[step].role for step in steps})]),
            answers=expected.answers + (one.context.items if template.repeated else 0) if answered else 0,
            start_ts=self._moments(starts),
            end_ts=self._moments(ends),
            duration_us=ends - starts,
            parent_flow_id=None if parent is None else _texts(parent.correlations),
            journey_id=_texts(first.correlations),
        )
        if parent is None and not all(nested.seen_parent is None for nested in one.nested):
            self._add_journeys(one)

    def _add_journeys(self, one: FlowBatch) -> None:
        outcomes = [outcomes_of(each.compiled_flow)[0] for each in one.everything]
        self._tables.add(
            "journeys",
            one.count,
            journey_id=_texts(one.correlations),
            flows=len(outcomes),
            depth=one.depth,
            outcome=max(outcomes, key=_SEVERITIES.index),
        )

    def _add_callbacks(self, one: FlowBatch) -> None:
        template, expected = one.compiled_flow.template, one.compiled_flow.template.expected
        request = template.snapshots[0].message
        asked = [one.clock(step) for step in asked_at(one.compiled_flow)]
        question = _extreme(asked, np.minimum) if asked else None
        answered = expected.answered_at in one.compiled_flow.record_types
        outcome = outcomes_of(one.compiled_flow)[1]
        if expected.answer is not None and not answered:  # it came, and no record says so
            outcome = "expired" if template.lifetime is not Lifetime.UNLIMITED else "unanswered"
        answer = one.clock(expected.answered_at) if answered else None
        nameless = template.wire_format is WireFormat.FIRST
        askers = one.nodes[:, 0]
        self._tables.add(
            "callbacks",
            one.count,
            flow_id=_texts(one.correlations),
            asked_node=self._names.take(pa.array(askers)),
            asked_receiver=self._hubs.take(pa.array(askers)),
            callback_key=0 if nameless else one.keys,
            identity=shown(request.identity),
            outcome=outcome,
            answer_identity=shown(expected.answer.identity) if expected.answer is not None and answered else None,
            asked_ts=None if question is None else self._moments(question),
            answered_ts=None if answer is None else self._moments(answer),
            latency_us=None if question is None or answer is None else answer - question,
        )

    def _count_transits(self, one: FlowBatch) -> None:
        size = self._topology.nodes
        for number in one.compiled_flow.recorded:
            step = one.compiled_flow.template.steps[number]
            if step.code or step.is_dropped or step.peer == MISSING:
                continue
            repeats = one.rows(number) // one.count
            pairs = one.nodes[:, step.peer] * size + one.nodes[:, step.role]
            counted = repeats * np.bincount(pairs, minlength=size * size).reshape(size, size)
            self._pairs[step.arrival] += counted.T if step.event is Event.SENT else counted
            if step.verdict:
                key = one.compiled_flow.template.snapshots[step.snapshot].message.domain, step.verdict
                self._verdicts[key] = self._verdicts.get(key, 0) + counted

    # -- records -------------------------------------------------------------------------------------------------------

    def add_written(self, written: LogPart) -> None:
        """Take records as they were numbered."""
        marked = np.flatnonzero(self._stage.is_marked[written.record_type])
        self._add_faults(written, marked)
        self._add_dropped(written)
        self._add_incidents(written, np.flatnonzero(self._sites.is_incident[written.record_type]))
        rejects = np.flatnonzero(self._stage.is_reject[written.record_type])
        if len(rejects):
            self._tables.add(
                "rejects",
                len(rejects),
                **self._place(written, rejects),
                event=self._sites.text("event", written.record_type[rejects]),
                code=self._sites.text("code", written.record_type[rejects]),
            )
        self._count_events(written)

    def _add_faults(self, written: LogPart, rows: npt.NDArray[np.intp]) -> None:
        if not len(rows):
            return
        record_type = written.record_type[rows]
        faults = self._sites.text("fault", record_type)
        self._tables.add(
            "faults",
            len(rows),
            **{"class": faults},
            kind=self._sites.text("kind", record_type),
            **self._place(written, rows),
            peer=self._peers(written, rows),
            flow_id=self._flow_ids(written, rows),
            identity=self._sites.text("identity", record_type),
        )
        for fault, count in zip(*np.unique(np.asarray(faults), return_counts=True), strict=True):
            self._count(f"fault.{fault}", int(count))

    def _add_dropped(self, written: LogPart) -> None:
        rows = np.flatnonzero(written.dropped)
        if len(rows):
            kinds = pa.array([str(count) for count in written.dropped[rows]], pa.string())
            self._tables.add("faults", len(rows), **{"class": "dropped"}, kind=kinds, **self._place(written, rows))
            self._count("fault.dropped", len(rows))

    def _add_incidents(self, written: LogPart, rows: npt.NDArray[np.intp]) -> None:
        if len(rows):
            record_type = written.record_type[rows]
            self._tables.add(
                "incidents",
                len(rows),
                **self._place(written, rows),
                peer=self._peers(written, rows),
                offence=self._sites.text("verdict", record_type),
                domain=self._sites.text("domain", record_type),
                flow_id=self._flow_ids(written, rows),
                identity=self._sites.text("identity", record_type),
            )

    def _place(self, written: LogPart, rows: npt.NDArray[np.intp]) -> dict[str, Any]:
        return {
            "node": self._names[written.node].as_py(),
            "seq": written.seq[rows],
            "ts": pa.array(written.ts[rows]).cast(TIME),
        }

    def _peers(self, written: LogPart, rows: npt.NDArray[np.intp]) -> pa.Array:
        peers = written.peer[rows]
        return self._names.take(pa.array(peers, mask=peers == MISSING))

    def _flow_ids(self, written: LogPart, rows: npt.NDArray[np.intp]) -> pa.Array:
        texts = _texts(guids(self._seed, written.flow[rows]))
        return texts.take(pa.array(np.arange(len(rows)), mask=~self._sites.is_flow[written.record_type[rows]]))

    def _count_events(self, written: LogPart) -> None:
        hours = written.ts // _HOUR_US
        for hour in np.unique(hours).tolist():
            rows = hours == hour
            record_type = written.record_type[rows]
            events = np.bincount(self._stage.events[record_type], minlength=len(EVENTS))
            broadcasts = np.bincount(
                self._stage.events[record_type[self._stage.is_broadcast[record_type]]], minlength=len(EVENTS)
            )
            # On the wire alone, who sends a broadcast is not seen to get it, nor who gets it to do anything with it.
            came_in = broadcasts[_CAME_IN].sum() if self._stage.level is Level.FULL else 0
            copies = int(broadcasts[_OUTCOMES].sum() - came_in)
            counted = np.array(
                [
                    len(record_type),
                    written.dropped[rows].sum(),
                    self._stage.is_reject[record_type].sum(),
                    *events,
                    copies,
                ]
            )
            key = written.node, hour
            self._audit[key] = self._audit.get(key, np.zeros_like(counted)) + counted
        self._count("records", len(written.record_type))
        self._count("rejects", int(self._stage.is_reject[written.record_type].sum()))
        self._count("dropped", int(written.dropped.sum()))

    def flush(self) -> None:
        """Write the rows so far."""
        self._tables.flush()

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what was counted, and close the files."""
        names = self._topology.names()
        for (node, hour), counted in sorted(self._audit.items()):
            values = dict(zip(SCHEMAS["audit"].names[2:], counted.tolist(), strict=True))
            self._tables.add("audit", 1, node=names[node], hour=pa.array([hour * _HOUR_US]).cast(TIME), **values)
        seen = sum(self._pairs.values(), np.zeros_like(self._pairs[TransitStatus.NONE]))
        for source, target in zip(*(axis.tolist() for axis in np.nonzero(seen)), strict=True):
            pair = {arrival: int(counts[source, target]) for arrival, counts in self._pairs.items()}
            self._tables.add(
                "hops",
                1,
                from_node=names[source],
                to_node=names[target],
                sent=pair[TransitStatus.ARRIVED] + pair[TransitStatus.LOST] + pair[TransitStatus.UNWATCHED],
                received=pair[TransitStatus.MATCHED] + pair[TransitStatus.DUPLICATE] + pair[TransitStatus.UNSENT],
                lost=pair[TransitStatus.LOST],
                duplicates=pair[TransitStatus.DUPLICATE],
                unwatched=pair[TransitStatus.UNWATCHED],
                unsent=pair[TransitStatus.UNSENT],
            )
        for (domain, verdict), counts in sorted(self._verdicts.items()):
            for peer, node in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
                total = int(counts[peer, node])
                self._tables.add(
                    "security", 1, node=names[node], peer=names[peer], domain=domain, verdict=verdict, count=total
                )
        for node, name in enumerate(names):
            self._tables.add(
                "skew",
                1,
                node=name,
                uri=self._topology.uris[node].tobytes().decode(),
                offset_us=int(self._topology.skews[node]),
                captured=node < self._topology.captured,
            )
        self._tables.close()
        self.totals |= self._tables.rows

    def _count(self, what: str, count: int) -> None:
        self.totals[what] = self.totals.get(what, 0) + count

    def _moments(self, times: Numbers) -> pa.Array:
        return pa.array(times + self._start).cast(TIME)


def _extreme(times: list[Numbers], of: np.ufunc) -> Numbers:
    """Give the first or last moment of each flow."""
    flows = min(len(one) for one in times)  # of a huge flow some steps happen very often
    alike = [one if len(one) == flows else np.asarray([of.reduce(one)]) for one in times]
    found: Numbers = of.reduce(np.stack(alike))
    return found


def _distinct(nodes: Numbers) -> Numbers:
    ordered = np.sort(nodes, axis=1)
    changes: Numbers = (np.diff(ordered, axis=1) != 0).sum(axis=1)
    return 1 + changes


def _texts(rows: Octets) -> pa.Array:
    width = rows.shape[1]
    ends = np.arange(len(rows) + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows)))
