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
        job.check_targets()
        made, dropped = job.spans(kept, is_kept=len(chosen) > 1)
        otlp_lines = otlp.lines(made)
        report = ExportReport(options, 0.0, dropped)
        if options.otlp is not None:
            written = job.write("otlp", otlp_lines, options.otlp)
            report = replace(report, otlp=written)
        if options.zipkin is not None:
            zipkin_lines = zipkin.lines(made)
            written = job.write("zipkin", zipkin_lines, options.zipkin)
            report = replace(report, zipkin=written)
        if options.endpoint is not None:
            sent = job.send(otlp_lines, options.endpoint)
            report = replace(report, sent=sent)
    elapsed = time.monotonic() - clock
    return replace(report, seconds=elapsed)


class _Job:
    """One export in its session."""

    def __init__(self, options: ExportOptions, spark: SparkSession, steps: Steps) -> None:
        self._options = options
        self._spark = spark
        self._steps = steps
        self._tables = PathTables(spark, options.tables, options.format)

    def check_targets(self) -> None:
        """Raise ArgumentError or EndpointError unless everything can be written and sent."""
        if self._options.otlp is not None:
            self._check_folder("otlp", self._options.otlp)
        if self._options.zipkin is not None:
            self._check_folder("zipkin", self._options.zipkin)
        if self._options.endpoint is not None:
            self._check_endpoint(self._options.endpoint)

    def _check_folder(self, name: str, folder: str) -> None:
        """Raise ArgumentError if a folder is there already: an export replaces nothing."""
        with translated(name):
            try:
                self._spark.read.text(exactly(folder)).schema  # noqa: B018 - looked for only now, behind Connect
            except AnalysisException as problem:
                if problem.getCondition() != "PATH_NOT_FOUND":
                    raise
            else:
                expected = "a folder that is not there yet (an export replaces nothing)"
                raise ArgumentError(name, expected, folder)

    def _check_endpoint(self, endpoint: Endpoint) -> None:
        """Raise EndpointError unless the executors reach the endpoint, before all the work instead of after it."""
        empty_request = otlp.START + otlp.END
        lines = self._spark.createDataFrame([(empty_request, 0)], "value string, spans int")
        attempts = min(endpoint.attempts, _PROBE_ATTEMPTS)
        probed = replace(endpoint, attempts=attempts)
        with translated("endpoint"):
            sent = post(lines, probed)
        if sent.problem is None or sent.problem.startswith(_EMPTY_REFUSED):
            return
        raise EndpointError(f"no receiver of OTLP/HTTP at {endpoint.url}: {sent.problem}: check --endpoint", sent)

    def spans(self, kept: ExitStack, *, is_kept: bool) -> tuple[DataFrame, Dropped | None]:
        """Return the spans of the chosen journeys, and what is missing; what is kept for them is let go at the end."""
        with self._step("journeys") as step:
            all_flows = self._read("flows")
            selection = select(all_flows, self._options.days, self._options.journey)
            chosen_flows = _kept(selection.flows, kept)
            flow_count = chosen_flows.count()
            step.text = f"{flow_count:,} flows"
            messages = selection.of(self._read("messages"))
            hops = selection.of(self._read("hops"))
            callbacks = selection.of(self._read("callbacks"))
            long = self._cuts(messages, chosen_flows, kept)
            dropped = None if long is None else _dropped(long)
        flows = with_cuts(chosen_flows, long)
        chosen_records = _kept(records(messages, flows), kept)
        made = spans(
            records=chosen_records,
            flows=flows,
            journeys=self._read("journeys"),
            hops=hops,
            callbacks=callbacks,
        )
        if is_kept:
            made = _kept(made, kept)
        return made, dropped

    def _cuts(self, messages: DataFrame, flows: DataFrame, kept: ExitStack) -> DataFrame | None:
        limit = self._options.trace_limit
        if long_journeys(flows, limit).isEmpty():
            return None
        usable = messages.where(is_usable())
        return _kept(cuts(usable, flows, limit), kept)

    def write(self, step_name: str, lines: DataFrame, folder: str) -> Written:
        """Write lines into a folder that is not there yet."""
        observation = Observation()
        is_first_line = sf.col("part") == 0
        span_count = sf.coalesce(sf.sum("spans"), sf.lit(0))
        observed = lines.observe(
            observation,
            sf.count("*").alias("lines"),
            sf.count_if(is_first_line).alias("traces"),
            span_count.alias("spans"),
        )
        with self._step(step_name) as step:
            observed.select("value").write.mode("error").text(folder)
            counts = observation.get
            written = Written(
                folder,
                traces=counts["traces"],
                spans=counts["spans"],
                lines=counts["lines"],
            )
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
    totals = cuts.agg(
        sf.count("*").alias("journeys"),
        sf.sum("dropped_records").alias("records"),
    )
    row = totals.collect()[0]
    return Dropped(row.journeys, row.records or 0)


def _kept(table: DataFrame, kept: ExitStack) -> DataFrame:
    persisted = table.persist(StorageLevel.DISK_ONLY)
    kept.callback(persisted.unpersist)
    return persisted
