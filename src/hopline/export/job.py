"""The export as a job: tables in, files or requests out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from hopline.export import otlp, zipkin
from hopline.export.limits import cuts, long_journeys, with_cuts
from hopline.export.options import ExportOptions
from hopline.export.post import FEW_LINES_A_BATCH, Endpoint, Sent, post
from hopline.export.records import is_usable, records
from hopline.export.selection import select
from hopline.export.spans import spans
from hopline.message import ArgumentError, HoplineError
from hopline.pipeline.progress import Progress, Silent, StepResult, Steps
from hopline.pipeline.spark_work import exactly, tagged, translated, with_settings
from hopline.pipeline.starting import own_session, started
from hopline.pipeline.storage import PathTables

_PROBE_ATTEMPTS = 3
_EMPTY_REFUSED = "400 "  # to a request without spans; such a server exists, and takes those with some


class ExportError(HoplineError):
    """An export failed."""


class EndpointError(ExportError):
    """Spans did not get where they were sent."""

    def __init__(self, problem: str, sent: Sent) -> None:
        super().__init__(problem, sent)
        self.problem = problem
        self.sent = sent

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, slots=True)
class Written:
    """What was written into a folder."""

    folder: str
    traces: int
    spans: int
    lines: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was not exported, because some journeys have more records than one trace may have."""

    journeys: int
    records: int


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export did."""

    options: ExportOptions
    seconds: float
    dropped: Dropped | None = None
    otlp: Written | None = None
    zipkin: Written | None = None
    sent: Sent | None = None


def run_export(options: ExportOptions, progress: Progress | None = None) -> ExportReport:
    """Start Spark as the options say, and export.

    Raises:
        HoplineError: Whatever went wrong, in one line.
    """
    return _run(options, own_session(options), progress or Silent())


def export(options: ExportOptions, spark: SparkSession, progress: Progress | None = None) -> ExportReport:
    """Export in a session that is there, which is left running and as it was."""
    return _run(options, nullcontext(spark), progress or Silent())


def _run(options: ExportOptions, opening: AbstractContextManager[SparkSession], progress: Progress) -> ExportReport:
    clock = time.monotonic()
    steps = Steps(progress)
    targets = ("otlp", "zipkin", "endpoint")
    chosen = [target for target in targets if getattr(options, target) is not None]
    steps.planned(["Spark", "journeys", *chosen])
    with started(opening, steps) as spark, tagged(spark, f"hopline-{uuid.uuid4()}"), ExitStack() as kept:
        job = _Job(options, spark, steps)
        for name, folder in (("otlp", options.otlp), ("zipkin", options.zipkin)):
            if folder is not None:
                job.check_folder(name, folder)
        if options.endpoint is not None:
            job.check_endpoint(options.endpoint)
        made, dropped = job.spans(kept, is_kept=len(chosen) > 1)
        otlp_lines = otlp.lines(made)
        report = ExportReport(options, 0.0, dropped)
        if options.otlp is not None:
            report = replace(report, otlp=job.write("otlp", otlp_lines, options.otlp))
        if options.zipkin is not None:
            report = replace(report, zipkin=job.write("zipkin", zipkin.lines(made), options.zipkin))
        if options.endpoint is not None:
            report = replace(report, sent=job.send(otlp_lines, options.endpoint))
    return replace(report, seconds=time.monotonic() - clock)


class _Job:
    """One export in its session."""

    def __init__(self, options: ExportOptions, spark: SparkSession, steps: Steps) -> None:
        self._options = options
        self._spark = spark
        self._steps = steps
        self._tables = PathTables(spark, options.tables, options.format)

    def check_folder(self, name: str, folder: str) -> None:
        """Raise ArgumentError if a folder is there already: an export replaces nothing."""
        with translated(name):
            try:
                self._spark.read.text(exactly(folder)).schema  # noqa: B018 - looked for only now, behind Connect
            except AnalysisException as problem:
                if problem.getCondition() != "PATH_NOT_FOUND":
                    raise
            else:
                raise ArgumentError(name, "a folder that is not there yet (an export replaces nothing)", folder)

    def check_endpoint(self, endpoint: Endpoint) -> None:
        """Raise EndpointError unless the executors reach the endpoint, before all the work instead of after it."""
        nothing = self._spark.createDataFrame([(otlp.START + otlp.END, 0)], "value string, spans int")
        with translated("endpoint"):
            sent = post(nothing, replace(endpoint, attempts=min(endpoint.attempts, _PROBE_ATTEMPTS)))
        if sent.problem is not None and not sent.problem.startswith(_EMPTY_REFUSED):
            raise EndpointError(f"no receiver of OTLP/HTTP at {endpoint.url}: {sent.problem}: check --endpoint", sent)

    def spans(self, kept: ExitStack, *, is_kept: bool) -> tuple[DataFrame, Dropped | None]:
        """Return the spans of the chosen journeys, and what is missing; what is kept for them is let go at the end."""
        with self._step("journeys") as step:
            chosen = select(self._read("flows"), self._options.days, self._options.journey)
            selection = replace(chosen, flows=_kept(chosen.flows, kept))
            step.text = f"{selection.flows.count():,} flows"
            near = {name: selection.of(self._read(name)) for name in ("messages", "hops", "callbacks")}
            long = self._cuts(near["messages"], selection.flows, kept)
            dropped = None if long is None else _dropped(long)
        flows = with_cuts(selection.flows, long)
        chosen_records = _kept(records(near["messages"], flows), kept)
        journeys = self._read("journeys")
        made = spans(chosen_records, flows, journeys, near["hops"], near["callbacks"])
        return _kept(made, kept) if is_kept else made, dropped

    def _cuts(self, messages: DataFrame, flows: DataFrame, kept: ExitStack) -> DataFrame | None:
        limit = self._options.trace_limit
        if long_journeys(flows, limit).isEmpty():
            return None
        return _kept(cuts(messages.where(is_usable()), flows, limit), kept)

    def write(self, step_name: str, lines: DataFrame, folder: str) -> Written:
        """Write lines into a folder that is not there yet."""
        seen = Observation()
        observed = lines.observe(
            seen,
            sf.count("*").alias("lines"),
            sf.count_if(sf.col("part") == 0).alias("traces"),
            sf.coalesce(sf.sum("spans"), sf.lit(0)).alias("spans"),
        )
        with self._step(step_name) as step:
            observed.select("value").write.mode("error").text(folder)
            written = Written(folder, seen.get["traces"], seen.get["spans"], seen.get["lines"])
            step.text = f"{written.spans:,} spans of {written.traces:,} traces"
        return written

    def send(self, lines: DataFrame, endpoint: Endpoint) -> Sent:
        """Send lines, and raise EndpointError if some of their spans were not taken."""
        with self._step("endpoint") as step:
            with with_settings(self._spark, FEW_LINES_A_BATCH):
                sent = post(lines, endpoint)
            step.text = f"{sent.spans:,} spans in {sent.batches:,} requests, {sent.retries:,} retries"
        require_all_taken(sent, endpoint)
        return sent

    def _read(self, name: str) -> DataFrame:
        try:
            table = self._tables.read(name)
            table.schema  # noqa: B018 - a server behind Connect looks for it only now
        except AnalysisException as problem:
            if problem.getCondition() in ("PATH_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE"):
                place = self._options.tables
                raise ExportError(f"no table {name} in {place}: make it with hopline pipeline run") from None
            raise
        return table

    @contextmanager
    def _step(self, name: str) -> Iterator[StepResult]:
        with self._steps.step(name, self._spark) as step, translated(name):
            yield step


def require_all_taken(sent: Sent, endpoint: Endpoint) -> None:
    """Raise EndpointError, with all counts, if some spans were not taken."""
    not_taken = sent.failed + sent.rejected
    if not_taken:
        total = sent.spans + not_taken
        raise EndpointError(
            f"{not_taken:,} of {total:,} spans were not taken by {endpoint.url} ({sent.failed:,} failed, "
            f"{sent.rejected:,} rejected, {sent.retries:,} retries): {sent.problem}; sending them again is safe, "
            "their ids stay the same",
            sent,
        )


def _dropped(cuts: DataFrame) -> Dropped:
    row = cuts.agg(sf.count("*").alias("journeys"), sf.sum("dropped_records").alias("records")).collect()[0]
    return Dropped(row.journeys, row.records or 0)


def _kept(table: DataFrame, kept: ExitStack) -> DataFrame:
    persisted = table.persist(StorageLevel.DISK_ONLY)
    kept.callback(persisted.unpersist)
    return persisted
