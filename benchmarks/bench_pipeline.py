"""How long the pipeline takes, beside a plain scan of the same files and other ways to decode: ``make bench-pipeline``.

Generates captures, scans them, decodes them, makes every table, compares the tables with the planted truth, and looks
one flow up in them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.pipeline.extremes import no_flow, one_flow
from benchmarks.pipeline.lookup import Lookup, look_up
from benchmarks.pipeline.memory import PeakMemory
from benchmarks.pipeline.peers import duckdb_scan_and_decode, pickled_udf, rows_in_arrow
from hopline.datasource.records import RECORDS
from hopline.decoding.keys import Keyring
from hopline.generator import Options, generate
from hopline.generator.evaluation import Score, evaluate
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.captures import Captures, find_captures
from hopline.pipeline.days import Days
from hopline.pipeline.session import spark_session
from hopline.pipeline.spark_work import ONE_FILE_A_BATCH, with_settings

SIZES = (1_000_000, 10_000_000)
EXTREME_MESSAGES = 1_000_000
ROUNDS = 3
CORES = 2
MEMORY = "2g"
GOALS = {"decode": 3.3, "growth": 11.0, "memory GiB": 4.0}
MOST_SCANS = {1_000_000: 30.0, 10_000_000: 24.0}


@dataclass
class Run:
    """What one size took, in seconds by name; the scan is what the others are compared with."""

    messages: int
    generated: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peak: PeakMemory = field(default_factory=PeakMemory)
    scores: list[Score] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)

    def took(self, name: str) -> float:
        """Give the median."""
        return statistics.median(self.seconds[name])


def timed(call: Callable[[], object]) -> float:
    """Tell how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def noop(frame: DataFrame) -> None:
    """Compute every column of every row, and write nothing."""
    frame.write.format("noop").mode("overwrite").save()


def decode_only(spark: SparkSession, captures: Captures) -> None:
    """Read and decode every column of every record as the job does, without writing it."""
    with with_settings(spark, ONE_FILE_A_BATCH):
        noop(captures.messages(Keyring()))


def measure(messages: int, rounds: int, home: Path, *, peers: bool) -> Run:
    """Do everything for one size."""
    result = Run(messages)
    made = home / f"generated-{messages}"
    result.generated = timed(lambda: generate(made, Options(messages=messages, seed=7)))
    say(f"{messages:,} records generated in {result.generated:.1f} s, {messages / result.generated:,.0f} a second")
    with result.peak, spark_session(f"local[{CORES}]", memory=MEMORY) as spark:
        captures = made / "captures"
        with with_settings(spark, ONE_FILE_A_BATCH):
            found = find_captures(spark, [str(captures)], Days())

        def read() -> DataFrame:
            return spark.read.schema(RECORDS).parquet(str(captures))

        ways: dict[str, Callable[[], object]] = {
            "scan": lambda: noop(read()),
            "decode": lambda: decode_only(spark, found),
        }
        others: dict[str, Callable[[], object]] = {}
        if peers:
            others = {
                "decode, mapInArrow": lambda: noop(rows_in_arrow(read())),
                "decode, Python UDF": lambda: noop(pickled_udf(read())),
                "scan and decode, DuckDB": lambda: duckdb_scan_and_decode(captures, CORES, MEMORY),
            }
        noop(read().limit(10_000))  # the first query pays for Spark's own start
        for nth in range(rounds):
            for name, way in (ways if nth else ways | others).items():  # which are slow, and once is enough
                seconds = timed(way)
                result.seconds.setdefault(name, []).append(seconds)
                say(f"  {name}: {seconds:.1f} s")
        found.close()
        _make_tables(spark, result, made, home)
    return result


def _make_tables(spark: SparkSession, result: Run, made: Path, home: Path) -> None:
    out = home / f"tables-{result.messages}"
    keys = made / "keys" / "hopline.toml"
    report = run(PipelineOptions(captures=(str(made / "captures"),), out=out, keys=keys), spark)
    # To inspect the captures is to decode them once: it belongs to the price of the tables.
    steps = {name: took for name, took in report.seconds_of.items() if name != "Spark"}
    for name, seconds in steps.items():
        result.seconds[f"step: {name}"] = [seconds]
    result.seconds["all tables"] = [sum(steps.values())]
    result.scores = list(evaluate(made / "truth", out))
    result.lookups = look_up(spark, out)


@dataclass
class Extreme:
    """What a capture took that kills jobs which hold a flow, or what has none, in one piece."""

    what: str
    records: int = 0
    seconds: float = 0.0
    peak: PeakMemory = field(default_factory=PeakMemory)


