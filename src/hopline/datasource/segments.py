"""Segments as Arrow scans them: opened with their schema checked, and read row group by row group."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hopline.capture.segment_files import check_columns, conform, filesystem_of, open_errors, read_errors

_SCAN_OPTIONS = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
_FORMAT = ds.ParquetFileFormat(default_fragment_scan_options=_SCAN_OPTIONS)


def open_segment(path: str) -> ds.ParquetFileFragment:
    """Return a segment of which only the schema has been read.

    Raises:
        CaptureError: It is not a capture.
    """
    system, inner_path = filesystem_of(path)
    with open_errors(path):
        fragment = _FORMAT.make_fragment(inner_path, system)
        schema = fragment.physical_schema
    check_columns(path, schema)
    return fragment


def read_rows(
    segment: ds.ParquetFileFragment,
    row_group: int,
    schema: pa.Schema,
    condition: pc.Expression | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group that meet a condition.

    Args:
        segment: The segment.
        row_group: The number of the row group.
        schema: The schema of the batches; columns that the segment lacks are null.
        condition: What the rows must meet, None for all rows.

    Raises:
        CaptureError: The row group is damaged.
    """
    available = set(segment.physical_schema.names)
    columns = [name for name in schema.names if name in available]
    if not columns:
        columns = ["ts"]  # Arrow yields no rows without any column
    rows = segment.subset(row_group_ids=[row_group])
    with read_errors(segment.path):
        for batch in rows.to_batches(columns=columns, filter=condition, use_threads=False):
            if batch.num_rows:
                yield conform(batch, schema)
