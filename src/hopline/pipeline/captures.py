"""The captures of a run: listed by Spark wherever they are, and inspected before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from hopline.capture.naming import DAY, SEGMENT
from hopline.capture.segment_files import is_segment_name
from hopline.decoding.keys import Keyring
from hopline.pipeline.days import Day, Days
from hopline.pipeline.failures import BadCapturesError, BadFile, cause_of
from hopline.pipeline.segments import decoded, inspected
from hopline.pipeline.spark_work import exactly
from hopline.pipeline.tables.rejects import REJECTS

_DAY_IN_PATH = re.compile(rf"/{DAY}(\d{{4}}-\d\d-\d\d)/[^/]*$")


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of records that can be read."""

    path: str
    bytes: int
    records: Mapping[Day, int]  # by day

    def records_on(self, days: Days) -> int:
        """Return how many records it has on some days."""
        return sum(count for day, count in self.records.items() if day in days)


class Captures:
    """What a run reads, and what it leaves out, and why."""

    def __init__(
        self,
        spark: SparkSession,
        days: Days,
        segments: Sequence[Segment],
        bad: Sequence[BadFile],
        outside: int,
        rejects: DataFrame,
    ) -> None:
        self.segments = tuple(segments)
        self.bad = tuple(bad)
        self.outside = outside  # segments without records of the days
        self._spark = spark
        self._days = days
        self._inspected = rejects

    @property
    def bytes(self) -> int:
        """The size of the segments."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def days(self) -> tuple[Day, ...]:
        """The days that have records, of those that the run is about."""
        found = {day for segment in self.segments for day in segment.records if day in self._days}
        return tuple(sorted(found, key=str))

    @property
    def records_of_days(self) -> int:
        """How many records the days have, rejects included."""
        return sum(segment.records_on(self._days) for segment in self.segments)

    @cached_property
    def rejects_of_days(self) -> int:
        """How many records of the days are no valid messages."""
        rejects = self.rejects()
        return (rejects if self._days.is_all else rejects.where(sf.col("date").isin(list(self.days)))).count()

    def rejects(self) -> DataFrame:
        """Return the records that are no valid messages."""
        return self._inspected.where(sf.col("path").isNull()).select(*REJECTS.names)

    def messages(self, keyring: Keyring, *, with_bodies: bool = False) -> DataFrame:
        """Return the records that are messages, decoded."""
        files = _files_named(self._spark, [segment.path for segment in self.segments])
        span = (self._days.read_from, self._days.read_until)
        return decoded(files, keyring, span, with_bodies=with_bodies)

    def close(self) -> None:
        """Let go of what was found by inspecting."""
        with suppress(Exception):  # Spark may have been stopped
            self._inspected.unpersist()


def find_captures(spark: SparkSession, places: Sequence[str], days: Days, *, skip_bad_files: bool = False) -> Captures:
    """List the segments at some places that may have records of some days, and inspect each.

    Args:
        spark: The session; every path that it can read is a place.
        places: Files, folders (with the folders in them) or patterns.
        days: The days that the run is about.
        skip_bad_files: Leave out what cannot be read, as long as something is left.

    Raises:
        BadCapturesError: Some of the files cannot be read; it names all of them. Or nothing is left to read.
    """
    bad: list[BadFile] = []
    paths: dict[str, None] = {}  # in order, each once: places may overlap
    outside = 0
    for place in places:
        try:
            listed = _listed(spark, place)
        except (PySparkException, Py4JJavaError) as problem:
            bad.append(BadFile(place, _problem_of(problem)))
            continue
        if not listed:
            bad.append(BadFile(place, f"no segments in it, expected files *{SEGMENT}"))
        for path in listed:
            if _may_have_records(path, days):
                paths.setdefault(path)
            else:
                outside += 1
    captures = inspect_segments(spark, list(paths), days, bad=bad, outside=outside)
    if captures.bad and not (skip_bad_files and captures.segments):
        captures.close()
        raise BadCapturesError(captures.bad, others=len(captures.segments))
    if not captures.segments:
        captures.close()
        nothing = f"none of its {captures.outside} segments has records of {days}"
        raise BadCapturesError([BadFile(", ".join(places), nothing)])
    return captures


def inspect_segments(
    spark: SparkSession, paths: Sequence[str], days: Days, *, bad: Sequence[BadFile] = (), outside: int = 0
) -> Captures:
    """Inspect segments, and return those that can be read and those that cannot.

    Args:
        spark: The session.
        paths: The segments.
        days: The days that the run is about.
        bad: What is known already not to be readable.
        outside: How many segments are known already to have no records of the days.
    """
    unreadable = list(bad)
    inspection = _inspect(spark, paths, days)
    segments: list[Segment] = []
    files = inspection.where(sf.col("path").isNotNull())
    rows = files.select("path", "file_bytes", "problem", "records").collect()
    with_bytes = {plain_path(row.path) for row in rows}
    empty = [plain_path(path) for path in paths if plain_path(path) not in with_bytes]
    unreadable += [BadFile(path, "is empty: 0 bytes") for path in empty]
    for row in rows:
        if row.problem is not None:
            unreadable.append(BadFile(plain_path(row.path), row.problem))
        elif row.records or days.is_all:
            segments.append(Segment(row.path, row.file_bytes, {one["date"]: one["count"] for one in row.records}))
        else:
            outside += 1
    segments.sort(key=lambda one: one.path)
    unreadable.sort(key=str)
    return Captures(spark, days, segments, unreadable, outside, inspection)


def _listed(spark: SparkSession, place: str) -> list[str]:
    """List the segments at a place. A file that is named itself is taken whatever its name.

    Empty files are listed too, which Spark never hands out as rows.
    """
    found = [unquote(uri) for uri in _binary_files(spark, [place]).inputFiles()]
    if len(found) == 1 and found[0].rpartition("/")[2] == place.rstrip("/").rpartition("/")[2]:
        return found
    return sorted(path for path in found if is_segment_name(path.rpartition("/")[2]))


def _binary_files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(paths))


def _files_named(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return files by their names, in which `*` and the like stand for themselves."""
    return _binary_files(spark, [exactly(path) for path in paths])


def _inspect(spark: SparkSession, paths: Sequence[str], days: Days) -> DataFrame:
    files = _files_named(spark, paths) if paths else spark.createDataFrame([], "path string, content binary")
    return inspected(files, (days.read_from, days.read_until)).persist(StorageLevel.DISK_ONLY)


def _may_have_records(path: str, days: Days) -> bool:
    found = _DAY_IN_PATH.search(path)
    return found is None or days.may_lie_under(date.fromisoformat(found[1]))


def _problem_of(problem: PySparkException | Py4JJavaError) -> str:
    if isinstance(problem, PySparkException) and problem.getCondition() == "PATH_NOT_FOUND":
        return "no such file or folder, and no pattern that matches one"
    return cause_of(problem)


def plain_path(path: str) -> str:
    """Return a path as people write it: Spark puts a scheme before local ones as well."""
    return re.sub(r"^file:/+", "/", path)
