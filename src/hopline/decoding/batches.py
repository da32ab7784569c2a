"""Batches of records in, messages and rejects out: many at once where they are plain, the others one by one.

A decoder that is called for each record is slow. But nearly all records are **plain**: messages as Hopline and the
reference write them, of usual sizes, in one of five layouts. For these, everything is computed for the whole batch at
once, with numpy and Arrow:

1. `Frames` is the memory of all frames. `Repeats` finds the records with the same frames, which are decoded once.
2. `shapes` finds the layout of each record by its last frames, where there is no doubt about it.
3. `Multipart` and `read_meta` find where the fields of the messages of a layout are, and refuse what is not plain.
   `Headers` has the result for all layouts: places and sizes of names, numbers, lists, and the body frames.
4. `PlainColumns` cuts the columns of the table out of the memory, and refuses texts that are not valid.
5. `fingerprints` and `message_ids` compute the digests; the keys, if there are any, verify the signatures.

Whatever was refused goes to the **careful reader** (`read_carefully`): `hopline.wire` decodes it record by record, into
messages or into rejects with the reason. So the fast path may refuse anything, but must never give another result than
the careful reader; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from hopline.decoding.repeats import Columns, Repeats
from hopline.decoding.schemas import MESSAGES, RECORD_COLUMNS, REJECTS
from hopline.decoding.shapes import LAYOUTS, is_one_of, shapes
from hopline.message import NO_FLOW
from hopline.wire import DEFAULT_LIMITS, decode
from hopline.wire.layout import Layout
from hopline.wire.layouts import V6

_NO_FLOWS = pa.array(["", "\0" * 16, NO_FLOW.decode()])
_RESERVED = ("KINO.", "HOPLINE.")
_RESERVED_IN_HEX = tuple(f"0x{prefix.encode().hex().upper()}" for prefix in _RESERVED)
_SERVICE_PREFIXES = (*_RESERVED, *_RESERVED_IN_HEX)  # an identity that is not UTF-8 is shown in hex
_DAY_US = 86_400_000_000
_LARGE = 31 << 20  # bytes; malloc ignores blocks beyond 32 MiB here


class Decoded(NamedTuple):
    """The messages and the rejects among some records, in the schemas of these tables."""

    messages: pa.Table
    rejects: pa.Table


def read_batch(records: pa.RecordBatch, keyring: Keyring, *, with_bodies: bool = False) -> Decoded:
    """Decode records.

    Args:
        records: The records; their columns are named as in the tables.
        keyring: The keys that verify the signatures of messages from other nodes.
        with_bodies: Keep the body frames.

    Returns:
        All of the records, as messages or as rejects. Their order is not kept.
    """
    if not len(records):
        return Decoded(MESSAGES.empty_table(), REJECTS.empty_table())
    _keep_memory()
    all_frames = records.column("frames")
    is_outside = _are_from_outside(records)
    frames = Frames.of_records(all_frames.cast(FRAMES))
    repeats = Repeats.of(frames)
    distinct = frames.of(repeats.distinct)
    is_distinct_plain, distinct_columns = _read_plain(distinct, with_bodies=with_bodies)
    columns = repeats.spread(distinct_columns, is_distinct_plain)
    is_plain = is_distinct_plain[repeats.which]
    plain_rows = np.flatnonzero(is_plain)
    is_plain_outside = is_outside[plain_rows]
    columns["verdict"] = _verdicts(
        all_frames,
        rows=plain_rows,
        is_outside=is_plain_outside,
        signatures=columns["signature"],
        keyring=keyring,
    )
    digests = fingerprints(repeats)
    measured = _with_measures(records, frames, digests)
    plain_records = measured.filter(pa.array(is_plain))
    messages = _table(plain_records, columns, MESSAGES)
    if is_plain.all():
        return Decoded(messages, REJECTS.empty_table())
    with_frames = measured.append_column("frames", all_frames)
    unusual_records = with_frames.filter(pa.array(~is_plain))
    unusual = _read_unusual(
        unusual_records,
        is_outside=is_outside[~is_plain],
        keyring=keyring,
        with_bodies=with_bodies,
    )
    all_messages = pa.concat_tables([messages, unusual.messages])
    return Decoded(all_messages, unusual.rejects)


def _are_from_outside(records: pa.RecordBatch) -> Flags:
    """Return which records came from another node. A record without an event counts as one."""
    is_received = pc.equal(records.column("event"), Event.RECEIVED.value)
    is_outside: Flags = pc.fill_null(is_received, True).to_numpy(zero_copy_only=False)
    return is_outside


def _read_plain(frames: Frames, *, with_bodies: bool) -> tuple[Flags, Columns]:
    """Return which records are plain, and the columns of these."""
    headers = read_headers(frames)
    plain = PlainColumns(frames, headers.of(headers.plain), with_bodies=with_bodies)
    is_unusual = plain.unusual()
    if is_unusual.any():
        plain_rows = np.flatnonzero(headers.plain)
        headers.refuse(plain_rows, is_unusual)
        plain = PlainColumns(frames, headers.of(headers.plain), with_bodies=with_bodies)
    columns = plain.columns()
    return headers.plain, columns | _derived(columns)


def _read_unusual(
    records: pa.Table,
    is_outside: Flags,
    keyring: Keyring,
    *,
    with_bodies: bool,
) -> Decoded:
    """Decode records with the careful reader."""
    decoded, rejected = read_carefully(
        records.column("frames"),
        is_outside=is_outside,
        keyring=keyring,
        with_bodies=with_bodies,
    )
    messages = MESSAGES.empty_table()
    if decoded.rows:
        columns = decoded.columns()
        columns |= _derived(columns)
        decoded_records = records.take(pa.array(decoded.rows))
        messages = _table(decoded_records, columns, MESSAGES)
    rejected_rows = pa.array(rejected.rows, pa.int64())
    rejected_records = records.take(rejected_rows)
    rejects = _table(rejected_records, rejected.columns(), REJECTS)
    return Decoded(messages, rejects)


@cache
def _keep_memory() -> None:
    """Make the process keep the memory of one batch for the next.

    glibc returns memory to the system at once beyond twice the largest block that was ever freed, and getting it back
    page by page would take much of the time. Freeing one large block raises that limit.
    """
    np.empty(_LARGE, np.uint8)


def read_headers(frames: Frames) -> Headers:
    """Return where the fields of plain messages are, without checking texts."""
    shape = shapes(frames)
    first_places = frames.start(frames.first)
    headers = Headers(shape, first_places)
    sizes = frames.bytes_of(frames.first, frames.behind)
    headers.plain &= sizes <= DEFAULT_LIMITS.usual_size
    lists_by_layout: list[tuple[Longs, dict[str, Listed]]] = []
    for alike, layout in LAYOUTS.items():
        has_layout = headers.plain & is_one_of(shape, alike)
        rows = np.flatnonzero(has_layout)
        lists = _read_layout(layout, frames, rows, headers)
        lists_by_layout.append((rows, lists))
    for name, fields in LISTS.items():
        parts = [(rows, lists[name]) for rows, lists in lists_by_layout]
        headers.lists[name] = _merged(fields, len(frames), parts)
    return headers


def _read_layout(
    layout: Layout,
    frames: Frames,
    rows: Longs,
    headers: Headers,
) -> dict[str, Listed]:
    if layout is V6:
        return read_meta(frames, rows, headers)
    return Multipart(frames, rows, layout).read(headers)


def _merged(fields: Iterable[str], count: int, parts: Sequence[tuple[Longs, Listed]]) -> Listed:
    """Return the lists of all messages, given those of some rows each."""
    counts = np.zeros(count, np.int64)
    for rows, part in parts:
        counts[rows] = part.counts
    merged = Listed(fields, counts)
    for rows, part in parts:
        merged.put(rows, part)
    return merged


def _with_measures(records: pa.RecordBatch, frames: Frames, fingerprint: Longs) -> pa.Table:
    """Return the records' own columns, and those that do not depend on what the frames contain."""
    columns = {name: records.column(name) for name in RECORD_COLUMNS}
    columns["date"] = _days(records.column("ts"))
    columns["frame_count"] = pa.array(frames.counts, pa.int32())
    sizes = frames.bytes_of(frames.first, frames.behind)
    columns["bytes"] = pa.array(sizes)
    columns["fingerprint"] = pa.array(fingerprint)
    columns["segment"] = pa.nulls(len(records), pa.string())  # filled in by the caller, which knows the file
    return pa.table(columns)


