"""One row per record that is none: why, and its frames."""

from __future__ import annotations

from pyspark.sql.types import ArrayType

from hopline.pipeline.findings import Finding, Seen, number
from hopline.pipeline.tables.recorded import RECORD_COLUMNS
from hopline.pipeline.tables.table import BYTES, DATE, INT, TEXT, Table, columns

REJECTS = columns(
    ("date", DATE, "day of ts, UTC; the partition"),
    *RECORD_COLUMNS,
    ("code", TEXT, "why it is no message: hopline.wire.Reason, or missing_frame where the record itself has none"),
    ("frame_index", INT, "the frame to blame, counted from 0; null when none is"),
    ("detail", TEXT, "what was expected and found"),
    ("frames", ArrayType(BYTES), "as recorded"),
)


def _rejects_by_code(seen: Seen) -> Finding:
    counts = seen.counts("code")
    rows = tuple((code, number(count)) for (code,), count in counts)
    first = counts[0][0][0] if counts else ""
    return Finding("Rejects by code", ("code", "records"), rows, seen.command(f"code = '{first}'"), is_trouble=True)


TABLE = Table(
    name="rejects",
    meaning="one row per record that is none: why, and its frames",
    schema=REJECTS,
    shown_first=("ts", "node", "code", "detail"),
    findings=(_rejects_by_code,),
)
