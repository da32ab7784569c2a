"""The tables of the truth: their columns, and the files that they are written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.generator.stage import EVENTS

TIME = pa.timestamp("us", tz="UTC")
_TEXT, _LONG = pa.string(), pa.int64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


SCHEMAS = {
    "faults": _schema(
        **{"class": _TEXT}, kind=_TEXT, node=_TEXT, seq=_LONG, ts=TIME, peer=_TEXT, flow_id=_TEXT, identity=_TEXT
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
        node=_TEXT, seq=_LONG, ts=TIME, peer=_TEXT, offence=_TEXT, domain=_TEXT, flow_id=_TEXT, identity=_TEXT
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


class TableFiles:
    """One Parquet file a table, and how many rows each has."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._writers = {
            name: pq.ParquetWriter(directory / f"{name}.parquet", schema, compression="zstd")
            for name, schema in SCHEMAS.items()
        }
        self._unwritten: dict[str, list[pa.RecordBatch]] = {name: [] for name in SCHEMAS}
        self.rows = dict.fromkeys(SCHEMAS, 0)

    def add(self, table: str, rows: int, /, **columns: Any) -> None:
        """Add rows; a single value is that of all of them, and what is not given is null."""
        arrays = []
        for field in SCHEMAS[table]:
            value = columns.get(field.name)
            if value is None:
                arrays.append(pa.nulls(rows, field.type))
            elif isinstance(value, pa.Array):
                arrays.append(value)
            elif isinstance(value, np.ndarray):
                arrays.append(pa.array(value).cast(field.type))
            else:
                arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
        self._unwritten[table].append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[table]))
        self.rows[table] += rows

    def flush(self) -> None:
        """Write the rows so far: together, for there are many small lots of them."""
        for name, batches in self._unwritten.items():
            if batches:
                self._writers[name].write_table(pa.Table.from_batches(batches).combine_chunks())
                batches.clear()

    def close(self) -> None:
        """Write the rest, and close the files."""
        try:
            self.flush()
        finally:
            for writer in self._writers.values():
                writer.close()
