"""Segments as a capture has them: Parquet files by day and node, each closed when it is long enough."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.generator.tape import TAPE_SCHEMA, Written

SEGMENT_RECORDS = 500_000
ROW_GROUP_RECORDS = 100_000
_DAY_US = 86_400_000_000
_WITH_STATISTICS = [field.name for field in TAPE_SCHEMA if field.name != "frames"]  # of frames they say nothing
_NAMES = [field.name for field in TAPE_SCHEMA if pa.types.is_dictionary(field.type)]


class Segments:
    """The segments of one node."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._writer: pq.ParquetWriter | None = None
        self._day = -1
        self._count = 0

    def write(self, written: Written) -> None:
        """Append records, which must follow those before."""
        days = written.ts // _DAY_US
        cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
        for first, last in pairwise(cuts):
            writer = self._writer
            if writer is None or days[first] != self._day or self._count >= SEGMENT_RECORDS:
                self.close()
                writer = self._open(int(days[first]), int(written.ts[first]), int(written.seq[first]))
            for begin in range(first, last, ROW_GROUP_RECORDS):
                writer.write_batch(written.records(slice(begin, min(begin + ROW_GROUP_RECORDS, last))))
            self._count += last - first

    def _open(self, day: int, ts: int, seq: int) -> pq.ParquetWriter:
        directory = self._directory / f"date={np.datetime64(day, 'D')}"
        directory.mkdir(parents=True, exist_ok=True)
        start = str(np.datetime64(ts, "us")).replace("-", "").replace(":", "")
        path = directory / f"{self._name}-{start}Z-{seq}.parquet"
        self._day, self._count = day, 0
        # Names are codes in memory only: without the schema of Arrow in it, a file says strings.
        self._writer = pq.ParquetWriter(
            path,
            TAPE_SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=_NAMES,
            write_statistics=_WITH_STATISTICS,
            store_schema=False,
        )
        return self._writer

    def close(self) -> None:
        """Close the segment that is open, if one is."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
