"""The nodes' tapes: records of many flows put into the order in which each node saw them, numbered, with their frames.

What happens after the end of a batch's time waits for the next one, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopline.capture.records import SCHEMA
from hopline.generator.draws import Numbers
from hopline.generator.performance import Performance
from hopline.generator.script import NOBODY
from hopline.generator.stage import EVENTS, Stage
from hopline.generator.topology import Topology

_FRAMES = SCHEMA.field("frames").type
_NODE_SHIFT = 52  # microseconds since the start stay below
_Ints = npt.NDArray[np.int32]
Places = npt.NDArray[np.intp]


@dataclass(slots=True)
class Rows:
    """Records before they are numbered, a column each."""

    site: _Ints
    node: _Ints
    peer: _Ints
    image: _Ints
    cause: _Ints  # row of the cause, where that has no number yet
    cause_seq: Numbers
    time: Numbers
    duration: Numbers
    flow: Numbers

    @classmethod
    def of(cls, count: int) -> Rows:
        """Make room for records."""
        site, node, peer, image, cause = np.full((5, count), NOBODY, np.int32)
        return cls(site, node, peer, image, cause, *np.full((4, count), NOBODY, np.int64))

    def take(self, at: Places | slice) -> Rows:
        """Give some of the records."""
        return Rows(*(getattr(self, one.name)[at] for one in fields(self)))

    def followed_by(self, other: Rows) -> Rows:
        """Put other records behind these."""
        return Rows(*(np.concatenate([getattr(self, one.name), getattr(other, one.name)]) for one in fields(self)))


@dataclass(frozen=True, slots=True)
class Written:
    """Records of one node, numbered, in their order: as columns, and as what a capture has."""

    node: int
    site: _Ints
    peer: _Ints
    seq: Numbers
    ts: Numbers  # microseconds since 1970, by the node's clock
    flow: Numbers
    dropped: Numbers
    records: Callable[[slice], pa.RecordBatch]  # made when they are written, by whoever writes: room is used again


class Tapes:
    """All nodes' tapes."""

    def __init__(self, stage: Stage, topology: Topology, start: int) -> None:
        self._stage = stage
        self._topology = topology
        self._start = start
        self._next_seq = np.ones(topology.captured, np.int64)
        self._lost = np.zeros(topology.captured, np.int64)  # records dropped since the last one that was kept
        # Kept from batch to batch, because new memory costs more than filling it; one is written while one is filled.
        self._rooms = [np.empty(0, np.uint8), np.empty(0, np.uint8)]
        self._waiting = Rows.of(0)
        self._waiting_blobs = pa.array([], pa.binary())
        names = topology.names()
        self._names = pa.array(names, pa.string())
        self._receivers = pa.array(topology.receivers(), pa.string())
        self._uris = pa.array([row.tobytes().decode() for row in topology.uris], pa.string())
        self._events = pa.array([str(event) for event in EVENTS], pa.string())

    def add(self, performances: Sequence[Performance], until: int | None) -> Iterator[Written]:
        """Take flows, and give all records before a moment (all, without one), node by node.

        What was given must be written before the call after the next one.
        """
        rows, blobs = self._perform(performances)
        shift, offset = len(self._waiting.site), len(self._waiting_blobs)
        rows.cause[rows.cause != NOBODY] += shift
        rows.image += offset
        rows = self._waiting.followed_by(rows)
        blobs = pa.concat_arrays([self._waiting_blobs, blobs]) if offset else blobs
        is_due = np.ones(len(rows.site), bool) if until is None else rows.time < until
        due = np.flatnonzero(is_due)
        order = due[np.argsort((rows.node[due].astype(np.int64) << _NODE_SHIFT) + rows.time[due], kind="stable")]
        counts = np.bincount(rows.node[order], minlength=self._topology.captured)
        ends = np.cumsum(counts)
        firsts = np.repeat(self._next_seq - (ends - counts), counts)
        self._next_seq = self._next_seq + counts
        seq = firsts + np.arange(len(order))
        seq_of = np.full(len(rows.site), NOBODY, np.int64)
        seq_of[order] = seq
        has_cause = rows.cause != NOBODY
        rows.cause_seq[has_cause] = seq_of[rows.cause[has_cause]]
        yield from self._written(rows, order, seq, counts, blobs)
        self._keep(rows, np.flatnonzero(~is_due), blobs)

    def _perform(self, performances: Sequence[Performance]) -> tuple[Rows, pa.Array]:
        """Give the records of all performances, and the bytes of all messages in them."""
        count = sum(one.rows(step) for one in performances for step in one.cell.recorded)
        sizes = [
            (one, image, one.image_rows(image), template.size)
            for one in performances
            for image, template in one.cell.templates.items()
        ]
        size_of_all = sum(number * size for _, _, number, size in sizes)
        if len(self._rooms[0]) < size_of_all:
            self._rooms[0] = np.empty(size_of_all, np.uint8)
        octets = self._rooms[0]
        self._rooms.reverse()
        ends = np.zeros(sum(number for _, _, number, _ in sizes) + 1, np.int32)
        first_image: dict[tuple[int, int], int] = {}
        at = row = 0
        for one, image, number, size in sizes:
            one.write(image, octets[at : at + number * size].reshape(number, size))
            ends[row + 1 : row + number + 1] = at + size * np.arange(1, number + 1)
            first_image[id(one), image] = row
            at, row = at + number * size, row + number
        blobs = pa.BinaryArray.from_buffers(pa.binary(), row, [None, pa.py_buffer(ends), pa.py_buffer(octets)])
        rows = Rows.of(count)
        at = 0
        first_row: dict[tuple[int, int], int] = {}
        for one in performances:
            at = _put(rows, at, one, first_image, first_row)
        return rows, blobs

    def _keep(self, rows: Rows, late: Places, blobs: pa.Array) -> None:
        waiting = rows.take(late)
        place = np.full(len(rows.site), NOBODY, np.int32)
        place[late] = np.arange(len(late))
        still = (waiting.cause != NOBODY) & (waiting.cause_seq == NOBODY)
        waiting.cause = np.where(still, place[waiting.cause], NOBODY).astype(np.int32)
        images, waiting.image = _renumbered(waiting.image)
        self._waiting, self._waiting_blobs = waiting, blobs.take(pa.array(images))

    def _written(self, rows: Rows, order: Places, seq: Numbers, counts: Numbers, blobs: pa.Array) -> Iterator[Written]:
        """Give the records node by node."""
        ends = np.cumsum(counts).tolist()
        for node, (first, last) in enumerate(pairwise([0, *ends])):
            mine, numbers = rows.take(order[first:last]), seq[first:last]
            is_lost = self._stage.is_dropped[mine.site]
            lost_before = np.concatenate([[-self._lost[node]], np.cumsum(is_lost)])
            if lost_before[-1] != lost_before[0]:
                kept = np.flatnonzero(~is_lost)
                so_far = np.concatenate([lost_before[:1], lost_before[kept + 1]])
                dropped = np.diff(so_far)
                self._lost[node] = lost_before[-1] - so_far[-1]
                mine, numbers = mine.take(kept), numbers[kept]
            else:
                dropped = np.zeros(last - first, np.int64)
            if len(numbers):
                ts = self._start + mine.time + self._topology.skews[node]
                records = partial(self._records, node, mine, numbers, ts, dropped, blobs)
                yield Written(node, mine.site, mine.peer, numbers, ts, mine.flow, dropped, records)

    def _records(
        self, node: int, rows: Rows, seq: Numbers, ts: Numbers, dropped: Numbers, blobs: pa.Array, part: slice
    ) -> pa.RecordBatch:
        rows, seq, ts, dropped = rows.take(part), seq[part], ts[part], dropped[part]
        stage, site, count = self._stage, rows.site, len(rows.site)
        groups = stage.receivers[site]
        receivers = np.where(groups == NOBODY, NOBODY, groups * self._topology.nodes + node)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(ts).cast(SCHEMA.field("ts").type),
                pa.array(seq),
                _named(rows.node, self._names),
                _named(rows.node, self._uris),
                _named(stage.events[site], self._events),
                _named(rows.peer, self._names),
                _named(receivers, self._receivers),
                _named(stage.receiver_name_codes[site], stage.receiver_names),
                _named(stage.handler_codes[site], stage.handlers),
                _optional(rows.cause_seq),
                _optional(rows.duration),
                _named(stage.reason_codes[site], stage.reasons),
                pa.array(dropped.astype(np.int32)),
                self._frames(stage.templates_of_sites[site], blobs.take(pa.array(rows.image)), count),
            ],
            schema=TAPE_SCHEMA,
        )

    def _frames(self, templates: Numbers, blobs: pa.Array, count: int) -> pa.ListArray:
        """Cut each record's bytes into frames, whose lengths the templates know."""
        lengths = np.frombuffer(_values(self._stage.frame_lengths.take(pa.array(templates))), "<i4")
        ends = np.empty(len(lengths) + 1, np.int32)
        ends[0] = 0
        np.cumsum(lengths, out=ends[1:])
        list_ends = np.empty(count + 1, np.int32)
        list_ends[0] = 0
        np.cumsum(self._stage.frame_counts[templates], out=list_ends[1:])
        frames = pa.BinaryArray.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(ends), blobs.buffers()[2]])
        return pa.ListArray.from_arrays(pa.array(list_ends), frames, type=_FRAMES)


