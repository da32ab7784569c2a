"""Captures as a data source of Spark: ``spark.read.format("hopline")`` and ``spark.readStream.format("hopline")``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
from pyspark.sql.types import StructField, StructType

from hopline.capture.segment_files import CaptureError, find_segments
from hopline.datasource.pushdown import condition_of
from hopline.datasource.records import RECORDS
from hopline.datasource.segments import open_segment, read_rows
from hopline.message import ArgumentError

MAX_FILES = "maxfilespertrigger"


class HoplineSource(DataSource):
    """The records of captures, as nodes and other tools write them.

    Name: ``hopline``. Found by itself wherever Hopline is installed.

    Schema: `hopline.datasource.records.RECORDS`. A schema given with ``.schema(…)`` chooses columns of it, and no
    others are read. Columns that a file lacks are null; it must have ``ts`` and ``frames``.

    Options
    -------
    path
        A segment, a folder (with the folders in it), or a pattern such as ``captures/date=2026-11-*``; or the URI of
        one of the first two (``hdfs://…``, ``s3://…``). In folders only ``*.parquet`` counts, and nothing that begins
        with ``.`` or ``_``: a segment that is still written is not there yet.
    maxFilesPerTrigger
        For streams: how many new segments one batch takes at most. No limit by default.

    Partitioning: one partition for each row group of each file. Comparisons of ``ts``, ``node``, ``event`` and the
    other plain columns with constants, ``in`` and ``is not null`` are pushed down where
    ``spark.sql.python.filterPushdown.enabled`` is on, as in the sessions of `hopline.pipeline.session`: row groups
    whose statistics exclude them are not planned at all, and other rows do not leave Python.

    Streams: every segment is read once, whenever it appears and whatever its name and time. The offset is the list of
    segments read, without those that have been deleted since.

    >>> records = spark.read.format("hopline").load(captures)
    >>> records.where("event = 'sent'").select("node", "peer").distinct().orderBy("node").show()
    +----+----+
    |node|peer|
    +----+----+
    |   a|   b|
    |   b|   a|
    +----+----+
    <BLANKLINE>
    """

    @classmethod
    def name(cls) -> str:
        """Return the short name."""
        return "hopline"

    def schema(self) -> StructType:
        """Return the columns of a capture."""
        return RECORDS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the segments that exist now."""
        return RecordReader(self._path(), _checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of the segments that exist and of those that are still to come."""
        return RecordStreamReader(self._path(), _checked(schema), self._max_files())

    def _path(self) -> str:
        if path := self.options.get("path"):
            return path
        raise ArgumentError("path", 'the captures, as in spark.read.format("hopline").load("captures")', None)

    def _max_files(self) -> int | None:
        text = self.options.get(MAX_FILES)
        if text is None:
            return None
        if not (text.isdecimal() and int(text) > 0):
            raise ArgumentError("maxFilesPerTrigger", "a whole number above 0", text)
        return int(text)


@dataclass(frozen=True)
class RowGroup(InputPartition):
    """What one task reads."""

    path: str
    number: int


class FilterRecorder:
    """Records the filters of a query, so that rows which cannot pass are skipped; Spark still applies all of them.

    It replaces a reader's method `pushFilters`. Where pushdown is off, as it is by default, Spark refuses readers that
    override that method, which it finds out by `__func__`. Then this is never called, and no rows are skipped.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, recorded: list[Filter]) -> None:
        self._recorded = recorded

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Record the filters, and return all of them to Spark."""
        self._recorded[:] = filters
        return filters


class RecordReader(DataSourceReader):
    """Read all segments at a location."""

    def __init__(self, path: str, schema: StructType) -> None:
        self._path = path
        self._wanted = to_arrow_schema(schema, timezone="UTC")
        self._filters: list[Filter] = []
        self.pushFilters = FilterRecorder(self._filters)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[RowGroup]:
        """Plan the row groups that may have rows that pass the filters."""
        paths = find_segments(self._path)
        if not paths:
            raise CaptureError(self._path, "has no closed segments (*.parquet) in it")
        return _all_row_groups(paths, self._wanted, self._filters)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one row group."""
        return _read(partition, self._wanted, self._filters)


class RecordStreamReader(DataSourceStreamReader):
    """Read every segment at a location once, when it appears.

    An offset is the segments read so far: by directory, their names joined with slashes.
    """

    def __init__(self, path: str, schema: StructType, max_files: int | None) -> None:
        self._path = path
        self._wanted = to_arrow_schema(schema, timezone="UTC")
        self._max_files = max_files

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """Begin with nothing read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options."""
        if self._max_files:
            return ReadMaxFiles(self._max_files)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """Add the segments that are new, by name, as far as the limit goes."""
        there = find_segments(self._path)
        read = _paths(start)
        new = [path for path in there if path not in read]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        if not new:
            return start
        still_there = read.intersection(there)
        return _offset(still_there.union(new))

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[RowGroup]:
        """Plan the row groups of the segments that are new."""
        new = _paths(end) - _paths(start)
        return _all_row_groups(sorted(new), self._wanted, [])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one row group."""
        return _read(partition, self._wanted, [])


def _checked(schema: StructType) -> StructType:
    """Return a schema. Raise `ArgumentError` if it has columns that no capture has."""
    known = {field.name: field.dataType for field in RECORDS}
    for field in schema:
        if known.get(field.name) != field.dataType:
            columns = ", ".join(_column_text(column) for column in RECORDS)
            raise ArgumentError("schema", f"columns among {columns}", _column_text(field))
    return schema


def _column_text(field: StructField) -> str:
    return f"{field.name} {field.dataType.simpleString()}"


def _all_row_groups(paths: Iterable[str], wanted: pa.Schema, filters: Sequence[Filter]) -> list[RowGroup]:
    found: list[RowGroup] = []
    for path in paths:
        found += _row_groups(path, wanted, filters)
    return found


def _row_groups(path: str, wanted: pa.Schema, filters: Sequence[Filter]) -> list[RowGroup]:
    segment = open_segment(path)
    condition = condition_of(filters, wanted, segment.physical_schema)
    parts = segment.split_by_row_group(condition)
    return [RowGroup(path, part.row_groups[0].id) for part in parts]


def _read(partition: InputPartition, wanted: pa.Schema, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RowGroup):
        raise TypeError(partition)
    segment = open_segment(partition.path)
    condition = condition_of(filters, wanted, segment.physical_schema)
    return read_rows(segment, partition.number, wanted, condition)


def _offset(paths: Iterable[str]) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for path in sorted(paths):
        folder, _, name = path.rpartition("/")
        names.setdefault(folder, []).append(name)
    return {folder: "/".join(inside) for folder, inside in names.items()}


def _paths(offset: dict[str, str]) -> set[str]:
    paths: set[str] = set()
    for folder, names in offset.items():
        paths.update(f"{folder}/{name}" for name in names.split("/"))
    return paths
