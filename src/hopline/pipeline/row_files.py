"""Files that get their rows little by little: Parquet for tables, Arrow for what is read again soon."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

_ROW_GROUP = 131_072
# A dictionary of what is different in nearly every row is built, and then given up: in time and space it costs a lot.
_DIFFERENT = {
    *("ts", "seq", "cause", "duration_us", "flow_id", "correlation_id", "signature", "fingerprint", "message_id"),
    *("detail", "frames"),
}
_ASKED_FOR = ["ts", "seq", "node"]  # by ranges: of others the least and the most tell nothing
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")
ARROW = ".arrow"


class RowFile(Protocol):
    """A file that is being written."""

    def add(self, rows: pa.Table) -> None:
        """Write some more rows."""

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
            use_dictionary=[leaf for field in schema if field.name not in _DIFFERENT for leaf in _leaves(field)],
            write_statistics=_ASKED_FOR,
        )
        self._waiting: list[pa.Table] = []
        self._rows = self._written = 0

    def add(self, rows: pa.Table) -> None:
        """Write some more rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows - self._written >= _ROW_GROUP:
            self._write()

    def close(self) -> int:
        """Finish it, and count its rows."""
        self._write()
        self._writer.close()
        return self._rows

    def _write(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting).select(self._schema.names).cast(self._schema)
            self._writer.write_table(rows, row_group_size=_ROW_GROUP)
            self._waiting = []
            self._written = self._rows


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

    def close(self) -> int:
        """Finish it, and count its rows."""
        self._writer.close()
        return self._rows


def _leaves(field: pa.Field) -> list[str]:
    """List the columns of a field, as Parquet calls them."""
    if not pa.types.is_list(field.type):
        return [field.name]
    inner = field.type.value_type
    parts = [f".{part.name}" for part in inner] if pa.types.is_struct(inner) else [""]
    return [f"{field.name}.list.element{part}" for part in parts]
