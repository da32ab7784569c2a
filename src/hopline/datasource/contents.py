"""What the data source returns of captures: the records as they are, or what they decode to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import Filter

from hopline.datasource.pushdown import condition_of
from hopline.datasource.segments import open_segment, read_rows
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import RECORD_COLUMNS, RECORDS
from hopline.decoding.segments import decode_records, split

_SAME_NAMES = frozenset(RECORD_COLUMNS).intersection(RECORDS.names) - {"receiver"}  # a message has another receiver


class Content(Protocol):
    """What is read of a row group."""

    def condition(self, filters: Sequence[Filter], physical: pa.Schema) -> pc.Expression | None:
        """Return a condition on a file's own columns that every row which passes the filters meets."""
        ...

    def read(self, path: str, row_group: int, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group; those that cannot pass the filters may be missing."""
        ...


@dataclass(frozen=True)
class RecordContent:
    """The records, as nodes and other tools write them."""

    schema: pa.Schema

    def condition(self, filters: Sequence[Filter], physical: pa.Schema) -> pc.Expression | None:
        """Return a condition on a file's own columns that every row which passes the filters meets."""
        return condition_of(filters, self.schema, physical)

    def read(self, path: str, row_group: int, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group; those that cannot pass the filters may be missing."""
        segment = open_segment(path)
        condition = self.condition(filters, segment.physical_schema)
        return read_rows(segment, row_group, self.schema, condition)


@dataclass(frozen=True)
class DecodedContent:
    """The messages that records decode to, or the records that could not be decoded."""

    schema: pa.Schema
    is_rejects: bool = False
    keyring: Keyring = field(default_factory=Keyring)
    with_bodies: bool = False

    def condition(self, filters: Sequence[Filter], physical: pa.Schema) -> pc.Expression | None:
        """Return a condition on a file's own columns that every row which passes the filters meets."""
        of_records = [one for one in filters if _is_of_records(one)]
        return condition_of(of_records, RECORDS, physical)

    def read(self, path: str, row_group: int, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group; those that cannot pass the filters may be missing."""
        segment = open_segment(path)
        condition = self.condition(filters, segment.physical_schema)
        for rows in read_rows(segment, row_group, RECORDS, condition):
            for records in split(rows):
                decoded = decode_records(path, records, self.keyring, with_bodies=self.with_bodies)
                table = decoded.rejects if self.is_rejects else decoded.messages
                yield from table.select(self.schema.names).to_batches()


def _is_of_records(one: Filter) -> bool:
    """Return whether a filter is on a column that a record and its message both have, with the same value."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return len(path) == 1 and path[0] in _SAME_NAMES
