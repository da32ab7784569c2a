"""The truth about flows, journeys, callbacks, hops and verdicts, from the flow batches that were generated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import Event, shown
from hopline.generator.compiled_scenarios import CompiledFlow
from hopline.generator.expectations import (
    callback_outcome,
    earliest_steps,
    flow_outcome,
    is_flow,
    is_hop,
    leaf_steps,
    request_steps,
    requester_steps,
    root_steps,
    steps_of_flow,
)
from hopline.generator.flow_batch import FlowBatch
from hopline.generator.flow_template import MISSING, FlowTemplate, Lifetime, Step, TransitStatus
from hopline.generator.randomness import Numbers
from hopline.generator.topology import Topology
from hopline.generator.truth_tables import TIME, TruthTableFiles, texts_of
from hopline.message import WireFormat

_SEVERITIES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")
"""Outcomes of flows; a journey has the most severe one of its flows."""


class FlowTruth:
    """Writes the tables `flows`, `journeys` and `callbacks`, and counts what `hops` and `security` sum up."""

    def __init__(self, tables: TruthTableFiles, topology: Topology, start: int) -> None:
        self._tables = tables
        self._topology = topology
        self._start = start
        self._names = pa.array(topology.names(), pa.string())
        hubs = [shown(row.tobytes()) for row in topology.hubs]
        self._hubs = pa.array(hubs, pa.string())
        shape = (topology.nodes, topology.nodes)
        self._transits = {status: np.zeros(shape, np.int64) for status in TransitStatus}
        self._verdicts: dict[tuple[str, str], Numbers] = {}

    def add(self, batch: FlowBatch) -> None:
        """Add the flows of a batch."""
        self._count_transits(batch)
        if not is_flow(batch.compiled):
            return
        self._add_flows(batch)
        if batch.template.expected.callback and request_steps(batch.compiled):
            self._add_callbacks(batch)

    # -- flows and journeys --------------------------------------------------------------------------------------------

    def _add_flows(self, batch: FlowBatch) -> None:
        template, compiled = batch.template, batch.compiled
        roots = root_steps(compiled)
        steps = steps_of_flow(compiled)
        repeats = {step: batch.step_rows(step) // batch.count for step in steps}
        messages = {template.snapshot_of(step).message_index: repeats[step] for step in steps}
        starts = _first_times(batch, roots or earliest_steps(compiled))
        ends = self._end_times(batch)
        roles = sorted({template.steps[step].role for step in steps})
        parent = batch.recorded_parent
        self._tables.add(
            "flows",
            batch.count,
            flow_id=texts_of(batch.correlations),
            scene=template.name,
            wire_format=template.wire_format.name,
            outcome=flow_outcome(compiled) if roots else "orphan",
            origin=self._names_of(batch.nodes[:, template.steps[0].role]) if roots else None,
            identity=shown(template.snapshots[0].message.identity),
            messages=sum(messages.values()),
            records=sum(repeats.values()),
            hops=sum(repeats[step] for step in steps if is_hop(template.steps[step])),
            nodes=_count_distinct(batch.nodes[:, roles]),
            answers=_answer_count(batch),
            start_ts=self._timestamps(starts),
            end_ts=self._timestamps(ends),
            duration_us=ends - starts,
            parent_flow_id=None if parent is None else texts_of(parent.correlations),
            journey_id=texts_of(_outermost(batch).correlations),
        )
        has_recorded_nested = any(nested.recorded_parent is not None for nested in batch.nested)
        if parent is None and has_recorded_nested:
            self._add_journeys(batch)

    @staticmethod
    def _end_times(batch: FlowBatch) -> Numbers:
        if _is_answer_recorded(batch.compiled):
            return batch.clock_times(batch.template.expected.answered_at)
        return _last_times(batch, leaf_steps(batch.compiled))

    def _add_journeys(self, batch: FlowBatch) -> None:
        outcomes = [flow_outcome(nested.compiled) for nested in batch.with_nested()]
        self._tables.add(
            "journeys",
            batch.count,
            journey_id=texts_of(batch.correlations),
            flows=len(outcomes),
            depth=batch.depth,
            outcome=max(outcomes, key=_SEVERITIES.index),
        )

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def _add_callbacks(self, batch: FlowBatch) -> None:
        template, compiled = batch.template, batch.compiled
        expected = template.expected
        recorded_requests = requester_steps(compiled)
        asked = _first_times(batch, recorded_requests) if recorded_requests else None
        is_answered = _is_answer_recorded(compiled)
        answered = batch.clock_times(expected.answered_at) if is_answered else None
        latency = answered - asked if asked is not None and answered is not None else None
        answer = expected.answer if is_answered else None
        has_keys = template.wire_format is not WireFormat.FIRST
        requesters = pa.array(batch.nodes[:, 0])
        self._tables.add(
            "callbacks",
            batch.count,
            flow_id=texts_of(batch.correlations),
            asked_node=self._names.take(requesters),
            asked_receiver=self._hubs.take(requesters),
            callback_key=batch.callback_keys if has_keys else 0,
            identity=shown(template.snapshots[0].message.identity),
            outcome=_recorded_callback_outcome(compiled),
            answer_identity=None if answer is None else shown(answer.identity),
            asked_ts=None if asked is None else self._timestamps(asked),
            answered_ts=None if answered is None else self._timestamps(answered),
            latency_us=latency,
        )

    # -- hops and verdicts ---------------------------------------------------------------------------------------------

    def _count_transits(self, batch: FlowBatch) -> None:
        for number in batch.compiled.record_types:
            step = batch.template.steps[number]
            if step.reject_code or step.is_dropped or step.peer == MISSING:
                continue
            repeats = batch.step_rows(number) // batch.count
            counts = repeats * self._pair_counts(batch, step)
            is_sent = step.event is Event.SENT
            self._transits[step.transit] += counts.T if is_sent else counts
            if step.verdict:
                self._count_verdicts(batch.template, step, counts)

    def _pair_counts(self, batch: FlowBatch, step: Step) -> Numbers:
        """Count flows by the peer (row) and the node (column) of a step."""
        size = self._topology.nodes
        peers = batch.nodes[:, step.peer]
        nodes = batch.nodes[:, step.role]
        pairs = peers * size + nodes
        counts = np.bincount(pairs, minlength=size * size)
        return counts.reshape(size, size)

    def _count_verdicts(self, template: FlowTemplate, step: Step, counts: Numbers) -> None:
        domain = template.snapshots[step.snapshot].message.domain
        key = domain, step.verdict
        counts_so_far = self._verdicts.get(key, 0)
        self._verdicts[key] = counts_so_far + counts

    def write_totals(self) -> None:
        """Write the tables `hops` and `security`."""
        self._write_hops()
        self._write_verdicts()

    def _write_hops(self) -> None:
        names = self._topology.names()
        all_transits = np.sum(list(self._transits.values()), axis=0)
        for source, target in _nonzero_pairs(all_transits):
            counts = {status: int(pairs[source, target]) for status, pairs in self._transits.items()}
            sent = (TransitStatus.ARRIVED, TransitStatus.LOST, TransitStatus.UNWATCHED)
            received = (TransitStatus.MATCHED, TransitStatus.DUPLICATE, TransitStatus.UNSENT)
            self._tables.add(
                "hops",
                1,
                from_node=names[source],
                to_node=names[target],
                sent=sum(counts[status] for status in sent),
                received=sum(counts[status] for status in received),
                lost=counts[TransitStatus.LOST],
                duplicates=counts[TransitStatus.DUPLICATE],
                unwatched=counts[TransitStatus.UNWATCHED],
                unsent=counts[TransitStatus.UNSENT],
            )

    def _write_verdicts(self) -> None:
        names = self._topology.names()
        for (domain, verdict), counts in sorted(self._verdicts.items()):
            for peer, node in _nonzero_pairs(counts):
                self._tables.add(
                    "security",
                    1,
                    node=names[node],
                    peer=names[peer],
                    domain=domain,
                    verdict=verdict,
                    count=int(counts[peer, node]),
                )

    def _names_of(self, nodes: Numbers) -> pa.Array:
        return self._names.take(pa.array(nodes))

    def _timestamps(self, times: Numbers) -> pa.Array:
        return pa.array(times + self._start).cast(TIME)


def _is_answer_recorded(compiled: CompiledFlow) -> bool:
    return compiled.template.expected.answered_at in compiled.record_types


def _recorded_callback_outcome(compiled: CompiledFlow) -> str:
    template = compiled.template
    has_answer = template.expected.answer is not None
    if has_answer and not _is_answer_recorded(compiled):
        return "unanswered" if template.lifetime is Lifetime.UNLIMITED else "expired"
    return callback_outcome(compiled)


def _answer_count(batch: FlowBatch) -> int:
    if not _is_answer_recorded(batch.compiled):
        return 0
    repeated = batch.context.items if batch.template.repeated else 0
    return batch.template.expected.answers + repeated


def _outermost(batch: FlowBatch) -> FlowBatch:
    parent = batch.recorded_parent
    return batch if parent is None else _outermost(parent)


def _first_times(batch: FlowBatch, steps: list[int]) -> Numbers:
    return _extreme_times(batch, steps, np.minimum)


def _last_times(batch: FlowBatch, steps: list[int]) -> Numbers:
    return _extreme_times(batch, steps, np.maximum)


def _extreme_times(batch: FlowBatch, steps: list[int], extreme: np.ufunc) -> Numbers:
    """Return the first or last of some steps' times, flow by flow."""
    times = [batch.clock_times(step) for step in steps]
    flows = min(len(step_times) for step_times in times)
    by_flow: list[npt.NDArray[np.int64]] = []
    for step_times in times:
        is_repeated = len(step_times) != flows  # in a huge flow, which is alone in its batch
        by_flow.append(np.asarray([extreme.reduce(step_times)]) if is_repeated else step_times)
    result: Numbers = extreme.reduce(np.stack(by_flow))
    return result


def _count_distinct(nodes: Numbers) -> Numbers:
    """Return the number of different nodes in each row."""
    in_order = np.sort(nodes, axis=1)
    is_change = np.diff(in_order, axis=1) != 0
    changes: Numbers = is_change.sum(axis=1)
    return 1 + changes


def _nonzero_pairs(matrix: Numbers) -> Iterator[tuple[int, int]]:
    rows, columns = np.nonzero(matrix)
    yield from zip(rows.tolist(), columns.tolist(), strict=True)
