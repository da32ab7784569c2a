"""Batches of records in, messages and rejects out: many at once where they are plain, the others one by one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.events import Event
from hopline.message import NO_FLOW
from hopline.pipeline.decoding.arrow import MESSAGES, RECORD_COLUMNS, REJECTS
from hopline.pipeline.decoding.careful import read_carefully
from hopline.pipeline.decoding.columns import PlainColumns
from hopline.pipeline.decoding.digests import fingerprints, message_ids
from hopline.pipeline.decoding.frames import FRAMES, Flags, Frames, Longs
from hopline.pipeline.decoding.header import LISTS, Headers, Listed
from hopline.pipeline.decoding.meta import read_meta
from hopline.pipeline.decoding.multipart import Multipart
from hopline.pipeline.decoding.repeats import Repeats
from hopline.pipeline.decoding.shapes import LAYOUTS, Shape, is_one_of, shapes
from hopline.pipeline.keys import Keyring
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
    """Read records, whose columns are named as in the tables. They come out in another order."""
    if not len(records):
        return Read(MESSAGES.empty_table(), REJECTS.empty_table())
    _keep_memory()
    event = records.column("event")
    is_outside: Flags = pc.fill_null(pc.equal(event, Event.RECEIVED.value), True).to_numpy(zero_copy_only=False)
    frames = Frames.of_records(records.column("frames").cast(FRAMES))
    repeats = Repeats(frames)
    is_plain, said = _read_plain(frames.of(repeats.distinct), with_bodies=with_bodies)
    said = repeats.spread(said, is_plain)
    is_plain = is_plain[repeats.which]
    rows = np.flatnonzero(is_plain)
    said["verdict"] = _verdicts(records.column("frames"), rows, is_outside[rows], said["signature"], keyring)
    measured = _with_measures(records, frames, fingerprints(repeats))
    plain = pa.array(is_plain)
    messages = _table(measured.filter(plain), said, MESSAGES)
    if is_plain.all():
        return Read(messages, REJECTS.empty_table())
    others = measured.append_column("frames", records.column("frames")).filter(pc.invert(plain))
    taken, refused = read_carefully(others.column("frames"), is_outside[~is_plain], keyring, with_bodies=with_bodies)
    if taken.rows:
        said = taken.columns()
        more = _table(others.take(pa.array(taken.rows)), said | _derived(said), MESSAGES)
        messages = pa.concat_tables([messages, more])
    return Read(messages, _table(others.take(pa.array(refused.rows, pa.int64())), refused.columns(), REJECTS))


def _read_plain(frames: Frames, *, with_bodies: bool) -> tuple[Flags, dict[str, pa.Array]]:
    """Return which records are plain, and what these say."""
    headers = read_headers(frames)
    columns = PlainColumns(frames, headers.of(headers.plain), with_bodies=with_bodies)
    if (odd := columns.odd()).any():
        headers.plain[np.flatnonzero(headers.plain)[odd]] = False
        columns = PlainColumns(frames, headers.of(headers.plain), with_bodies=with_bodies)
    said = columns.said()
    return headers.plain, said | _derived(said)


@cache
def _keep_memory() -> None:
    """Let the process keep the memory of one batch for the next.

    The C library of Linux gives back at once what is more than twice the largest piece that was ever freed; to get it
    again, page by page, would be much of the work.
    """
    np.empty(_LARGE, np.uint8)


def read_headers(frames: Frames) -> Headers:
    """Find out where everything is in the messages that are plain, as far as their bytes need not be looked at."""
    shape = shapes(frames)
    headers = Headers(shape, frames.start(frames.first))
    headers.plain &= frames.bytes_of(frames.first, frames.behind) <= DEFAULT_LIMITS.usual_size
    parts = []
    for alike, layout in LAYOUTS.items():
        rows = np.flatnonzero(headers.plain & is_one_of(shape, alike))
        if Shape.V6 in alike:
            parts.append((rows, read_meta(frames, rows, headers)))
        else:
            parts.append((rows, Multipart(frames, rows, layout).read(headers)))
    for name, fields in LISTS.items():
        counts = np.zeros(len(frames), np.int64)
        for rows, lists in parts:
            counts[rows] = lists[name].counts
        headers.lists[name] = Listed(fields, counts)
        for rows, lists in parts:
            headers.lists[name].put(rows, lists[name])
    return headers


def _with_measures(records: pa.RecordBatch, frames: Frames, fingerprint: Longs) -> pa.Table:
    """Add what is known of any frames, whatever they say."""
    days = np.floor_divide(records.column("ts").cast(pa.int64()).to_numpy(zero_copy_only=False), _DAY_US)
    measures = {
        "date": pc.if_else(records.column("ts").is_valid(), pa.array(days.astype(np.int32)).cast(pa.date32()), None),
        "frame_count": pa.array(frames.counts, pa.int32()),
        "bytes": pa.array(frames.bytes_of(frames.first, frames.behind)),
        "fingerprint": pa.array(fingerprint),
        "segment": pa.nulls(len(records), pa.string()),  # whoever knows the file says so
    }
    return pa.table({name: records.column(name) for name in RECORD_COLUMNS} | measures)


def _verdicts(
    frames: pa.ListArray, rows: Longs, is_outside: Flags, signatures: pa.BinaryArray, keyring: Keyring
) -> pa.StringArray:
    """Judge the messages in some rows: only what came from outside, and by the keys where it is signed."""
    is_signed = pc.greater(pc.binary_length(signatures), 0).to_numpy(zero_copy_only=False)
    verdicts = pc.if_else(pa.array(is_outside & ~is_signed), "unsigned", pa.scalar(None, pa.string()))
    if keyring:
        judged = is_outside & is_signed
        found = [keyring.verdict(decode(one)) for one in frames.take(pa.array(rows[judged])).to_pylist()]
        verdicts = pc.replace_with_mask(verdicts, pa.array(judged), pa.array(found, pa.string()))
    return verdicts


def _derived(said: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the columns that follow from the others."""
    # Most texts are there more than once, and looked at once only.
    known = {name: said[name].dictionary_encode() for name in ("correlation_id", "identity")}
    flows, kinds = known["correlation_id"], known["identity"]
    is_flow = pc.invert(pc.is_in(flows.dictionary, _NO_FLOWS)).take(flows.indices)
    is_service = reduce(pc.or_, [pc.starts_with(kinds.dictionary, prefix) for prefix in _SERVICE_PREFIXES])
    return {
        "flow_id": pc.if_else(is_flow, said["correlation_id"], None),
        "service": is_service.take(kinds.indices),
        "message_id": pa.array(message_ids({**said, **known})),
    }


def _table(records: pa.Table, said: Mapping[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """Put together what stands in a record and what its frames say."""
    columns = [said[name] if name in said else records.column(name) for name in schema.names]
    return pa.table(columns, schema=schema)
