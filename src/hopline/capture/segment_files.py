"""Finding segments and checking that they are captures: the one module that every reader uses.

Readers differ in how they read (Spark hands bytes to the decoder, the data source scans row groups, the command line
iterates over rows) but not in what they accept:

* **Location.** A segment, a directory of segments at any depth, a glob pattern, or the URI of a file or directory. A
  file that is named itself is accepted whatever its name. In directories only ``*.parquet`` counts, and nothing hidden:
  names that begin with ``.`` or ``_`` are segments that are still being written, or other tools' files.
  A capture directory, which nodes write to, has its segments and journals in directories of days (`segments_in`,
  `journals_in`), and their names order them by age.
* **Columns.** Other tools may write segments too, with fewer columns or in other types than a node does. Only ``ts``
  and ``frames`` are required, unknown columns are ignored, and `conform` brings the rest to a capture's schema.
* **Damage.** A node's segments have page checksums, which readers verify. Whatever goes wrong becomes a `CaptureError`
  that names the file: `open_errors` around opening one, `read_errors` around reading its rows.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from hopline.capture.naming import DAY, JOURNAL, SEGMENT, SegmentName, read_name
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.message import HoplineError

REQUIRED_COLUMNS = ("ts", "frames")
_HIDDEN_PREFIXES = (".", "_")
_SHOWN_COLUMNS = 6
_NOTHING_THERE = "nothing there; expected a segment, a folder of segments or a pattern"


class CaptureError(HoplineError):
    """A capture cannot be read.

    Attributes:
        path: The file or location.
        problem: What is wrong with it.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


# -- finding -----------------------------------------------------------------------------------------------------------


def is_segment_name(name: str) -> bool:
    """Return whether a file name is that of a closed segment."""
    return name.lower().endswith(SEGMENT) and not name.startswith(_HIDDEN_PREFIXES)


def find_segments(location: str) -> list[str]:
    """Return the closed segments at a location, sorted by path.

    Args:
        location: A file, a directory, a glob pattern, or the URI of a file or directory.

    Raises:
        CaptureError: There is nothing at the location.
    """
    if "://" in location:
        return _segments_at_uri(location.rstrip("/"))
    local = fs.LocalFileSystem()
    paths: set[str] = set()
    for match in _local_matches(location):
        paths.update(_segments_below(local, str(match.resolve()), location))
    return sorted(paths)


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it."""
    if "://" not in path:
        return fs.LocalFileSystem(), path
    try:
        system, inner_path = fs.FileSystem.from_uri(path)
    except (OSError, pa.ArrowException) as error:
        raise CaptureError(path, f"cannot be opened: {first_line(error)}") from error
    return system, inner_path


def _segments_at_uri(uri: str) -> list[str]:
    system, path = filesystem_of(uri)
    prefix, _, suffix = uri.partition(path)
    paths = _segments_below(system, path, uri)
    return sorted(f"{prefix}{segment}{suffix}" for segment in paths)


def _local_matches(location: str) -> list[Path]:
    """Return the files and directories that a path or pattern names; a pattern does not match hidden ones."""
    if Path(location).exists():
        return [Path(location)]
    matches = [Path(match) for match in glob.glob(location, recursive=True)]  # noqa: PTH207 - may be absolute
    if not matches:
        raise CaptureError(location, _NOTHING_THERE)
    return [match for match in matches if is_segment_name(match.name) or _is_visible_directory(match)]


def _is_visible_directory(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(_HIDDEN_PREFIXES)


def _segments_below(system: fs.FileSystem, path: str, location: str) -> Iterator[str]:
    """Yield the closed segments in a directory, or the file that a path names."""
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise CaptureError(location, _NOTHING_THERE)
    if info.type != fs.FileType.Directory:
        yield path
        return
    selector = fs.FileSelector(path, recursive=True)
    for entry in system.get_file_info(selector):
        relative_path = entry.path.removeprefix(path).strip("/")
        if entry.type == fs.FileType.File and _is_visible_segment(relative_path):
            yield entry.path


def _is_visible_segment(relative_path: str) -> bool:
    *directories, name = relative_path.split("/")
    is_hidden = any(directory.startswith(_HIDDEN_PREFIXES) for directory in directories)
    return is_segment_name(name) and not is_hidden


# -- finding the files of a capture directory --------------------------------------------------------------------------


def segments_at(path: Path) -> list[Path]:
    """Return the segments that a local path denotes: the file itself, or those below a directory.

    In a directory without segments as nodes name them, every visible Parquet file below it is one.
    """
    if path.is_file():
        return [path]
    segments = segments_in(path)
    if segments:
        return segments
    files = [file for file in path.rglob("*") if file.is_file()]
    visible = [file for file in files if _is_visible_segment(file.relative_to(path).as_posix())]
    return sorted(visible)


def segments_in(directory: Path) -> list[Path]:
    """Return the closed segments that nodes wrote to a directory, the oldest first."""
    return _named_files(directory, f"*{SEGMENT}")


def journals_in(directory: Path) -> list[Path]:
    """Return the journals in a directory, the oldest first: of running nodes, and of nodes that crashed."""
    return _named_files(directory, f".*{JOURNAL}")


def _named_files(directory: Path, pattern: str) -> list[Path]:
    """Return the files in the day directories whose names nodes gave them, the oldest first."""
    paths: dict[Path, SegmentName] = {}
    for path in directory.glob(f"{DAY}*/{pattern}"):
        name = read_name(path)
        if name is not None:
            paths[path] = name

    def age(path: Path) -> tuple[datetime, int, Path]:
        name = paths[path]
        return name.start, name.seq, path

    return sorted(paths, key=age)


# -- checking ----------------------------------------------------------------------------------------------------------


@contextmanager
def open_errors(path: str) -> Iterator[None]:
    """Raise a `CaptureError` for whatever goes wrong while a file is opened and its schema is read."""
    try:
        yield
    except FileNotFoundError as error:
        raise CaptureError(path, "is gone: it was there when the segments were listed") from error
    except (OSError, pa.ArrowException) as error:
        raise CaptureError(path, f"is no whole Parquet file (truncated?): {first_line(error)}") from error


@contextmanager
def read_errors(path: str) -> Iterator[None]:
    """Raise a `CaptureError` for whatever goes wrong while rows are read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise CaptureError(path, f"is damaged inside: {first_line(error)}") from error


