"""The nodes' logs: the records of many flows in the order in which each node saw them, numbered, with their frames.

Theory of operation. Flows overlap in time and in nodes, but are made batch by batch. `NodeLogs.add` takes the flow
batches of one period, lays their records out in columns (`RecordColumns`), sorts them by node and time and numbers
them. Records after the end of the period stay pending until the next call, so that memory is bounded by the size of a
period and not of the capture. Three references have to survive that:

* A record's bytes are an index into an array of messages (`blobs`); those of pending records are copied.
* A record's cause is the row of another record until that one has a sequence number, and that number from then on.
* A dropped record takes a sequence number and leaves no row; the next record of its node carries the count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import CAPTURE_SCHEMA
from hopline.generator.compiled_scenarios import EVENTS, CompiledScenarios
from hopline.generator.flow_batch import FlowBatch
from hopline.generator.flow_template import MISSING
from hopline.generator.randomness import Numbers, Octets
from hopline.generator.topology import Topology

_FRAMES_TYPE = CAPTURE_SCHEMA.field("frames").type
_TS_TYPE = CAPTURE_SCHEMA.field("ts").type
_CODED_TEXT = pa.dictionary(pa.int32(), pa.string())


def _with_coded_text(field: pa.Field) -> pa.Field:
    is_text = pa.types.is_string(field.type)
    return field.with_type(_CODED_TEXT) if is_text else field


LOG_SCHEMA = pa.schema([_with_coded_text(field) for field in CAPTURE_SCHEMA])
"""The schema of a capture with texts as dictionary codes in memory; a file has plain strings."""

_NODE_SHIFT = 52  # a time in microseconds since the start needs fewer bits

_Ints = npt.NDArray[np.int32]
_Indexes = npt.NDArray[np.intp]
_Key = tuple[int, int]
"""A batch's id(), and a step or snapshot of its template."""


@dataclass(slots=True)
class RecordColumns:
    """Records before they are numbered. `MISSING` stands for no value."""

    record_type: _Ints
    node: _Ints
    peer: _Ints
    message: _Ints  # index of its bytes
    cause_row: _Ints  # row of its cause, while that has no sequence number
    cause_seq: Numbers
    time: Numbers
    duration: Numbers
    flow: Numbers

    @classmethod
    def empty(cls, count: int) -> RecordColumns:
        """Return columns of missing values."""
        ints = np.full((5, count), MISSING, np.int32)
        longs = np.full((4, count), MISSING, np.int64)
        return cls(*ints, *longs)

    def take(self, rows: _Indexes | slice) -> RecordColumns:
        """Return some of the records."""
        return RecordColumns(
            record_type=self.record_type[rows],
            node=self.node[rows],
            peer=self.peer[rows],
            message=self.message[rows],
            cause_row=self.cause_row[rows],
            cause_seq=self.cause_seq[rows],
            time=self.time[rows],
            duration=self.duration[rows],
            flow=self.flow[rows],
        )

    def concatenate(self, other: RecordColumns) -> RecordColumns:
        """Return these records followed by others."""
        columns: list[npt.NDArray[np.integer]] = []
        for field in fields(self):
            first = getattr(self, field.name)
            second = getattr(other, field.name)
            columns.append(np.concatenate([first, second]))
        return RecordColumns(*columns)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.record_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Consecutive records of one node, numbered."""

    node: int
    record_type: _Ints
    peer: _Ints
    seq: Numbers
    ts: Numbers  # microseconds since 1970, by the node's clock
    flow: Numbers
    dropped: Numbers
    records: Callable[[slice], pa.RecordBatch]
    """Makes the capture's records of a range; deferred, so that writing threads do it in parallel."""


