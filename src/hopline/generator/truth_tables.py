"""The tables of the truth: their columns, and the files that they are written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.generator.compiled_scenarios import EVENTS
from hopline.generator.randomness import Octets

TIME = pa.timestamp("us", tz="UTC")
_TEXT, _LONG = pa.string(), pa.int64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


SCHEMAS = {
    "faults": _schema(
        **{"class": _TEXT},
        kind=_TEXT,
        node=_TEXT,
        seq=_LONG,
        ts=TIME,
        peer=_TEXT,
        flow_id=_TEXT,
        identity=_TEXT,
    ),
    "flows": _schema(
        flow_id=_TEXT,
        scene=_TEXT,
        wire_format=_TEXT,
        outcome=_TEXT,
        origin=_TEXT,
        identity=_TEXT,
        messages=_LONG,
        records=_LONG,
        hops=_LONG,
        nodes=_LONG,
        answers=_LONG,
        start_ts=TIME,
        end_ts=TIME,
        duration_us=_LONG,
        parent_flow_id=_TEXT,
        journey_id=_TEXT,
    ),
    "journeys": _schema(journey_id=_TEXT, flows=_LONG, depth=_LONG, outcome=_TEXT),
    "callbacks": _schema(
        flow_id=_TEXT,
        asked_node=_TEXT,
        asked_receiver=_TEXT,
        callback_key=_LONG,
        identity=_TEXT,
        outcome=_TEXT,
        answer_identity=_TEXT,
        asked_ts=TIME,
        answered_ts=TIME,
        latency_us=_LONG,
    ),
    "hops": _schema(
        from_node=_TEXT,
        to_node=_TEXT,
        sent=_LONG,
        received=_LONG,
        lost=_LONG,
        duplicates=_LONG,
        unwatched=_LONG,
        unsent=_LONG,
    ),
    "security": _schema(node=_TEXT, peer=_TEXT, domain=_TEXT, verdict=_TEXT, count=_LONG),
    "incidents": _schema(
        node=_TEXT,
        seq=_LONG,
        ts=TIME,
        peer=_TEXT,
        offence=_TEXT,
        domain=_TEXT,
        flow_id=_TEXT,
        identity=_TEXT,
    ),
    "rejects": _schema(node=_TEXT, seq=_LONG, ts=TIME, event=_TEXT, code=_TEXT),
    "skew": _schema(node=_TEXT, uri=_TEXT, offset_us=_LONG, captured=pa.bool_()),
    "audit": _schema(
        node=_TEXT,
        hour=TIME,
        records=_LONG,
        dropped=_LONG,
        rejects=_LONG,
        **{str(event): _LONG for event in EVENTS},
        copies=_LONG,
    ),
}


class TruthTableFiles:
    """One Parquet file for each table.

    Attributes:
        rows: The number of rows of each table.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.rows = dict.fromkeys(SCHEMAS, 0)
        self._buffered: dict[str, list[pa.RecordBatch]] = {name: [] for name in SCHEMAS}
        self._writers: dict[str, pq.ParquetWriter] = {}
        for name, schema in SCHEMAS.items():
            path = directory / f"{name}.parquet"
            self._writers[name] = pq.ParquetWriter(path, schema, compression="zstd")

    def add(self, table: str, rows: int, /, **columns: Any) -> None:
        """Add rows to a table.

        Args:
            table: The table's name.
            rows: The number of rows.
            columns: An array with a value for each row, or one value for all. Columns that are not given are null.
        """
        schema = SCHEMAS[table]
        arrays = [_array(columns.get(field.name), field.type, rows) for field in schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self._buffered[table].append(batch)
        self.rows[table] += rows

    def flush(self) -> None:
        """Write the buffered rows, which come in many small batches, as one row group for each table."""
        for name, batches in self._buffered.items():
            if not batches:
                continue
            rows = pa.Table.from_batches(batches)
            self._writers[name].write_table(rows.combine_chunks())
            batches.clear()

    def close(self) -> None:
        """Write the buffered rows, and close the files."""
        try:
            self.flush()
        finally:
            for writer in self._writers.values():
                writer.close()


def _array(value: Any, data_type: pa.DataType, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, data_type)
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, np.ndarray):
        return pa.array(value).cast(data_type)
    return pa.repeat(pa.scalar(value, data_type), rows)


def texts_of(rows: Octets) -> pa.Array:
    """Return rows of characters as an array of strings."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    characters = np.ascontiguousarray(rows)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))
