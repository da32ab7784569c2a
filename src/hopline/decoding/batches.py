"""Batches of records in, messages and rejects out: many at once where they are plain, the others one by one.

A decoder that is called for each record is slow. But nearly all records are **plain**: messages as Hopline and the
reference write them, of usual sizes, in one of five layouts. For these, everything is computed for the whole batch at
once, with numpy and Arrow:

1. `Frames` is the memory of all frames, `Repeats` finds the records whose frames are the same: these are decoded once.
2. `shapes` says by the last frames of each record which layout it plainly has.
3. `Multipart` and `read_meta` find where the fields of the messages of a layout are, and refuse what is not plain.
   `Headers` has the result of all layouts together: places and sizes of names, numbers, lists, and the body frames.
4. `PlainColumns` cuts the columns of the table out of the memory, and refuses texts that are none.
5. `fingerprints` and `message_ids` make the digests; keys, if there are any, judge the signatures.

Whatever was refused goes the **careful way** (`read_carefully`): `hopline.wire` reads it record by record, as messages
or as rejects with the reason. So the fast way may refuse anything, but must never say anything else than the careful
way: that is what the tests hold it to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.events import Event
from hopline.decoding.careful import read_carefully
from hopline.decoding.columns import PlainColumns
from hopline.decoding.digests import fingerprints, message_ids
from hopline.decoding.frames import FRAMES, Flags, Frames, Longs
from hopline.decoding.header import LISTS, Headers, Listed
from hopline.decoding.keys import Keyring
from hopline.decoding.meta import read_meta
from hopline.decoding.multipart import Multipart
from hopline.decoding.repeats import Repeats
from hopline.decoding.schemas import MESSAGES, RECORD_COLUMNS, REJECTS
from hopline.decoding.shapes import LAYOUTS, Shape, is_one_of, shapes
from hopline.message import NO_FLOW
from hopline.wire import DEFAULT_LIMITS, decode

_NO_FLOWS = pa.array(["", "\0" * 16, NO_FLOW.decode()])
_OWN = ("KINO.", "HOPLINE.")
_SERVICE_PREFIXES = (*_OWN, *(f"0x{prefix.encode().hex().upper()}" for prefix in _OWN))  # where no text follows
_DAY_US = 86_400_000_000
_LARGE = 31 << 20  # bytes; beyond 32 MiB, pieces do not count


class Read(NamedTuple):
    """Messages and rejects, in the schemas of these tables; together they are all records."""

    messages: pa.Table
    rejects: pa.Table


def read_batch(records: pa.RecordBatch, keyring: Keyring, *, with_bodies: bool = False) -> Read:
    """Decode records.

    Args:
        records: The records; their columns are named as in the tables.
        keyring: The keys by which what is signed and came from outside is judged.
        with_bodies: Keep the body frames.

    Returns:
        What became of all of them, in another order.
    """
    if not len(records):
        return Read(MESSAGES.empty_table(), REJECTS.empty_table())
    _keep_memory()
    all_frames = records.column("frames")
    is_outside = _are_from_outside(records)
    frames = Frames.of_records(all_frames.cast(FRAMES))
    repeats = Repeats(frames)
    is_plain_distinct, said = _read_plain(frames.of(repeats.distinct), with_bodies=with_bodies)
    said = repeats.spread(said, is_plain_distinct)
    is_plain = is_plain_distinct[repeats.which]
    plain_rows = np.flatnonzero(is_plain)
    said["verdict"] = _verdicts(all_frames, plain_rows, is_outside[plain_rows], said["signature"], keyring)
    measured = _with_measures(records, frames, fingerprints(repeats))
    messages = _table(measured.filter(pa.array(is_plain)), said, MESSAGES)
    if is_plain.all():
        return Read(messages, REJECTS.empty_table())
    others = measured.append_column("frames", all_frames).filter(pa.array(~is_plain))
    more, rejects = _read_others(others, is_outside[~is_plain], keyring, with_bodies=with_bodies)
    return Read(pa.concat_tables([messages, more]), rejects)


def _are_from_outside(records: pa.RecordBatch) -> Flags:
    """Return which records came from another node; those that do not say what happened may have."""
    is_received = pc.equal(records.column("event"), Event.RECEIVED.value)
    is_outside: Flags = pc.fill_null(is_received, True).to_numpy(zero_copy_only=False)
    return is_outside


def _read_plain(frames: Frames, *, with_bodies: bool) -> tuple[Flags, dict[str, pa.Array]]:
    """Return which records are plain, and the columns of these."""
    headers = read_headers(frames)
    columns = PlainColumns(frames, headers.of(headers.plain), with_bodies=with_bodies)
    is_odd = columns.odd()
    if is_odd.any():
        headers.refuse(np.flatnonzero(headers.plain), is_odd)
        columns = PlainColumns(frames, headers.of(headers.plain), with_bodies=with_bodies)
    said = columns.said()
    return headers.plain, said | _derived(said)


def _read_others(records: pa.Table, is_outside: Flags, keyring: Keyring, *, with_bodies: bool) -> Read:
    """Return what the careful way makes of records."""
    taken, refused = read_carefully(records.column("frames"), is_outside, keyring, with_bodies=with_bodies)
    messages = MESSAGES.empty_table()
    if taken.rows:
        said = taken.columns()
        said |= _derived(said)
        messages = _table(records.take(pa.array(taken.rows)), said, MESSAGES)
    rejected = records.take(pa.array(refused.rows, pa.int64()))
    return Read(messages, _table(rejected, refused.columns(), REJECTS))


@cache
def _keep_memory() -> None:
    """Let the process keep the memory of one batch for the next.

    The C library of Linux gives back at once what is more than twice the largest piece that was ever freed; to get it
    again, page by page, would be much of the work.
    """
    np.empty(_LARGE, np.uint8)


def read_headers(frames: Frames) -> Headers:
    """Return where everything is in the messages that are plain, as far as their bytes need not be looked at."""
    shape = shapes(frames)
    headers = Headers(shape, frames.start(frames.first))
    sizes = frames.bytes_of(frames.first, frames.behind)
    headers.plain &= sizes <= DEFAULT_LIMITS.usual_size
    lists_by_layout: list[tuple[Longs, dict[str, Listed]]] = []
    for alike, layout in LAYOUTS.items():
        rows = np.flatnonzero(headers.plain & is_one_of(shape, alike))
        is_meta = Shape.V6 in alike
        lists = read_meta(frames, rows, headers) if is_meta else Multipart(frames, rows, layout).read(headers)
        lists_by_layout.append((rows, lists))
    for name, fields in LISTS.items():
        parts = [(rows, lists[name]) for rows, lists in lists_by_layout]
        headers.lists[name] = _merged(fields, len(frames), parts)
    return headers


def _merged(fields: Iterable[str], count: int, parts: Sequence[tuple[Longs, Listed]]) -> Listed:
    """Return the lists of all messages, made of those of some rows each."""
    counts = np.zeros(count, np.int64)
    for rows, part in parts:
        counts[rows] = part.counts
    merged = Listed(fields, counts)
    for rows, part in parts:
        merged.put(rows, part)
    return merged


def _with_measures(records: pa.RecordBatch, frames: Frames, fingerprint: Longs) -> pa.Table:
    """Return the records' own columns, and what is known of any frames, whatever they say."""
    columns = {name: records.column(name) for name in RECORD_COLUMNS}
    columns["date"] = _days(records.column("ts"))
    columns["frame_count"] = pa.array(frames.counts, pa.int32())
    columns["bytes"] = pa.array(frames.bytes_of(frames.first, frames.behind))
    columns["fingerprint"] = pa.array(fingerprint)
    columns["segment"] = pa.nulls(len(records), pa.string())  # whoever knows the file says so
    return pa.table(columns)


