"""Rows of the tables by hand: name the columns that a test is about, the others have a plain value."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hopline.pipeline.tables.messages import MESSAGES

Row = dict[str, Any]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def moment(us: int) -> datetime:
    """Say when it is so many microseconds after ``START``."""
    return START + timedelta(microseconds=us)


def day(us: int) -> date:
    """Say which day (UTC) it is so many microseconds after ``START``."""
    return moment(us).date()


def message(event: str | None, node: str | None = "a", *, at: int = 0, **columns: Any) -> Row:
    """Make a row of ``messages``, recorded ``at`` microseconds after ``START``.

    Any column may be named. ``seq`` is ``at`` unless given, ``fingerprint`` is ``message_id`` unless given.
    """
    row: Row = dict.fromkeys(MESSAGES.names)
    row |= {
        "date": day(at),
        "ts": moment(at),
        "seq": at,
        "node": node,
        "event": event,
        "dropped": 0,
        "service": False,
        "wire_format": "V5",
        "identity": "ORDER",
        "version": "1",
        "partition": "",
        "correlation_id": columns.get("flow_id") or "",
        "receiver": "",
        "receiver_node": "",
        "callback_receiver": "",
        "callback_receiver_node": "",
        "callback_key": 0,
        "callbacks": [],
        "routing": [],
        "hops": 0,
        "distribution": 0,
        "trace_options": 0,
        "ttl_us": 0,
        "attempt": 1,
        "domain": "",
        "signature": b"",
        "body_frames": 1,
        "body_bytes": 10,
        "frame_count": 25,
        "bytes": 100,
        "message_id": 1,
        "fingerprint": columns.get("message_id", 1),
    }
    unknown = columns.keys() - row.keys()
    assert not unknown, f"no such column: {unknown}"
    return row | columns


def table(spark: SparkSession, rows: Iterable[Row], schema: StructType = MESSAGES) -> DataFrame:
    """Make a DataFrame of such rows."""
    arrow = pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema, timezone="UTC"))
    return spark.createDataFrame(arrow, schema)


def rows_of(frame: DataFrame) -> list[Row]:
    """Collect a table, its times in UTC."""
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows
