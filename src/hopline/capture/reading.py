"""What every reader of segments needs: whether a file is a capture, and its rows in the schema of a capture.

Other tools may write segments too, with fewer columns or in other types than a node does.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.records import SCHEMA
from hopline.message import HoplineError

NEEDED = ("ts", "frames")  # what another tool took off the wire may have no more


class CaptureError(HoplineError):
    """A capture cannot be read: which path, and what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def foreign_column(schema: pa.Schema) -> str | None:
    """Return how a file's columns differ from a capture's, or None; unknown columns are ignored."""
    for name, (expected, fits) in _COLUMNS.items():
        at = schema.get_field_index(name)
        if at < 0:
            if name in NEEDED:
                others = ", ".join(schema.names[:6])
                return f"it has no column {name}, but {others or 'none'}"
            continue
        found = schema.field(at).type
        if not fits(found):
            return f"its column {name} is {found}, expected {expected}"
    return None


def in_schema(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the wanted schema: what it has not is null, what it has beyond that is left out."""
    columns = [_column(batch, field) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(at)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")  # a tool that knows no zones; ours are all UTC
    return column.cast(field.type)


def first_line(problem: Exception) -> str:
    """Return the first line of what an error says; its type, if it says nothing."""
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


def _is_time(found: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(found)) and found.unit in ("us", "ms")


def _is_text(found: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        return _is_text(found.value_type)
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _is_number(found: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(found))


def _is_frames(found: pa.DataType) -> bool:
    if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
        return False
    frame = found.value_type
    return bool(pa.types.is_binary(frame) or pa.types.is_large_binary(frame))


def _is_small_number(found: pa.DataType) -> bool:
    return _is_number(found) and found.bit_width <= pa.int32().bit_width


def _like(kind: pa.DataType) -> tuple[str, Callable[[pa.DataType], bool]]:
    """Return what a column of a type may be, in words and as a test of its type."""
    if pa.types.is_timestamp(kind):
        return "a timestamp in µs or ms", _is_time
    if pa.types.is_list(kind):
        return "a list of binary", _is_frames
    if pa.types.is_string(kind):
        return "text", _is_text
    if pa.types.is_int32(kind):
        return "a whole number of 32 bits", _is_small_number
    return "a whole number", _is_number


# For each column of a capture, what other tools may write in its place.
_COLUMNS = {field.name: _like(field.type) for field in SCHEMA}