def _days(ts: pa.TimestampArray) -> pa.Date32Array:
    """Return the days of times, UTC."""
    us = ts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    days = np.floor_divide(us, _DAY_US).astype(np.int32)
    return pc.if_else(ts.is_valid(), pa.array(days).cast(pa.date32()), None)


def _verdicts(
    frames: pa.ListArray, rows: Longs, is_outside: Flags, signatures: pa.BinaryArray, keyring: Keyring
) -> pa.StringArray:
    """Return the verdicts on messages in some rows: only on what came from outside, by the keys where it is signed."""
    is_signed = pc.greater(pc.binary_length(signatures), 0).to_numpy(zero_copy_only=False)
    is_unsigned = pa.array(is_outside & ~is_signed)
    verdicts = pc.if_else(is_unsigned, "unsigned", pa.scalar(None, pa.string()))
    if not keyring:
        return verdicts
    is_judged = is_outside & is_signed
    signed = frames.take(pa.array(rows[is_judged]))
    judged = [keyring.verdict(decode(one)) for one in signed.to_pylist()]
    return pc.replace_with_mask(verdicts, pa.array(is_judged), pa.array(judged, pa.string()))


def _derived(said: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the columns that follow from the others."""
    # Most texts are there more than once, and looked at once only.
    flows = said["correlation_id"].dictionary_encode()
    kinds = said["identity"].dictionary_encode()
    is_no_flow = pc.is_in(flows.dictionary, _NO_FLOWS).take(flows.indices)
    is_service = reduce(pc.or_, [pc.starts_with(kinds.dictionary, prefix) for prefix in _SERVICE_PREFIXES])
    encoded = {"correlation_id": flows, "identity": kinds}
    return {
        "flow_id": pc.if_else(is_no_flow, None, said["correlation_id"]),
        "service": is_service.take(kinds.indices),
        "message_id": pa.array(message_ids({**said, **encoded})),
    }


def _table(records: pa.Table, said: Mapping[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """Return the rows of a table: what the frames say, and of the record whatever they do not."""
    columns = []
    for name in schema.names:
        column = said[name] if name in said else records.column(name)
        columns.append(column)
    return pa.table(columns, schema=schema)
