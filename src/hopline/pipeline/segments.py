"""The closed segments of captures: where they are, whether they are captures, and their rows in Arrow batches."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from hopline.capture.naming import SEGMENT
from hopline.capture.records import SCHEMA
from hopline.pipeline.errors import CaptureError

NEEDED = ("ts", "frames")  # what another tool took off the wire may have no more
_HIDDEN = (".", "_")  # segments that are still written, and what other tools leave beside theirs
# What was damaged since it was written must not be taken for what was said; a node's own segments have checksums.
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_REMEDY = "expected a segment, a folder of segments or a pattern"


def find_segments(place: str) -> list[str]:
    """List the closed segments at a place, sorted: a file, a folder (with folders in it), a pattern, or a URI of these.

    A file that is named itself is taken whatever its name. A place that is not there raises `CaptureError`.
    """
    if "://" in place:
        system, path = _system_of(place.rstrip("/"))
        before, _, behind = place.rstrip("/").partition(path)  # the server, and options
        return sorted(f"{before}{found}{behind}" for found in _below(system, path, place))
    if Path(place).exists():
        matches = [Path(place)]
    elif matches := [Path(match) for match in glob.glob(place, recursive=True)]:  # noqa: PTH207 - may be absolute
        matches = [
            match
            for match in matches
            if _is_closed(match.name) or (match.is_dir() and not match.name.startswith(_HIDDEN))
        ]
    else:
        raise CaptureError(place, f"nothing there; {_REMEDY}")
    local = fs.LocalFileSystem()
    return sorted({found for match in matches for found in _below(local, str(match.resolve()), place)})


def _below(system: fs.FileSystem, path: str, place: str) -> Iterator[str]:
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise CaptureError(place, f"nothing there; {_REMEDY}")
    if info.type != fs.FileType.Directory:
        yield path
        return
    for one in system.get_file_info(fs.FileSelector(path, recursive=True)):
        *folders, name = one.path[len(path) :].strip("/").split("/")
        if one.type == fs.FileType.File and _is_closed(name) and not any(part.startswith(_HIDDEN) for part in folders):
            yield one.path


def _is_closed(name: str) -> bool:
    return name.endswith(SEGMENT) and not name.startswith(_HIDDEN)


def open_segment(path: str) -> ds.ParquetFileFragment:
    """Open a segment and check that it is one; its row groups are read later."""
    try:
        system, inside = _system_of(path)
        fragment = _FORMAT.make_fragment(inside, system)
        schema = fragment.physical_schema
    except FileNotFoundError as gone:
        raise CaptureError(path, "is gone: it was there when the segments were listed") from gone
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(path, f"is no whole Parquet file (truncated?): {first_line(problem)}") from problem
    if (foreign := foreign_column(schema)) is not None:
        raise CaptureError(path, f"is no capture: {foreign}")
    return fragment


def foreign_column(schema: pa.Schema) -> str | None:
    """Return how a file's columns differ from a capture's, or None; unknown columns are ignored."""
    for name, (expected, fits) in _COLUMNS.items():
        at = schema.get_field_index(name)
        if at < 0:
            if name in NEEDED:
                return f"it has no column {name}, but {', '.join(schema.names[:6]) or 'none'}"
        elif not fits(schema.field(at).type):
            return f"its column {name} is {schema.field(at).type}, expected {expected}"
    return None


def read_rows(
    segment: ds.ParquetFileFragment, row_group: int, wanted: pa.Schema, condition: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a row group that meet the condition, in the wanted schema: what the segment has not is null."""
    there = set(segment.physical_schema.names)
    columns = [name for name in wanted.names if name in there] or ["ts"]  # none would be no rows either
    try:
        for batch in segment.subset(row_group_ids=[row_group]).to_batches(
            columns=columns, filter=condition, use_threads=False
        ):
            if batch.num_rows:
                yield in_schema(batch, wanted)
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(segment.path, f"is damaged inside: {first_line(problem)}") from problem


def in_schema(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the wanted schema: what it has not is null, what it has beyond that is left out."""
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in wanted], schema=wanted)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(at)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")  # a tool that knows no zones; ours are all UTC
    return column.cast(field.type)


def _system_of(path: str) -> tuple[fs.FileSystem, str]:
    if "://" not in path:
        return fs.LocalFileSystem(), path
    try:
        return fs.FileSystem.from_uri(path)  # type: ignore[no-any-return]
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(path, f"cannot be opened: {first_line(problem)}") from problem


def first_line(problem: Exception) -> str:
    """Return what an error says, without what it says beyond that."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]


def _is_time(found: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(found)) and found.unit in ("us", "ms")


def _is_text(found: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        return _is_text(found.value_type)
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _is_number(found: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(found))


def _is_frames(found: pa.DataType) -> bool:
    is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
    return is_list and bool(pa.types.is_binary(found.value_type) or pa.types.is_large_binary(found.value_type))


def _like(kind: pa.DataType) -> tuple[str, Callable[[pa.DataType], bool]]:
    if pa.types.is_timestamp(kind):
        return "a timestamp in µs or ms", _is_time
    if pa.types.is_list(kind):
        return "a list of binary", _is_frames
    if pa.types.is_string(kind):
        return "text", _is_text
    if pa.types.is_int32(kind):
        return "a whole number of 32 bits", lambda found: _is_number(found) and found.bit_width <= kind.bit_width
    return "a whole number", _is_number


# For each column of a capture, what other tools may write in its place.
_COLUMNS = {field.name: _like(field.type) for field in SCHEMA}