def _days(ts: pa.TimestampArray) -> pa.Date32Array:
    """Return the days of times, UTC."""
    numbers = ts.cast(pa.int64())
    microseconds = numbers.to_numpy(zero_copy_only=False)
    days = microseconds // _DAY_US
    day_numbers = pa.array(days.astype(np.int32))
    dates = day_numbers.cast(pa.date32())
    return pc.if_else(ts.is_valid(), dates, None)


def _verdicts(
    frames: pa.ListArray,
    rows: Longs,
    is_outside: Flags,
    signatures: pa.BinaryArray,
    keyring: Keyring,
) -> pa.StringArray:
    """Return the verdicts on the messages in some rows that came from other nodes, null for all others."""
    sizes = pc.binary_length(signatures)
    is_signed = pc.greater(sizes, 0).to_numpy(zero_copy_only=False)
    is_unsigned = pa.array(is_outside & ~is_signed)
    no_verdict = pa.scalar(None, pa.string())
    verdicts = pc.if_else(is_unsigned, "unsigned", no_verdict)
    if not keyring:
        return verdicts
    is_verified = is_outside & is_signed
    signed_rows = pa.array(rows[is_verified])
    signed = frames.take(signed_rows).to_pylist()
    results = [keyring.verdict(decode(message_frames)) for message_frames in signed]
    replacements = pa.array(results, pa.string())
    return pc.replace_with_mask(verdicts, pa.array(is_verified), replacements)


def _derived(columns: Columns) -> Columns:
    """Return the columns that are computed from others."""
    # Most texts occur many times; dictionaries have each of them once.
    flows = columns["correlation_id"].dictionary_encode()
    identities = columns["identity"].dictionary_encode()
    is_no_flow = pc.is_in(flows.dictionary, _NO_FLOWS)
    has_prefix = [pc.starts_with(identities.dictionary, prefix) for prefix in _SERVICE_PREFIXES]
    is_service = reduce(pc.or_, has_prefix)
    has_no_flow = is_no_flow.take(flows.indices)
    encoded = {
        **columns,
        "correlation_id": flows,
        "identity": identities,
    }
    return {
        "flow_id": pc.if_else(has_no_flow, None, columns["correlation_id"]),
        "service": is_service.take(identities.indices),
        "message_id": pa.array(message_ids(encoded)),
    }


def _table(records: pa.Table, columns: Columns, schema: pa.Schema) -> pa.Table:
    """Return the rows of a table: decoded columns where there are any, the records' own otherwise."""
    arrays = []
    for name in schema.names:
        array = columns[name] if name in columns else records.column(name)
        arrays.append(array)
    return pa.table(arrays, schema=schema)
