"""Captures as a data source of Spark: ``spark.read.format("hopline")`` and ``spark.readStream.format("hopline")``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
from pyspark.sql.types import StructField, StructType

from hopline.capture.segment_files import CaptureError, find_segments
from hopline.datasource.contents import Content, DecodedContent, RecordContent
from hopline.datasource.records import RECORDS
from hopline.datasource.segments import open_segment
from hopline.decoding import schemas
from hopline.decoding.keys import Keyring
from hopline.message import ArgumentError

# Spark writes the names of options in lower case.
TABLE = "table"
KEYS = "keys"
WITH_BODIES = "withbodies"
MAX_FILES = "maxfilespertrigger"

_SCHEMAS = {
    "records": RECORDS,
    "messages": from_arrow_schema(schemas.MESSAGES),
    "rejects": from_arrow_schema(schemas.REJECTS),
}


class HoplineSource(DataSource):
    """The records of captures, as nodes and other tools write them, or the messages that they decode to.

    Name: ``hopline``. Found by itself wherever Hopline is installed.

    Schema: `hopline.datasource.records.RECORDS`, or the columns of the table `messages` or `rejects`. A schema given
    with ``.schema(…)`` chooses some of these columns. Columns that a file lacks are null; it must have ``ts`` and
    ``frames``.

    Options
    -------
    path
        A segment, a folder (with the folders in it), or a pattern such as ``captures/date=2026-11-*``; or the URI of
        one of the first two (``hdfs://…``, ``s3://…``). In folders only ``*.parquet`` counts, and nothing that begins
        with ``.`` or ``_``: a segment that is still written is not there yet.
    table
        ``records`` (the default), ``messages`` for the records that are valid messages, decoded, or ``rejects`` for
        all others, with the reason.
    keys
        For ``messages``: a node's configuration, whose keys verify signatures. The driver reads it. Replays are not
        found here: that takes all messages, which the pipeline has.
    withBodies
        For ``messages``: ``true`` keeps the body frames, up to 64 KiB of each message.
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
        """Return the columns of the table."""
        return _SCHEMAS[self._table()]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the segments that exist now."""
        return SegmentReader(self._path(), self._content(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of the segments that exist and of those that are still to come."""
        return SegmentStreamReader(
            self._path(),
            content=self._content(schema),
            max_files=self._max_files(),
        )

    def _table(self) -> str:
        table = self.options.get(TABLE, "records")
        if table not in _SCHEMAS:
            raise ArgumentError("table", f"one of {', '.join(_SCHEMAS)}", table)
        return table

    def _content(self, schema: StructType) -> Content:
        table = self._table()
        if table != "messages":
            self._refuse(KEYS, WITH_BODIES)
        columns = to_arrow_schema(_checked(schema, _SCHEMAS[table]), timezone="UTC")
        if table == "records":
            return RecordContent(columns)
        keys = self.options.get(KEYS)
        return DecodedContent(
            columns,
            is_rejects=table == "rejects",
            keyring=Keyring() if keys is None else Keyring.load(Path(keys)),
            with_bodies=self._with_bodies(),
        )

    def _refuse(self, *options: str) -> None:
        """Raise `ArgumentError` for an option that the table has no use for."""
        for option in options:
            if option in self.options:
                raise ArgumentError(option, 'nothing, except with .option("table", "messages")', self.options[option])

    def _with_bodies(self) -> bool:
        text = self.options.get(WITH_BODIES, "false").lower()
        if text not in ("true", "false"):
            raise ArgumentError("withBodies", "true or false", text)
        return text == "true"

    def _path(self) -> str:
        if path := self.options.get("path"):
            return path
        raise ArgumentError("path", 'the captures, as in spark.read.format("hopline").load("captures")', None)

    def _max_files(self) -> int | None:
        text = self.options.get(MAX_FILES)
        if text is None:
            return None
        number = int(text) if text.isdecimal() else 0
        if number == 0:
            raise ArgumentError("maxFilesPerTrigger", "a whole number above 0", text)
        return number


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


class SegmentReader(DataSourceReader):
    """Read all segments at a location."""

    def __init__(self, path: str, content: Content) -> None:
        self._path = path
        self._content = content
        self._filters: list[Filter] = []
        self.pushFilters = FilterRecorder(self._filters)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[RowGroup]:
        """Plan the row groups that may have rows that pass the filters."""
        paths = find_segments(self._path)
        if not paths:
            raise CaptureError(self._path, "has no closed segments (*.parquet) in it")
        return _all_row_groups(paths, self._content, self._filters)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one row group."""
        return _read(partition, self._content, self._filters)


class SegmentStreamReader(DataSourceStreamReader):
    """Read every segment at a location once, when it appears.

    An offset is the segments read so far: by directory, their names joined with slashes.
    """

    def __init__(self, path: str, content: Content, max_files: int | None) -> None:
        self._path = path
        self._content = content
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
        existing = find_segments(self._path)
        read = _paths(start)
        new = [path for path in existing if path not in read]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        if not new:
            return start
        still_there = read.intersection(existing)
        return _offset(still_there.union(new))

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[RowGroup]:
        """Plan the row groups of the segments that are new."""
        new = _paths(end) - _paths(start)
        return _all_row_groups(sorted(new), self._content, [])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one row group."""
        return _read(partition, self._content, [])


def _checked(schema: StructType, known: StructType) -> StructType:
    """Return a schema. Raise `ArgumentError` if it has columns that the table has not."""
    types = {field.name: field.dataType for field in known}
    for field in schema:
        if types.get(field.name) != field.dataType:
            columns = [_column_text(column) for column in known]
            listed = ", ".join(columns)
            raise ArgumentError("schema", f"columns among {listed}", _column_text(field))
    return schema


def _column_text(field: StructField) -> str:
    type_name = field.dataType.simpleString()
    return f"{field.name} {type_name}"


def _all_row_groups(paths: Iterable[str], content: Content, filters: Sequence[Filter]) -> list[RowGroup]:
    row_groups: list[RowGroup] = []
    for path in paths:
        row_groups += _row_groups(path, content, filters)
    return row_groups


def _row_groups(path: str, content: Content, filters: Sequence[Filter]) -> list[RowGroup]:
    segment = open_segment(path)
    condition = content.condition(filters, segment.physical_schema)
    parts = segment.split_by_row_group(condition)
    return [RowGroup(path, part.row_groups[0].id) for part in parts]


def _read(partition: InputPartition, content: Content, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RowGroup):
        raise TypeError(partition)
    return content.read(partition.path, partition.number, filters)


def _offset(paths: Iterable[str]) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for path in sorted(paths):
        folder, _, name = path.rpartition("/")
        folder_names = names.setdefault(folder, [])
        folder_names.append(name)
    return {folder: "/".join(folder_names) for folder, folder_names in names.items()}


def _paths(offset: dict[str, str]) -> set[str]:
    paths: set[str] = set()
    for folder, names in offset.items():
        paths.update(f"{folder}/{name}" for name in names.split("/"))
    return paths