_CODES = pa.dictionary(pa.int32(), pa.string())
TAPE_SCHEMA = pa.schema([field.with_type(_CODES) if pa.types.is_string(field.type) else field for field in SCHEMA])
"""The capture's, with names as codes in memory: a file looks the same."""


def _put(
    rows: Rows,
    at: int,
    one: Performance,
    first_image: dict[tuple[int, int], int],
    first_row: dict[tuple[int, int], int],
) -> int:
    """Put the records of one performance into their places, and give the next free one."""
    steps = one.cell.play.steps
    for number in one.cell.recorded:
        step, count = steps[number], one.rows(number)
        part = slice(at, at + count)
        first_row[id(one), number] = at
        each = np.arange(count)
        rows.site[part] = one.cell.sites[number]
        rows.node[part] = one.nodes[:, step.role]
        if step.peer != NOBODY:
            rows.peer[part] = one.nodes[:, step.peer]
        rows.image[part] = first_image[id(one), step.image] + (each if one.image_rows(step.image) > 1 else 0)
        cause = id(one), step.cause
        if number == 0 and one.parent is not None:
            cause = id(one.parent.performance), one.parent.step
        if cause in first_row:
            causes = one.count if number == 0 else one.rows(step.cause)
            rows.cause[part] = first_row[cause] + (each if causes > 1 else 0)
        rows.time[part] = one.times[number]
        if step.since != NOBODY:
            rows.duration[part] = one.times[number] - one.times[step.since]
        rows.flow[part] = one.flows
        at += count
    return at


def _renumbered(numbers: _Ints) -> tuple[_Ints, _Ints]:
    unique, places = np.unique(numbers, return_inverse=True)
    return unique, places.astype(np.int32)


def _values(array: pa.Array) -> pa.Buffer:
    """Give the bytes of binaries that stand end to end."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1]
    return array.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _named(codes: npt.NDArray[np.integer], names: pa.Array) -> pa.DictionaryArray:
    codes = codes.astype(np.int32, copy=False)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == NOBODY), names)


def _optional(numbers: Numbers) -> pa.Array:
    return pa.array(numbers, mask=numbers == NOBODY)