class NodeLogs:
    """The logs of all captured nodes."""

    def __init__(self, compiled: CompiledScenarios, topology: Topology, start: int) -> None:
        self._compiled = compiled
        self._topology = topology
        self._start = start
        self._next_seq = np.ones(topology.captured, np.int64)
        self._dropped_since = np.zeros(topology.captured, np.int64)  # records dropped after the last one kept
        self._layout = _MessageLayout()
        self._pending = RecordColumns.empty(0)
        self._pending_blobs = pa.array([], pa.binary())
        self._names = pa.array(topology.names(), pa.string())
        self._receivers = pa.array(topology.receivers(), pa.string())
        self._uris = pa.array(topology.uri_texts(), pa.string())
        event_names = [str(event) for event in EVENTS]
        self._events = pa.array(event_names, pa.string())

    def add(self, batches: Sequence[FlowBatch], until: int | None) -> Iterator[LogPart]:
        """Add flows and yield all records before `until`, or all without it, node by node.

        The parts must be written before the call after the next one, which reuses their memory.
        """
        new_rows, new_blobs = self._lay_out(batches)
        rows, blobs = self._with_pending(new_rows, new_blobs)
        is_due = np.ones(len(rows), bool)
        if until is not None:
            is_due = rows.time < until
        due = np.flatnonzero(is_due)
        order = _by_node_and_time(rows, due)
        nodes = rows.node[order]
        counts = np.bincount(nodes, minlength=self._topology.captured)
        seq = self._number(counts)
        _resolve_causes(rows, order, seq)
        due_rows = rows.take(order)
        yield from self._parts(due_rows, seq, counts, blobs)
        pending = np.flatnonzero(~is_due)
        self._keep_pending(rows, pending, blobs)

    # -- laying out records --------------------------------------------------------------------------------------------

    def _lay_out(self, batches: Sequence[FlowBatch]) -> tuple[RecordColumns, pa.Array]:
        """Return the records of all batches, and the bytes of all messages in them."""
        blobs, first_messages = self._layout.write(batches)
        count = sum(batch.record_count for batch in batches)
        rows = RecordColumns.empty(count)
        first_rows: dict[_Key, int] = {}
        next_row = 0
        for batch in batches:
            for step in batch.compiled.record_types:
                first_rows[id(batch), step] = next_row
                _fill_rows(rows, batch, step, first_messages, first_rows)
                next_row += batch.step_rows(step)
        return rows, blobs

    def _with_pending(self, rows: RecordColumns, blobs: pa.Array) -> tuple[RecordColumns, pa.Array]:
        has_cause = rows.cause_row != MISSING
        rows.cause_row[has_cause] += len(self._pending)
        rows.message += len(self._pending_blobs)
        all_rows = self._pending.concatenate(rows)
        if len(self._pending_blobs):
            blobs = pa.concat_arrays([self._pending_blobs, blobs])
        return all_rows, blobs

    def _keep_pending(self, rows: RecordColumns, pending: _Indexes, blobs: pa.Array) -> None:
        kept = rows.take(pending)
        new_rows = np.full(len(rows), MISSING, np.int32)
        new_rows[pending] = np.arange(len(pending))
        has_cause = kept.cause_row != MISSING
        has_pending_cause = has_cause & (kept.cause_seq == MISSING)
        new_cause_rows = new_rows[kept.cause_row]
        kept.cause_row = np.where(has_pending_cause, new_cause_rows, np.int32(MISSING))
        messages, indexes = np.unique(kept.message, return_inverse=True)
        kept.message = indexes.astype(np.int32)
        self._pending = kept
        self._pending_blobs = blobs.take(pa.array(messages))

    # -- numbering -----------------------------------------------------------------------------------------------------

    def _number(self, counts: Numbers) -> Numbers:
        """Return the sequence numbers of records sorted by node, of which there are `counts`."""
        ends = np.cumsum(counts)
        first_rows = ends - counts
        seq_offsets = self._next_seq - first_rows
        offsets = np.repeat(seq_offsets, counts)
        self._next_seq = self._next_seq + counts
        return offsets + np.arange(len(offsets))

    def _parts(
        self,
        rows: RecordColumns,
        seq: Numbers,
        counts: Numbers,
        blobs: pa.Array,
    ) -> Iterator[LogPart]:
        ends = np.cumsum(counts).tolist()
        for node, (begin, end) in enumerate(pairwise([0, *ends])):
            node_rows = rows.take(slice(begin, end))
            node_seq = seq[begin:end]
            kept, dropped = self._drop(node, node_rows)
            if kept is not None:
                node_rows = node_rows.take(kept)
                node_seq = node_seq[kept]
            if not len(node_seq):
                continue
            skew = self._topology.skews[node]
            clock_offset = self._start + skew
            ts = node_rows.time + clock_offset
            records = partial(
                self._records,
                node,
                node_rows,
                node_seq,
                ts,
                dropped,
                blobs,
            )
            yield LogPart(
                node=node,
                record_type=node_rows.record_type,
                peer=node_rows.peer,
                seq=node_seq,
                ts=ts,
                flow=node_rows.flow,
                dropped=dropped,
                records=records,
            )

    def _drop(self, node: int, rows: RecordColumns) -> tuple[_Indexes | None, Numbers]:
        """Return the rows that are not dropped (None: all), and for each how many were dropped just before it."""
        is_dropped = self._compiled.is_dropped[rows.record_type]
        carried = self._dropped_since[node]
        if not carried and not is_dropped.any():
            return None, np.zeros(len(rows), np.int64)
        kept = np.flatnonzero(~is_dropped)
        dropped_so_far = carried + np.cumsum(is_dropped)
        dropped_before_kept = dropped_so_far[kept]
        boundaries = np.concatenate([[0], dropped_before_kept])
        total = carried + is_dropped.sum()
        self._dropped_since[node] = total - boundaries[-1]
        return kept, np.diff(boundaries)

    # -- Arrow ---------------------------------------------------------------------------------------------------------

    def _records(
        self,
        node: int,
        rows: RecordColumns,
        seq: Numbers,
        ts: Numbers,
        dropped: Numbers,
        blobs: pa.Array,
        part: slice,
    ) -> pa.RecordBatch:
        compiled = self._compiled
        rows = rows.take(part)
        record_type = rows.record_type
        groups = compiled.receiver_groups[record_type]
        receivers = groups * self._topology.nodes + node
        receivers[groups == MISSING] = MISSING
        messages = blobs.take(pa.array(rows.message))
        times = pa.array(ts[part])
        events = compiled.events[record_type]
        receiver_names = compiled.receiver_name_codes[record_type]
        handlers = compiled.handler_codes[record_type]
        reasons = compiled.reason_codes[record_type]
        dropped_before = dropped[part].astype(np.int32)
        columns = {
            "ts": times.cast(_TS_TYPE),
            "seq": pa.array(seq[part]),
            "node": _decoded(rows.node, self._names),
            "node_uri": _decoded(rows.node, self._uris),
            "event": _decoded(events, self._events),
            "peer": _decoded(rows.peer, self._names),
            "receiver": _decoded(receivers, self._receivers),
            "receiver_name": _decoded(receiver_names, compiled.receiver_names),
            "handler": _decoded(handlers, compiled.handlers),
            "cause": _nullable(rows.cause_seq),
            "duration_us": _nullable(rows.duration),
            "reason": _decoded(reasons, compiled.reasons),
            "dropped": pa.array(dropped_before),
            "frames": self._frames(record_type, messages),
        }
        arrays = [columns[name] for name in LOG_SCHEMA.names]
        return pa.RecordBatch.from_arrays(arrays, schema=LOG_SCHEMA)

    def _frames(self, record_type: _Ints, blobs: pa.Array) -> pa.ListArray:
        """Cut each record's bytes into frames, whose lengths the frame templates know."""
        templates = self._compiled.frame_templates[record_type]
        packed_lengths = self._compiled.frame_lengths.take(pa.array(templates))
        lengths = np.frombuffer(_joined_bytes(packed_lengths), "<i4")
        frame_offsets = pa.py_buffer(_offsets(lengths))
        _, _, content = blobs.buffers()
        buffers = [None, frame_offsets, content]
        frames = pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers)
        frame_counts = self._compiled.frame_counts[templates]
        list_offsets = pa.array(_offsets(frame_counts))
        return pa.ListArray.from_arrays(list_offsets, frames, type=_FRAMES_TYPE)


