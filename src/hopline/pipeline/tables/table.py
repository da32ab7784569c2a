"""What a table is: its columns, what it is made of, how it lies in files, and what people see of it first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from hopline.pipeline.tables.findings import Finding, Seen

TEXT, LONG, INT, DOUBLE = StringType(), LongType(), IntegerType(), DoubleType()
TIME, DATE, BYTES, FLAG = TimestampType(), DateType(), BinaryType(), BooleanType()


PROVISIONAL = "provisional"


def columns(*described: tuple[str, DataType, str]) -> StructType:
    """Return a schema of columns, each with its name, type and meaning."""
    return StructType([StructField(name, type_, True, {"comment": meaning}) for name, type_, meaning in described])


@dataclass(frozen=True, slots=True)
class Table:
    """A table that the job writes."""

    name: str
    meaning: str  # what a row is
    schema: StructType
    shown_first: tuple[str, ...]  # the columns that fit into 80 characters
    sorted_by: tuple[str, ...] = ()
    looked_up_by: tuple[str, ...] = ()  # columns with a bloom filter
    function: Callable[..., DataFrame] | None = None  # none: the decoder makes it
    findings: tuple[Callable[[Seen], Finding], ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """What it is made of: the parameters of its function are names of tables, or of what `making` has."""
        return tuple(signature(self.function).parameters) if self.function else ()
