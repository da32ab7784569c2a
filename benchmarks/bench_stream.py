"""How fast the stream is, beside the batch decode and the batch job over the same records: ``make bench-stream``.

Two measures, in one run on `local[2]`:

* *Rate*: segments are there already, and the stream takes so many of them a batch until it has caught up. Its rate is
  that of all batches but the first, in which Java warms up, with every table that it makes. The decode computes every
  column of every message and keeps nothing; the batch job makes the same tables at once.
* *Lag*: nodes close a segment each every few seconds while the stream follows them. A record is in the tables when the
  batch that has it is published; its lag counts from the time at which its node recorded it, so that the time until the
  segment is closed is part of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.bench_pipeline import CORES, MEMORY, decode_only, timed
from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.captures import find_captures
from hopline.pipeline.days import Days
from hopline.pipeline.session import spark_session
from hopline.pipeline.spark_work import ONE_FILE_A_BATCH, with_settings
from hopline.pipeline.stream.options import DEFAULT_TRIGGER_S, StreamOptions
from hopline.pipeline.stream.running import BatchReport, Unheard, run_stream

MESSAGES = 1_000_000
RECORDS_IN_SEGMENT = 25_000
SEGMENTS_IN_BATCH = 4
ROUNDS = 3
LIVE_SECONDS = 120.0
LIVE_RATE = 2_000.0
SEGMENT_SECONDS = 5.0
GOALS = {"rate, share of the batch decode": 0.5, "p95 of the lag, triggers": 2.0}
_SECOND_US = 1_000_000
_SEGMENT = "{node:02}-{number:05}.parquet"


@dataclass
class CatchUp:
    """What it took to read segments that were there."""

    records: int = 0
    decode: list[float] = field(default_factory=list)  # seconds
    batch: float = 0.0
    batches: list[BatchReport] = field(default_factory=list)

    @property
    def decode_rate(self) -> float:
        """Records a second of the batch decode."""
        return self.records / statistics.median(self.decode)

    @property
    def batch_rate(self) -> float:
        """Records a second of the batch job."""
        return self.records / self.batch

    @property
    def stream_rate(self) -> float:
        """Records a second of the stream, once Java is warm."""
        first, *others = self.batches
        if not others:
            return self.records / first.seconds
        records = others[-1].state.totals.records - first.state.totals.records
        return records / sum(report.seconds for report in others)


@dataclass
class Live:
    """What it took to follow segments as they came. Lags are in seconds."""

    records: int = 0
    trigger: float = 0.0
    batches: list[float] = field(default_factory=list)
    lags: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = field(default_factory=dict)


class Ended(Unheard):
    """Keeps the reports of batches with segments."""

    def __init__(self) -> None:
        self.reports: list[BatchReport] = []

    def batch_ended(self, report: BatchReport) -> None:
        """Keep a report."""
        if report.segments:
            self.reports.append(report)
            say(f"  batch {report.number}: {report.segments} segments in {report.seconds:.1f} s")


class Seen(Ended):
    """Notes how old the rows of some tables are when a batch has published them.

    Args:
        tables: Where the tables are.
        times: The column with the time that the lag counts from, by table.
    """

    def __init__(self, tables: Path, times: dict[str, str]) -> None:
        super().__init__()
        self._tables = tables
        self._times = times
        self.lags: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {name: [] for name in times}

    def batch_ended(self, report: BatchReport) -> None:
        """Read the times of the rows that a batch has added."""
        now = time.time()
        super().batch_ended(report)
        for table, column in self._times.items():
            for path in self._tables.glob(f"{table}/date=*/stream-{report.number:09}/*.parquet"):
                us = _times(pq.read_table(path, columns=[column])[column])
                self.lags[table].append(now - us / _SECOND_US)


def measure_catch_up(home: Path, messages: int, rounds: int, segments_in_batch: int) -> CatchUp:
    """Decode the same segments, make all tables of them by the batch job, and by the stream."""
    result = CatchUp()
    made = home / "generated"
    generate(made, Options(messages=messages, seed=7))
    captures = home / "captures"
    captures.mkdir()
    for node, table in enumerate(nodes(made)):
        result.records += len(table)
        for number, start in enumerate(range(0, len(table), RECORDS_IN_SEGMENT)):
            path = captures / _SEGMENT.format(node=node, number=number)
            pq.write_table(table.slice(start, RECORDS_IN_SEGMENT), path, compression="zstd")
            # The stream lists by time of change: the first segments of all nodes come before the second ones.
            _set_age(path, 1_000 - number)
    keys = made / "keys" / "hopline.toml"
    say(f"{result.records:,} records in {len(list(captures.iterdir()))} segments")
    with spark_session(f"local[{CORES}]", memory=MEMORY) as spark:
        result.decode = _decode(spark, captures, rounds)
        batch = PipelineOptions(captures=(str(captures),), out=home / "batch", keys=keys)
        result.batch = timed(lambda: run(batch, spark))
        say(f"  batch job: {result.batch:.1f} s")
    ended = Ended()
    run_stream(
        StreamOptions(
            captures=(str(captures),),
            out=home / "stream",
            keys=keys,
            max_files=segments_in_batch,
            available_now=True,
            master=f"local[{CORES}]",
            memory=MEMORY,
        ),
        ended,
    )
    result.batches = ended.reports
    return result


def _decode(spark: SparkSession, captures: Path, rounds: int) -> list[float]:
    with with_settings(spark, ONE_FILE_A_BATCH):
        found = find_captures(spark, [str(captures)], Days())
    seconds = []
    for _ in range(rounds):
        seconds.append(timed(lambda: decode_only(spark, found)))
        say(f"  decode: {seconds[-1]:.1f} s")
    found.close()
    return seconds


def measure_lag(home: Path, seconds: float, rate: float, trigger: float) -> Live:
    """Let segments appear as nodes close them, and follow them."""
    made, captures, tables = home / "generated-live", home / "captures-live", home / "live"
    captures.mkdir()
    generate(made, Options(messages=max(round(seconds * rate), 1_000), seed=7))
    recorded = list(nodes(made))
    seen = Seen(tables, {"messages": "ts", "flows": "end_ts"})
    stop = threading.Event()
    options = StreamOptions(
        captures=(str(captures),),
        out=tables,
        keys=made / "keys" / "hopline.toml",
        trigger_s=trigger,
        master=f"local[{CORES}]",
        memory=MEMORY,
    )
    following = threading.Thread(target=run_stream, args=(options, seen), kwargs={"stop": stop})
    following.start()
    _write_live(recorded, captures, seconds)
    deadline = time.monotonic() + 2 * trigger + 60
    records = sum(len(table) for table in recorded)
    while following.is_alive() and time.monotonic() < deadline and _read(seen) < records:
        time.sleep(0.5)
    stop.set()
    following.join()
    lags = {table: np.concatenate(parts) if parts else np.array([np.nan]) for table, parts in seen.lags.items()}
    return Live(_read(seen), trigger, [report.seconds for report in seen.reports], lags)


def _read(seen: Seen) -> int:
    return seen.reports[-1].state.totals.records if seen.reports else 0


def _write_live(recorded: Sequence[pa.Table], captures: Path, seconds: float) -> None:
    """Write the records of each node with the times of now, a segment every few seconds, as the nodes would."""
    first_us = min(int(_times(table["ts"])[0]) for table in recorded)
    span_us = max(int(_times(table["ts"])[-1]) for table in recorded) - first_us
    began = time.time()
    segments = round(seconds / SEGMENT_SECONDS)
    for number in range(segments):
        end = began + (number + 1) * SEGMENT_SECONDS
        time.sleep(max(0.0, end - time.time()))
        for node, table in enumerate(recorded):
            us = began * _SECOND_US + (_times(table["ts"]) - first_us) * (seconds * _SECOND_US / span_us)
            start, stop = np.searchsorted(us, [(end - SEGMENT_SECONDS) * _SECOND_US, end * _SECOND_US])
            if number == segments - 1:
                stop = len(table)
            index = table.schema.get_field_index("ts")
            times = pa.array(us[start:stop].astype(np.int64)).cast(table.schema.field("ts").type)
            part = table.slice(start, stop - start).set_column(index, table.schema.field("ts"), times)
            path = captures / _SEGMENT.format(node=node, number=number)
            aside = captures / f".{path.name}"
            pq.write_table(part, aside, compression="zstd")
            aside.rename(path)


def nodes(made: Path) -> Iterator[pa.Table]:
    """Yield the records of each node of generated captures, in order."""
    files: dict[str, list[Path]] = {}
    for path in sorted((made / "captures").rglob("*.parquet")):
        node = str(pq.read_table(path, columns=["node"])["node"][0])
        files.setdefault(node, []).append(path)
    for paths in files.values():
        yield pa.concat_tables([pq.read_table(path) for path in paths]).sort_by("seq")


def _times(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.cast(column, pa.int64()).to_numpy()
    return times


def _set_age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def say(text: str) -> None:
    """Tell how it goes, beside the results."""
    print(text, file=sys.stderr, flush=True)


def show_catch_up(result: CatchUp) -> None:
    """Print the rates as a table of RESULTS.md."""
    rates = {
        "batch decode": result.decode_rate,
        "batch job, all tables": result.batch_rate,
        "stream, all tables": result.stream_rate,
    }
    print(f"\n{result.records:,} records; the stream took {len(result.batches)} batches.\n")
    print("| what | records/s | x batch decode |\n|---|---|---|")
    for what, rate in rates.items():
        print(f"| {what} | {rate:,.0f} | {rate / result.decode_rate:.2f} |")


def show_lag(live: Live, rate: float) -> None:
    """Print the lags as a table of RESULTS.md."""
    print(f"\n{rate:,.0f} records/s, a segment every {SEGMENT_SECONDS:g} s, a trigger of {live.trigger:g} s;", end=" ")
    print(f"batches took {statistics.median(live.batches):.1f} s, at most {max(live.batches):.1f} s.\n")
    print("| from | rows | p50 s | p95 s |\n|---|---|---|---|")
    names = {"messages": "capture to `messages`", "flows": "end of a flow to `flows`"}
    for table, lags in live.lags.items():
        p50, p95 = np.quantile(lags, [0.5, 0.95])
        print(f"| {names[table]} | {len(lags):,} | {p50:.1f} | {p95:.1f} |")


def judge_goals(result: CatchUp | None, live: Live | None) -> None:
    """Print whether the goals are met."""
    print("\n| goal | measured | |\n|---|---|---|")
    if result is not None:
        goal = GOALS["rate, share of the batch decode"]
        share = result.stream_rate / result.decode_rate
        print(f"| at least {goal:g} of the batch decode's rate | {share:.2f} | {_verdict(share >= goal)} |")
        share = result.stream_rate / result.batch_rate
        print(f"| at least {goal:g} of the batch job's rate, all tables | {share:.2f} | {_verdict(share >= goal)} |")
    if live is not None:
        goal = GOALS["p95 of the lag, triggers"]
        triggers = float(np.quantile(live.lags["messages"], 0.95)) / live.trigger
        print(f"| p95 of the lag within {goal:g} triggers | {triggers:.2f} | {_verdict(triggers <= goal)} |")


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "**not met**"


def main() -> None:
    """Measure rate and lag."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="records to catch up with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often the decode is timed; the median counts")
    parser.add_argument("--segments", type=int, default=SEGMENTS_IN_BATCH, help="segments in a batch")
    parser.add_argument("--seconds", type=float, default=LIVE_SECONDS, help="how long nodes record while it follows")
    parser.add_argument("--rate", type=float, default=LIVE_RATE, help="records a second meanwhile")
    parser.add_argument("--trigger", type=float, default=DEFAULT_TRIGGER_S, help="seconds between two batches")
    parser.add_argument("--only", choices=("rate", "lag"), help="leave the other measure out")
    parser.add_argument("--home", type=Path, help="where to keep captures and tables; default: nowhere")
    options = parser.parse_args()
    result = live = None
    with tempfile.TemporaryDirectory(prefix="hopline-bench-") as scratch:
        home = options.home or Path(scratch)
        if options.only != "lag":
            result = measure_catch_up(home, options.messages, options.rounds, options.segments)
        if options.only != "rate":
            live = measure_lag(home, options.seconds, options.rate, options.trigger)
    if result is not None:
        show_catch_up(result)
    if live is not None:
        show_lag(live, options.rate)
    judge_goals(result, live)


if __name__ == "__main__":
    main()
