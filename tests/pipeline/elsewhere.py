"""A job run by a driver in a process of its own, on a cluster or through a server, with executors that have no Hopline.

``python elsewhere.py FOLDER URI RESULT OPTIONS JOB…`` is that driver. A job is a function in `JOBS` that takes a
session and a `Lake`: captures and keys in a folder of the driver's machine, and the same folder as storage. Its result
is compared as rows of JSON, in any order. The options are `spark_session`'s.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from threading import Thread
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hopline.export import ExportOptions, export
from hopline.export.options import endpoint_of
from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run, segments
from hopline.pipeline import captures as pipeline_captures
from hopline.pipeline.session import spark_session
from hopline.pipeline.shipping import ARCHIVE_NAME
from hopline.pipeline.tables.all import TABLES

SPARK = Path(pyspark.__file__).parent
DEADLINE_S = 900  # for machines that have much else to do
# What executors have: what Spark asks for, to speak Arrow and pandas.
INSTALLED_ON_EXECUTORS = ("pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")


@dataclass(frozen=True, slots=True)
class Lake:
    """Generated captures and keys."""

    folder: Path  # as the driver sees it
    uri: str  # as storage, which executors see too


def decoded(spark: SparkSession, lake: Lake) -> DataFrame:
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

    frames = spark.read.parquet(f"{lake.uri}/captures").select("frames").repartition(4)
    return frames.mapInArrow(identities, "identity string, sent boolean").groupBy("identity", "sent").count()


def through_the_source(spark: SparkSession, lake: Lake) -> DataFrame:
    captures = str(lake.folder / "captures")
    return spark.read.format("hopline").load(captures).where("event = 'sent'").groupBy("node").count()


def all_tables_and_traces(spark: SparkSession, lake: Lake) -> DataFrame:
    """Run the whole job, signatures and all, and export; return all rows, all lines, and the number of spans posted."""
    out = f"{lake.uri}/tables-{uuid.uuid4()}"
    tables = _tables(spark, lake, tuple(TABLES), out)
    traces = f"{out}-traces"
    with receiver() as (url, received):
        export(ExportOptions(tables=out, otlp=traces, endpoint=endpoint_of(url)), spark)
    lines = spark.read.text(traces).select(sf.lit("traces").alias("table"), sf.col("value").alias("row"))
    posted = spark.createDataFrame([("posted", str(sum(received)))], tables.schema)
    return tables.union(lines).union(posted)


@contextmanager
def receiver() -> Iterator[tuple[str, list[int]]]:
    """Take spans by OTLP/HTTP, and count those of each request."""
    received: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))))
            scopes = [scope for resource in request["resourceSpans"] for scope in resource["scopeSpans"]]
            received.append(sum(len(scope["spans"]) for scope in scopes))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", received
        finally:
            server.shutdown()
            thread.join()


def tables_of_a_decoder_that_fails_at_first(spark: SparkSession, lake: Lake) -> DataFrame:
    """Run the job such that the first attempt at every share of the decoding fails midway."""

    def fail_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")

    def decoded_at_last(*arguments: Any, **options: Any) -> DataFrame:
        messages = segments.decoded(*arguments, **options)
        return messages.mapInArrow(fail_at_first, messages.schema)

    with patch.object(pipeline_captures, "decoded", decoded_at_last):
        return _tables(spark, lake, RECORD_TABLES)


def flow_tables(spark: SparkSession, lake: Lake) -> DataFrame:
    """Return tables that every kind of step takes part in: decoding, signatures, shuffles, and walks through flows."""
    return _tables(spark, lake, FLOW_TABLES)


def record_tables(spark: SparkSession, lake: Lake) -> DataFrame:
    """Return the same tables, undisturbed."""
    return _tables(spark, lake, RECORD_TABLES)


def _tables(spark: SparkSession, lake: Lake, names: tuple[str, ...], out: str | None = None) -> DataFrame:
    out = out or f"{lake.uri}/tables-{uuid.uuid4()}"
    keys = lake.folder / "keys" / "hopline.toml"
    run(PipelineOptions(captures=(f"{lake.uri}/captures",), out=out, keys=keys, tables=names), spark)
    found = [
        (name, json.dumps(row, default=repr, sort_keys=True))
        for name in names
        for row in spark.read.parquet(f"{out}/{name}").toArrow().to_pylist()
    ]
    return spark.createDataFrame(found, "table string, row string")


FLOW_TABLES = ("messages", "rejects", "flows", "incidents")
RECORD_TABLES = ("messages", "rejects", "audit")
JOBS: dict[str, Callable[[SparkSession, Lake], DataFrame]] = {
    job.__name__: job
    for job in (
        decoded,
        through_the_source,
        all_tables_and_traces,
        flow_tables,
        record_tables,
        tables_of_a_decoder_that_fails_at_first,
    )
}


def generated_lake(directory: Path) -> Path:
    """Write captures of a little of everything, with the keys beside them."""
    generate(directory, Options(messages=2_000, seed=11))
    return directory


def run_here(spark: SparkSession, jobs: Iterable[str], folder: Path) -> dict[str, list[str]]:
    """Run jobs in this session; the package was not sent here, which is the one difference that is allowed."""
    lake = Lake(folder, str(folder))
    return {job: [row.replace('"sent": false', '"sent": true') for row in rows(JOBS[job](spark, lake))] for job in jobs}


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
    lake: Lake,
    directory: Path,
    environment: dict[str, str],
    *,
    command: Sequence[str] = (sys.executable, "-W", "error"),
    **options: Any,
) -> dict[str, list[str]]:
    """Run jobs in a driver of its own, and give the rows of each."""
    result = directory / "result.json"
    run = subprocess.run(
        [*command, __file__, str(lake.folder), lake.uri, str(result), json.dumps(options), *jobs],
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


def main(folder: str, uri: str, result: str, options: str, *jobs: str) -> None:
    lake = Lake(Path(folder), uri)
    with spark_session(**json.loads(options)) as spark:
        Path(result).write_text(json.dumps({job: rows(JOBS[job](spark, lake)) for job in jobs}))


if __name__ == "__main__":
    main(*sys.argv[1:])
