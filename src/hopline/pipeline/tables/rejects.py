"""One row per record that is none: why, and its frames."""

from __future__ import annotations

from pyspark.sql.types import ArrayType

from hopline.datasource.records import RECORD_COLUMNS
from hopline.pipeline.tables.findings import Finding, Seen, number
from hopline.pipeline.tables.table import BYTES, DATE, INT, TEXT, Table, columns

REJECTS = columns(
    ("date", DATE, "day of ts, UTC; the partition"),
    *RECORD_COLUMNS,
    ("code", TEXT, "why it could not be decoded: a hopline.wire.Reason, or missing_frame if the record lacks frames"),
    ("frame_index", INT, "index of the frame at fault, from 0; null if it is no single frame"),
    ("detail", TEXT, "what was expected and found"),
    ("frames", ArrayType(BYTES), "frames as they were recorded"),
)


def _rejects_by_code(seen: Seen) -> Finding:
    counts = seen.counts("code")
    rows = tuple((code, number(count)) for (code,), count in counts)
    first = counts[0][0][0] if counts else ""
    return Finding("Rejects by code", ("code", "records"), rows, seen.command(f"code = '{first}'"), is_trouble=True)


TABLE = Table(
    name="rejects",
    meaning="one row per record that could not be decoded: why, and its frames",
    schema=REJECTS,
    shown_first=("ts", "node", "code", "detail"),
    findings=(_rejects_by_code,),
)