def measure_extremes(messages: int, home: Path) -> list[Extreme]:
    """Make all tables of one flow of so many messages, and of as many messages without any; each was seen twice."""
    found = []
    for what, write in (("one flow", one_flow), ("no flow", no_flow)):
        captures, out = home / what / "captures", home / what / "tables"
        write(captures, 2 * messages)
        extreme = Extreme(what)
        with extreme.peak, spark_session(f"local[{CORES}]", memory=MEMORY) as spark:
            report = run(PipelineOptions(captures=(str(captures),), out=out), spark)
        extreme.records, extreme.seconds = report.records, report.seconds
        say(f"{what}: {report.records:,} records in {report.seconds:.1f} s")
        found.append(extreme)
    return found


def say(text: str) -> None:
    """Tell how it goes, beside the results."""
    print(text, file=sys.stderr, flush=True)


def show(runs: Sequence[Run], extremes: Sequence[Extreme]) -> None:
    """Print the results as the tables of RESULTS.md."""
    for one in runs:
        scan = one.took("scan")
        print(f"\n### {one.messages:,} records\n")
        print(f"Generated in {one.generated:.1f} s ({one.messages / one.generated:,.0f} a second).\n")
        print("| what | s | x scan |\n|---|---|---|")
        for name, values in one.seconds.items():
            spread = f" ({min(values) / scan:.2f}-{max(values) / scan:.2f})" if len(values) > 1 else ""
            print(f"| {name} | {one.took(name):.1f} | {one.took(name) / scan:.2f}{spread} |")
        peak = one.peak
        gib = 1 << 30
        print(f"\nPeak memory: JVM {peak.jvm / gib:.2f} GiB, Python workers {peak.python / gib:.2f} GiB.")
        perfect = [score for score in one.scores if score.is_perfect]
        print(f"Planted faults and figures: {len(perfect)} of {len(one.scores)} kinds with precision and recall 1.0.")
        for score in one.scores:
            if not score.is_perfect:
                print(f"* {score.what}: precision {score.precision:.6f}, recall {score.recall:.6f}", score.missed[:2])
        show_lookups(one.lookups)
    if extremes:
        print("\n### Extremes\n\n| capture | records | all tables s | JVM GiB | Python workers GiB | together GiB |")
        print("|---|---|---|---|---|---|")
    for extreme in extremes:
        sizes = (extreme.peak.jvm, extreme.peak.python, extreme.peak.together)
        memory = " | ".join(f"{size / (1 << 30):.2f}" for size in sizes)
        print(f"| {extreme.what} | {extreme.records:,} | {extreme.seconds:.1f} | {memory} |")
    print("\n### Goals\n")
    for one in runs:
        scan = one.took("scan")
        judge_goal(f"{one.messages:,} records: decode, x scan", one.took("decode") / scan, GOALS["decode"])
        if one.messages in MOST_SCANS:
            scans = one.took("all tables") / scan
            judge_goal(f"{one.messages:,} records: all tables, x scan", scans, MOST_SCANS[one.messages])
        judge_goal(f"{one.messages:,} records: memory, GiB", one.peak.together / (1 << 30), GOALS["memory GiB"])
    for extreme in extremes:
        judge_goal(f"{extreme.what}: memory, GiB", extreme.peak.together / (1 << 30), GOALS["memory GiB"])
    for small, large in pairwise(runs):
        growth = large.took("all tables") / small.took("all tables")
        judge_goal(f"growth from {small.messages:,} to {large.messages:,}", growth, GOALS["growth"])


def show_lookups(lookups: Sequence[Lookup]) -> None:
    """Print what it took to find one flow among all."""
    print("\nOne flow among all:\n\n| table | by | rows found | s | s, reading everything | read | of |")
    print("|---|---|---|---|---|---|---|")
    for one in lookups:
        took = f"{one.seconds:.2f} | {one.seconds_reading_all:.2f}"
        print(f"| {one.table} | {one.engine} | {one.rows:,} | {took} | {one.read:,} {one.unit} | {one.total:,} |")


def judge_goal(what: str, value: float, most: float) -> None:
    """Print whether a goal is met."""
    print(f"* {'met' if value <= most else 'NOT met'}: {what}: {value:.2f}, at most {most:g}")


def main() -> None:
    """Measure all sizes, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, action="append", help="records; once for each size")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each way is timed; the median counts")
    parser.add_argument("--home", type=Path, help="where to keep captures and tables; default: nowhere")
    parser.add_argument("--no-peers", action="store_true", help="leave the other ways to decode out")
    parser.add_argument("--no-extremes", action="store_true", help="leave out one flow that never ends, and no flows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hopline-bench-") as scratch:
        home = options.home or Path(scratch)
        sizes = sorted(options.messages or SIZES)
        runs = [measure(size, options.rounds, home, peers=not options.no_peers and size == sizes[0]) for size in sizes]
        extremes = [] if options.no_extremes else measure_extremes(min(EXTREME_MESSAGES, sizes[0]), home)
    show(runs, extremes)


if __name__ == "__main__":
    main()
