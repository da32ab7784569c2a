"""Check that a Parquet file is a capture, and read its rows in a given schema.

Segments may be written by other tools too, with fewer columns or in other types than a node writes.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.records import CAPTURE_SCHEMA
from hopline.message import HoplineError

REQUIRED = ("ts", "frames")  # the least that a tool can record off the wire


class CaptureError(HoplineError):
    """A capture cannot be read: which path, and what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def foreign_column(schema: pa.Schema) -> str | None:
    """Return how a file's columns differ from a capture's, or None if they do not. Other columns are ignored."""
    for name, (expected, fits) in _COLUMNS.items():
        at = schema.get_field_index(name)
        if at < 0:
            if name in REQUIRED:
                others = ", ".join(schema.names[:6])
                return f"it has no column {name}, but {others or 'none'}"
            continue
        column_type = schema.field(at).type
        if not fits(column_type):
            return f"its column {name} is {column_type}, expected {expected}"
    return None


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in a schema: columns that it lacks are null, columns that it has besides are left out."""
    columns = [_column(batch, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(at)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")  # written by a tool without time zones
    return column.cast(field.type)


def first_line(problem: Exception) -> str:
    """Return the first line of an error's text, or its type if it has none."""
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


def _is_time(column_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(column_type)) and column_type.unit in ("us", "ms")


def _is_text(column_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(column_type):
        return _is_text(column_type.value_type)
    return bool(pa.types.is_string(column_type) or pa.types.is_large_string(column_type))


def _is_number(column_type: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(column_type))


def _is_frames(column_type: pa.DataType) -> bool:
    if not (pa.types.is_list(column_type) or pa.types.is_large_list(column_type)):
        return False
    frame = column_type.value_type
    return bool(pa.types.is_binary(frame) or pa.types.is_large_binary(frame))


def _is_small_number(column_type: pa.DataType) -> bool:
    return _is_number(column_type) and column_type.bit_width <= pa.int32().bit_width


def _like(kind: pa.DataType) -> tuple[str, Callable[[pa.DataType], bool]]:
    """Return which types are accepted for a column, in words and as a predicate."""
    if pa.types.is_timestamp(kind):
        return "a timestamp in µs or ms", _is_time
    if pa.types.is_list(kind):
        return "a list of binary", _is_frames
    if pa.types.is_string(kind):
        return "text", _is_text
    if pa.types.is_int32(kind):
        return "a whole number of 32 bits", _is_small_number
    return "a whole number", _is_number


# For each column of a capture, the types that are accepted.
_COLUMNS = {field.name: _like(field.type) for field in CAPTURE_SCHEMA}