class _MessageLayout:
    """Writes the bytes of messages end to end into memory that is used again.

    Fresh memory costs more than filling it. There are two buffers: one is written to files while the other is filled.
    """

    def __init__(self) -> None:
        self._buffers = [_octets(0), _octets(0)]

    def write(self, batches: Sequence[FlowBatch]) -> tuple[pa.Array, dict[_Key, int]]:
        """Return the bytes of all messages, and the index of the first one of each batch and snapshot."""
        total_size, count = _measure(batches)
        octets = self._next_buffer(total_size)
        offsets = np.zeros(count + 1, np.int32)
        first_messages: dict[_Key, int] = {}
        position = index = 0
        for batch in batches:
            for snapshot, template in batch.compiled.frame_templates.items():
                rows = batch.snapshot_rows(snapshot)
                size = template.size
                end = position + rows * size
                block = octets[position:end]
                messages = block.reshape(rows, size)
                batch.write(snapshot, messages)
                first_messages[id(batch), snapshot] = index
                ends = size * np.arange(1, rows + 1)
                next_index = index + rows
                offsets[index + 1 : next_index + 1] = position + ends
                position = end
                index = next_index
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
        blobs = pa.BinaryArray.from_buffers(pa.binary(), count, buffers)
        return blobs, first_messages

    def _next_buffer(self, size: int) -> Octets:
        buffer, other = self._buffers
        if len(buffer) < size:
            buffer = _octets(size)
        self._buffers = [other, buffer]
        return buffer


