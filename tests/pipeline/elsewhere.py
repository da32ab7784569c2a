"""A job run by a driver in a process of its own, on a cluster or through a server, with executors that have no Hopline.

``python elsewhere.py CAPTURES RESULT OPTIONS JOB…`` is that driver. A job is a function in `JOBS` that takes a session
and the path of captures; its result is compared as rows of JSON, in any order. The options are `spark_session`'s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession

from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.session import spark_session
from hopline.pipeline.shipping import ARCHIVE_NAME
from hopline.pipeline.tables.all import TABLES

SPARK = Path(pyspark.__file__).parent
# Started sooner, at the price of a long run's speed.
# The cheap compiler, with as much room for its code as the other would have: all that Spark generates must fit.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
DEADLINE_S = 600  # for machines that have much else to do
# What executors have: what Spark asks for, to speak Arrow and pandas.
INSTALLED_ON_EXECUTORS = ("pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")


def decoded(spark: SparkSession, captures: str) -> DataFrame:
    """Decode every frame list by `hopline.wire`, and tell where that was imported from."""

    def identities(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import hopline
        from hopline.wire import RemoteError, decode

        def identity(frames: list[bytes]) -> str:
            try:
                return repr(decode(frames).identity)
            except RemoteError as refused:
                return refused.reason.value

        for batch in batches:
            found = [identity(frames) for frames in batch.column("frames").to_pylist()]
            # Where the package has come by itself, it is the archive that the driver sent.
            sent = f"{ARCHIVE_NAME}/" in str(hopline.__file__)
            yield pa.RecordBatch.from_pydict({"identity": found, "sent": [sent] * len(found)})

    frames = spark.read.parquet(captures).select("frames").repartition(4)
    return frames.mapInArrow(identities, "identity string, sent boolean").groupBy("identity", "sent").count()


def through_the_source(spark: SparkSession, captures: str) -> DataFrame:
    return spark.read.format("hopline").load(captures).where("event = 'sent'").groupBy("node").count()


def all_tables(spark: SparkSession, captures: str) -> DataFrame:
    """Run the whole job, signatures and all, and give every row of every table."""
    folder = Path(captures).parent
    with TemporaryDirectory(dir=folder) as out:
        run(PipelineOptions(captures=(captures,), out=Path(out), keys=folder / "keys" / "hopline.toml"), spark)
        found = [
            (table, json.dumps(row, default=repr, sort_keys=True))
            for table in TABLES
            for row in pq.read_table(Path(out) / table).to_pylist()
        ]
    return spark.createDataFrame(found, "table string, row string")


JOBS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "decoded": decoded,
    "through_the_source": through_the_source,
    "all_tables": all_tables,
}


def generated_captures(directory: Path) -> Path:
    """Write captures of a little of everything, with the keys beside them."""
    generate(directory, Options(messages=2_000, seed=11))
    return directory / "captures"


def run_here(spark: SparkSession, jobs: Iterable[str], captures: Path) -> dict[str, list[str]]:
    """Run jobs in this session; the package was not sent here, which is the one difference that is allowed."""
    return {
        job: [row.replace('"sent": false', '"sent": true') for row in rows(JOBS[job](spark, str(captures)))]
        for job in jobs
    }


def rows(result: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in result.collect())


def free_port() -> int:
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def bare_python(directory: Path) -> Path:
    """Make a Python that has what executors have, and no Hopline."""
    installed = Path(pa.__file__).parent.parent
    packages = directory / "packages"
    packages.mkdir()
    for name in INSTALLED_ON_EXECUTORS:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    script = directory / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return script


def run_elsewhere(
    jobs: Iterable[str],
    captures: Path,
    directory: Path,
    environment: dict[str, str],
    *,
    command: Sequence[str] = (sys.executable, "-W", "error"),
    **options: Any,
) -> dict[str, list[str]]:
    """Run jobs in a driver of its own, and give the rows of each."""
    result = directory / "result.json"
    run = subprocess.run(
        [*command, __file__, str(captures), str(result), json.dumps(options), *jobs],
        env={**os.environ, **environment, "TMPDIR": str(directory)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found: dict[str, list[str]] = json.loads(result.read_text())
    return found


def main(captures: str, result: str, options: str, *jobs: str) -> None:
    with spark_session(**json.loads(options)) as spark:
        Path(result).write_text(json.dumps({job: rows(JOBS[job](spark, captures)) for job in jobs}))


if __name__ == "__main__":
    main(*sys.argv[1:])
