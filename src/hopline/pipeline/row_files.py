"""Files that get their rows little by little: Parquet for tables, Arrow for what is read again soon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

_ROW_GROUP = 131_072
# A dictionary of what is different in nearly every row is built, and then given up: in time and space it costs a lot.
# Nor have times one.
_DIFFERENT = {
    *("seq", "cause", "duration_us", "flow_id", "correlation_id", "signature", "fingerprint", "message_id", "detail"),
    *("frames", "rows", "sent_seq", "received_seq", "transit_us", "latency_us", "us"),
}
_ASKED_FOR = {"seq", "node"}  # by ranges, like times: of others the least and the most tell nothing
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")
ARROW = ".arrow"


class RowFile(Protocol):
    """A file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None: ...

    def add(self, rows: pa.Table) -> None:
        """Write some more rows, now or when there are more."""

    def flush(self) -> None:
        """Write what waits, however little it is."""

    def close(self) -> int:
        """Finish it, and count its rows."""


class ParquetFile:
    """A Parquet file with row groups of a good size."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(
            path.with_suffix(".parquet"),
            schema,
            compression="zstd",
            use_dictionary=[leaf for field in schema for leaf in _leaves_alike(field)],
            write_statistics=[field.name for field in schema if field.name in _ASKED_FOR or _is_time(field)],
        )
        self._waiting: list[pa.Table] = []
        self._rows = self._written = 0

    def add(self, rows: pa.Table) -> None:
        """Write some more rows, when they are enough."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows - self._written >= _ROW_GROUP:
            self.flush()

    def close(self) -> int:
        """Finish it, and count its rows."""
        self.flush()
        with self._given_up_if_refused():
            self._writer.close()
        return self._rows

    def flush(self) -> None:
        """Write what waits as a row group, or several."""
        if self._waiting:
            rows = pa.concat_tables(self._waiting).select(self._schema.names).cast(self._schema)
            with self._given_up_if_refused():
                self._writer.write_table(rows, row_group_size=_ROW_GROUP)
            self._waiting = []
            self._written = self._rows

    @contextmanager
    def _given_up_if_refused(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._writer.is_open = False  # else it tries to finish the file when it is forgotten, and fails aloud
            raise


class ArrowFile:
    """A file of Arrow batches."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pa.ipc.new_file(path.with_suffix(ARROW), schema, options=_QUICK)
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Write some more rows."""
        self._writer.write_table(rows.select(self._schema.names).cast(self._schema))
        self._rows += rows.num_rows

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> int:
        """Finish it, and count its rows."""
        self._writer.close()
        return self._rows


def _leaves_alike(field: pa.Field) -> list[str]:
    """List the columns of a field, as Parquet calls them, whose values come again and again."""
    if field.name in _DIFFERENT or _is_time(field):
        return []
    if not pa.types.is_list(field.type):
        return [field.name]
    inner, path = field.type.value_type, f"{field.name}.list.element"
    if not pa.types.is_struct(inner):
        return [path]
    return [f"{path}.{part.name}" for part in inner if part.name not in _DIFFERENT]


def _is_time(field: pa.Field) -> bool:
    return bool(pa.types.is_timestamp(field.type))
