"""The closed segments of captures: where they are, whether they are captures, and their rows in Arrow batches."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from hopline.capture.naming import SEGMENT
from hopline.capture.reading import CaptureError, first_line, foreign_column, in_schema

_HIDDEN = (".", "_")  # segments that are still written, and what other tools leave beside theirs
# What was damaged since it was written must not be taken for what was said; a node's own segments have checksums.
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_REMEDY = "expected a segment, a folder of segments or a pattern"


def find_segments(place: str) -> list[str]:
    """Return the closed segments at a place, sorted.

    Args:
        place: A file, a folder (with folders in it), a pattern, or the URI of a file or folder. A file that is named
            itself is taken whatever its name.

    Raises:
        CaptureError: There is nothing at the place.
    """
    if "://" in place:
        return _at_uri(place.rstrip("/"))
    local = fs.LocalFileSystem()
    found: set[str] = set()
    for match in _matches(place):
        found.update(_below(local, str(match.resolve()), place))
    return sorted(found)


def _at_uri(uri: str) -> list[str]:
    system, path = _system_of(uri)
    server, _, options = uri.partition(path)
    return sorted(f"{server}{found}{options}" for found in _below(system, path, uri))


def _matches(place: str) -> list[Path]:
    """Return the files and folders that a path or a pattern names, without those that are hidden from a pattern."""
    if Path(place).exists():
        return [Path(place)]
    matches = [Path(match) for match in glob.glob(place, recursive=True)]  # noqa: PTH207 - may be absolute
    if not matches:
        raise CaptureError(place, f"nothing there; {_REMEDY}")
    return [match for match in matches if _is_closed(match.name) or _is_open_folder(match)]


def _is_open_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(_HIDDEN)


def _below(system: fs.FileSystem, path: str, place: str) -> Iterator[str]:
    """Yield the closed segments in a folder, or the file that a path names."""
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise CaptureError(place, f"nothing there; {_REMEDY}")
    if info.type != fs.FileType.Directory:
        yield path
        return
    selector = fs.FileSelector(path, recursive=True)
    for entry in system.get_file_info(selector):
        if entry.type != fs.FileType.File:
            continue
        inside = entry.path.removeprefix(path).strip("/")
        *folders, name = inside.split("/")
        is_hidden = any(folder.startswith(_HIDDEN) for folder in folders)
        if _is_closed(name) and not is_hidden:
            yield entry.path


def _is_closed(name: str) -> bool:
    return name.endswith(SEGMENT) and not name.startswith(_HIDDEN)


def open_segment(path: str) -> ds.ParquetFileFragment:
    """Return a segment, of which nothing is read yet but its schema. Raise `CaptureError` if it is none."""
    try:
        system, inside = _system_of(path)
        fragment = _FORMAT.make_fragment(inside, system)
        schema = fragment.physical_schema
    except FileNotFoundError as gone:
        raise CaptureError(path, "is gone: it was there when the segments were listed") from gone
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(path, f"is no whole Parquet file (truncated?): {first_line(problem)}") from problem
    foreign = foreign_column(schema)
    if foreign is not None:
        raise CaptureError(path, f"is no capture: {foreign}")
    return fragment


def read_rows(
    segment: ds.ParquetFileFragment, row_group: int, wanted: pa.Schema, condition: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group that meet the condition, in the wanted schema: what the segment has not is null."""
    there = set(segment.physical_schema.names)
    columns = [name for name in wanted.names if name in there]
    if not columns:
        columns = ["ts"]  # without any column there would be no rows either
    rows = segment.subset(row_group_ids=[row_group])
    try:
        for batch in rows.to_batches(columns=columns, filter=condition, use_threads=False):
            if batch.num_rows:
                yield in_schema(batch, wanted)
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(segment.path, f"is damaged inside: {first_line(problem)}") from problem


def _system_of(path: str) -> tuple[fs.FileSystem, str]:
    if "://" not in path:
        return fs.LocalFileSystem(), path
    try:
        return fs.FileSystem.from_uri(path)  # type: ignore[no-any-return]
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(path, f"cannot be opened: {first_line(problem)}") from problem
