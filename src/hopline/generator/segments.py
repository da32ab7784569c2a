"""Writing segments as a capture has them: Parquet files by day and node, each closed when it is long enough."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.generator.node_logs import LOG_SCHEMA, LogPart

SEGMENT_RECORDS = 500_000
ROW_GROUP_RECORDS = 100_000
_DAY_US = 86_400_000_000
_CODED_COLUMNS = [field.name for field in LOG_SCHEMA if pa.types.is_dictionary(field.type)]
_COLUMNS_WITH_STATISTICS = [name for name in LOG_SCHEMA.names if name != "frames"]  # statistics of frames are useless


class SegmentWriter:
    """Writes the segments of one node."""

    def __init__(self, directory: Path, node: str) -> None:
        self._directory = directory
        self._node = node
        self._writer: pq.ParquetWriter | None = None
        self._day = -1
        self._count = 0

    def write(self, part: LogPart) -> None:
        """Append records, which must follow those written before."""
        days = part.ts // _DAY_US
        midnights = np.flatnonzero(np.diff(days)) + 1
        for begin, end in pairwise([0, *midnights.tolist(), len(days)]):
            writer = self._writer_for(int(days[begin]), int(part.ts[begin]), int(part.seq[begin]))
            for first in range(begin, end, ROW_GROUP_RECORDS):
                last = min(first + ROW_GROUP_RECORDS, end)
                writer.write_batch(part.records(slice(first, last)))
            self._count += end - begin

    def _writer_for(self, day: int, ts: int, seq: int) -> pq.ParquetWriter:
        if self._writer is not None and day == self._day and self._count < SEGMENT_RECORDS:
            return self._writer
        self.close()
        self._writer = self._open(day, ts, seq)
        self._day = day
        self._count = 0
        return self._writer

    def _open(self, day: int, ts: int, seq: int) -> pq.ParquetWriter:
        date = np.datetime64(day, "D")
        directory = self._directory / f"date={date}"
        directory.mkdir(parents=True, exist_ok=True)
        moment = str(np.datetime64(ts, "us"))
        start = moment.replace("-", "").replace(":", "")
        # Without Arrow's own schema in the file, readers see strings where memory has dictionary codes.
        return pq.ParquetWriter(
            directory / f"{self._node}-{start}Z-{seq}.parquet",
            LOG_SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=_CODED_COLUMNS,
            write_statistics=_COLUMNS_WITH_STATISTICS,
            store_schema=False,
        )

    def close(self) -> None:
        """Close the open segment, if there is one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