def _octets(size: int) -> Octets:
    return np.empty(size, np.uint8)


def _measure(batches: Sequence[FlowBatch]) -> tuple[int, int]:
    """Return the bytes and the number of all messages."""
    size = count = 0
    for batch in batches:
        for snapshot, template in batch.compiled.frame_templates.items():
            rows = batch.snapshot_rows(snapshot)
            size += rows * template.size
            count += rows
    return size, count


def _fill_rows(
    rows: RecordColumns,
    batch: FlowBatch,
    number: int,
    first_messages: dict[_Key, int],
    first_rows: dict[_Key, int],
) -> None:
    """Fill in the records of one step of a batch."""
    step = batch.template.steps[number]
    count = batch.step_rows(number)
    first_row = first_rows[id(batch), number]
    part = slice(first_row, first_row + count)
    offsets = np.arange(count)
    rows.record_type[part] = batch.compiled.record_types[number]
    rows.flow[part] = batch.flows
    rows.time[part] = batch.times[number]
    rows.node[part] = batch.nodes[:, step.role]
    if step.peer != MISSING:
        rows.peer[part] = batch.nodes[:, step.peer]
    if step.duration_from != MISSING:
        begin = batch.times[step.duration_from]
        end = batch.times[number]
        rows.duration[part] = end - begin
    rows.message[part] = first_messages[id(batch), step.snapshot]
    message_count = batch.snapshot_rows(step.snapshot)
    if message_count > 1:
        rows.message[part] += offsets
    cause, causes = _cause_of(batch, number)
    if cause in first_rows:
        rows.cause_row[part] = first_rows[cause]
        if causes > 1:
            rows.cause_row[part] += offsets


def _cause_of(batch: FlowBatch, number: int) -> tuple[_Key, int]:
    """Return the step that caused a step, and the number of its records."""
    if number == 0:
        parent = batch.parent
        if parent is None:
            no_step = id(batch), MISSING
            return no_step, 0
        parent_step = id(parent.batch), parent.step
        return parent_step, batch.count
    step = batch.template.steps[number]
    cause = id(batch), step.cause
    return cause, batch.step_rows(step.cause)


def _by_node_and_time(rows: RecordColumns, due: _Indexes) -> _Indexes:
    """Return the rows in `due` sorted by node, then by time."""
    nodes = rows.node[due].astype(np.int64)
    sort_keys = (nodes << _NODE_SHIFT) + rows.time[due]
    order = np.argsort(sort_keys, kind="stable")
    return due[order]


def _resolve_causes(rows: RecordColumns, order: _Indexes, seq: Numbers) -> None:
    """Replace the row of a cause by its sequence number where it has got one."""
    seq_of_row = np.full(len(rows), MISSING, np.int64)
    seq_of_row[order] = seq
    has_cause = rows.cause_row != MISSING
    cause_rows = rows.cause_row[has_cause]
    rows.cause_seq[has_cause] = seq_of_row[cause_rows]


def _offsets(lengths: npt.NDArray[np.integer]) -> _Ints:
    offsets = np.empty(len(lengths) + 1, np.int32)
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _joined_bytes(array: pa.Array) -> pa.Buffer:
    """Return the bytes of a binary array's values end to end."""
    _, offset_buffer, values = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)
    begin = int(offsets[0])
    end = int(offsets[len(array)])
    return values.slice(begin, end - begin)


def _decoded(codes: npt.NDArray[np.integer], texts: pa.Array) -> pa.DictionaryArray:
    narrow_codes = codes.astype(np.int32, copy=False)
    is_missing = narrow_codes == MISSING
    indexes = pa.array(narrow_codes, mask=is_missing)
    return pa.DictionaryArray.from_arrays(indexes, texts)


def _nullable(numbers: Numbers) -> pa.Array:
    is_missing = numbers == MISSING
    return pa.array(numbers, mask=is_missing)
