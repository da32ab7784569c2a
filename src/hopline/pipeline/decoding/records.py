"""Captures as they come, brought into one form."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    NullType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from hopline.message import HoplineError
from hopline.pipeline.tables.recorded import RECORDS


class ForeignCaptureError(HoplineError):
    """This is no capture: the column at fault, what it must be and what it is."""

    def __init__(self, column: str, expected: str, found: str) -> None:
        super().__init__(column, expected, found)
        self.column = column
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"this is no capture: column `{self.column}` must be {self.expected}, found {self.found}"


REQUIRED = ("ts", "frames")


def records(capture: DataFrame) -> DataFrame:
    """Bring a capture into the form of `RECORDS`: what it lacks is null, what it has beyond that is left out.

    Only `ts` and `frames` must be there. Raises `ForeignCaptureError` for another schema. A `ts` without a time zone is
    UTC.
    """
    given = {field.name: field for field in capture.schema.fields}
    return capture.select(*(_column(field, given.get(field.name)).alias(field.name) for field in RECORDS.fields))


def _column(wanted: StructField, given: StructField | None) -> Column:
    if given is None:
        if wanted.name in REQUIRED:
            raise ForeignCaptureError(wanted.name, wanted.dataType.simpleString(), "no such column")
        return sf.lit(None).cast(wanted.dataType)
    column, type_ = sf.col(f"`{wanted.name}`"), given.dataType
    if isinstance(type_, TimestampNTZType) and isinstance(wanted.dataType, TimestampType):
        since = sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        return sf.timestamp_micros(sf.timestamp_diff("MICROSECOND", since, column))
    if not _fits(type_, wanted.dataType):
        raise ForeignCaptureError(wanted.name, wanted.dataType.simpleString(), type_.simpleString())
    if isinstance(type_, IntegralType) and type_ != wanted.dataType:
        return column.try_cast(wanted.dataType)
    return column.cast(wanted.dataType)


def _fits(given: DataType, wanted: DataType) -> bool:
    """Return whether a column can be taken for another type without a change of its values."""
    if isinstance(given, NullType):
        return True
    if isinstance(wanted, ArrayType):
        return isinstance(given, ArrayType) and isinstance(given.elementType, BinaryType)
    for kind in (IntegralType, StringType, TimestampType):
        if isinstance(wanted, kind):
            return isinstance(given, kind)
    return False