def check_columns(path: str, schema: pa.Schema, required: Sequence[str] = REQUIRED_COLUMNS) -> None:
    """Raise a `CaptureError` if a file's columns are not those of a capture."""
    problem = column_problem(schema, required)
    if problem is not None:
        raise CaptureError(path, f"is no capture: {problem}")


def column_problem(schema: pa.Schema, required: Sequence[str] = REQUIRED_COLUMNS) -> str | None:
    """Return how a file's columns differ from those of a capture, or None if they are fine."""
    for name, (expected, is_accepted) in _ACCEPTED_TYPES.items():
        index = schema.get_field_index(name)
        if index >= 0:
            actual = schema.field(index).type
            if not is_accepted(actual):
                return f"its column {name} is {actual}, expected {expected}"
        elif name in required:
            others = ", ".join(schema.names[:_SHOWN_COLUMNS])
            return f"it has no column {name}, but {others or 'none'}"
    return None


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in a schema: columns that it lacks are null, columns that the schema lacks are left out."""
    columns = [_conforming_column(batch, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conforming_column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(index)
    has_no_zone = pa.types.is_timestamp(column.type) and column.type.tz is None
    if has_no_zone:
        column = pc.assume_timezone(column, "UTC")  # all times of a capture are UTC
    return column.cast(field.type)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its type if it has none."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


# -- accepted types ----------------------------------------------------------------------------------------------------


def _is_time(actual: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(actual)) and actual.unit in ("us", "ms")


def _is_text(actual: pa.DataType) -> bool:
    if pa.types.is_dictionary(actual):
        return _is_text(actual.value_type)
    return bool(pa.types.is_string(actual) or pa.types.is_large_string(actual))


def _is_integer(actual: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(actual))


def _is_int32(actual: pa.DataType) -> bool:
    return _is_integer(actual) and actual.bit_width <= pa.int32().bit_width


def _is_frames(actual: pa.DataType) -> bool:
    if not (pa.types.is_list(actual) or pa.types.is_large_list(actual)):
        return False
    frame = actual.value_type
    return bool(pa.types.is_binary(frame) or pa.types.is_large_binary(frame))


def _accepted_for(data_type: pa.DataType) -> tuple[str, Callable[[pa.DataType], bool]]:
    """Return what a file may have for a column's type, in words and as a predicate."""
    if pa.types.is_timestamp(data_type):
        return "a timestamp in µs or ms", _is_time
    if pa.types.is_list(data_type):
        return "a list of binary", _is_frames
    if pa.types.is_string(data_type):
        return "text", _is_text
    if pa.types.is_int32(data_type):
        return "a whole number of 32 bits", _is_int32
    return "a whole number", _is_integer


_ACCEPTED_TYPES = {field.name: _accepted_for(field.type) for field in CAPTURE_SCHEMA}
