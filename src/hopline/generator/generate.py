"""`generate`: captures of any size, their keys, and the truth about them, in a directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hopline.generator.compiled_scenarios import CompiledFlow, CompiledScenarios
from hopline.generator.flow_batch import FlowBatch, GeneratorContext
from hopline.generator.keys import make_keys
from hopline.generator.node_logs import LogPart, NodeLogs
from hopline.generator.plan import (
    Options,
    batch_share,
    closing_time,
    flow_counts,
    scenarios_of,
    wall_time,
    wall_times,
)
from hopline.generator.randomness import Numbers, RandomStream
from hopline.generator.segments import SegmentWriter
from hopline.generator.topology import Topology, make_topology
from hopline.generator.truth import GroundTruth
from hopline.message import ArgumentError

BATCH_RECORDS = 400_000
"""Records that are made at a time. Memory is proportional to it."""
PARTS = ("captures", "keys", "truth")
_UNFINISHED = ".generating"
_WRITER_THREADS = 2
_CLOSING_INTERVAL_US = 1_000


def generate(
    out: Path,
    options: Options,
    *,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    batch_records: int = BATCH_RECORDS,
) -> dict[str, int]:
    """Write `out/captures`, `out/keys` and `out/truth`, all or nothing.

    Args:
        out: The directory, which must be empty or not exist.
        options: What to generate.
        force: Accept a directory that is not empty. The three parts are replaced, nothing else is touched.
        progress: Called with the number of records so far.
        batch_records: Records to make at a time. Other values give other records for the same seed.

    Returns:
        Counts by name, see `GroundTruth.close`.

    Raises:
        ArgumentError: `out` is not a directory, or not empty without `force`.
    """
    if out.exists() and not out.is_dir():
        raise ArgumentError("out", "a directory", str(out))
    if out.exists() and any(out.iterdir()) and not force:
        raise ArgumentError(
            "out", "an empty or new directory (--force replaces captures, keys and truth in it)", str(out)
        )
    with _unfinished_directory(out) as unfinished:
        totals = _Generation(unfinished, options, batch_records).run(progress)
        for part in PARTS:
            shutil.rmtree(out / part, ignore_errors=True)
            (unfinished / part).rename(out / part)
    return totals


@contextmanager
def _unfinished_directory(out: Path) -> Iterator[Path]:
    """Make a directory for the parts while they are incomplete, and remove all traces of it in the end."""
    is_new = not out.exists()
    unfinished = out / _UNFINISHED
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new and out.exists() and not any(out.iterdir()):
            out.rmdir()


class _Generation:
    """One run of the generator."""

    def __init__(self, directory: Path, options: Options, batch_records: int) -> None:
        self._directory = directory
        self._options = options
        self._topology = make_topology(options.nodes, options.skewed, options.seed)
        self._compiled = CompiledScenarios(scenarios_of(options), options.formats, options.level)
        self._context = GeneratorContext(
            topology=self._topology,
            seed=options.seed,
            keys=make_keys(directory / "keys", options.seed),
            key_change=wall_time(options.active_us // 2),
            items=options.huge_messages,
        )
        self._periods = max(1, -(-options.messages // batch_records))
        self._flow_counts = flow_counts(options, self._compiled)
        self._next_flow = 0

    def run(self, progress: Callable[[int], None]) -> dict[str, int]:
        """Write everything, and return the totals."""
        truth = GroundTruth(
            self._directory / "truth",
            self._compiled,
            self._topology,
            self._options.seed,
            self._options.start_us,
        )
        with _SegmentWriters(self._directory / "captures", self._topology) as writers:
            for parts in self._log_parts(truth):
                writers.write(parts)
                progress(truth.records)
        totals = truth.close()
        _write_summary(self._directory / "truth" / "summary.json", self._options, totals)
        return totals

    def _log_parts(self, truth: GroundTruth) -> Iterator[list[LogPart]]:
        """Yield the nodes' logs period by period."""
        logs = NodeLogs(self._compiled, self._topology, self._options.start_us)
        for period in range(self._periods):
            batches = list(self._flow_batches(period))
            is_last = period == self._periods - 1
            until = None if is_last else wall_time(self._period_start(period + 1))
            parts = list(logs.add(batches, until))
            truth.add(batches, parts)
            yield parts

    def _flow_batches(self, period: int) -> Iterator[FlowBatch]:
        for index, compiled in enumerate(self._compiled.flows):
            count = self._count_in(period, index)
            if not count:
                continue
            stream = RandomStream(self._options.seed, 2, period, index)
            flows = np.arange(self._next_flow, self._next_flow + count)
            self._next_flow += count * compiled.flow_count
            starts = self._start_times(compiled, period, count, stream)
            # A huge flow is alone in its batch, because its repeated steps have a row per item.
            size = 1 if compiled.template.repeated else count
            for first in range(0, count, size):
                some = slice(first, first + size)
                batch = FlowBatch(self._context, compiled, flows[some], starts[some], stream)
                yield from batch.with_nested()

    def _count_in(self, period: int, index: int) -> int:
        total = self._flow_counts[index]
        if self._compiled.flows[index].scenario.before_end_us is None:
            return batch_share(total, period, self._periods, index)
        return total if period == self._periods - 1 else 0

    def _start_times(
        self,
        compiled: CompiledFlow,
        period: int,
        count: int,
        stream: RandomStream,
    ) -> Numbers:
        begin, end = self._period_start(period), self._period_start(period + 1)
        random_times = begin + stream.below(end - begin, count)
        before_end_us = compiled.scenario.before_end_us
        if before_end_us is None:
            return wall_times(random_times)
        first = closing_time(self._options) - before_end_us
        return first + _CLOSING_INTERVAL_US * np.arange(count)

    def _period_start(self, period: int) -> int:
        return self._options.active_us * period // self._periods


class _SegmentWriters:
    """Writes the segments of all nodes in threads, one period while the next one is made."""

    def __init__(self, directory: Path, topology: Topology) -> None:
        names = topology.names()[: topology.captured]
        self._writers = [SegmentWriter(directory, name) for name in names]
        self._pool = ThreadPoolExecutor(_WRITER_THREADS)
        self._futures: list[Future[None]] = []

    def __enter__(self) -> _SegmentWriters:
        return self

    def write(self, parts: list[LogPart]) -> None:
        """Start writing, once what was given before is written."""
        self._wait()
        self._futures = [self._pool.submit(self._writers[part.node].write, part) for part in parts]

    def _wait(self) -> None:
        for future in self._futures:
            future.result()

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        try:
            if error_type is None:
                self._wait()
        finally:
            self._pool.shutdown(cancel_futures=True)  # a file must not be closed while a thread writes to it
            for writer in self._writers:
                writer.close()


def _write_summary(path: Path, options: Options, totals: dict[str, int]) -> None:
    summary = {
        "seed": options.seed,
        "options": {
            "messages": options.messages,
            "nodes": options.nodes,
            "level": str(options.level),
            "formats": [str(wire_format) for wire_format in options.formats],
            "rates": dict(options.rates),
            "skewed": options.skewed,
            "start": options.start.isoformat(),
            "active_us": options.active_us,
            "huge_messages": options.huge_messages,
        },
        "counts": dict(sorted(totals.items())),
    }
    text = json.dumps(summary, indent=2) + "\n"
    path.write_text(text, encoding="utf-8")
