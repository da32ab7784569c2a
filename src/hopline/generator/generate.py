"""`generate`: captures of any size, their keys, and the truth about them, in a directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hopline.generator import plan
from hopline.generator.draws import Draws
from hopline.generator.keys import make_keys
from hopline.generator.performance import Performance, Setting
from hopline.generator.plan import Options
from hopline.generator.segments import Segments
from hopline.generator.stage import Stage
from hopline.generator.tape import Tapes, Written
from hopline.generator.topology import make_topology
from hopline.generator.truth import Truth
from hopline.message import LocalError

BATCH_RECORDS = 400_000
"""Records that are made at once: what is in memory is some multiple of it."""
PARTS = ("captures", "keys", "truth")
_UNFINISHED = ".generating"
_WRITERS = 2  # threads


def generate(
    out: Path,
    options: Options,
    *,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    batch_records: int = BATCH_RECORDS,
) -> dict[str, int]:
    """Write `out/captures`, `out/keys` and `out/truth`, all or nothing, and give the totals.

    A directory with anything in it is refused unless `force`, which replaces these three and nothing else. `progress`
    is told how many records there are so far. Another number of records in a batch makes other records.
    """
    if out.exists() and not out.is_dir():
        raise LocalError("out", "a directory", str(out))
    if out.exists() and any(out.iterdir()) and not force:
        raise LocalError("out", "an empty directory, or one to be made (--force replaces)", str(out))
    is_new = not out.exists()
    unfinished = out / _UNFINISHED
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        totals = _generate(unfinished, options, progress, batch_records)
        for part in PARTS:
            shutil.rmtree(out / part, ignore_errors=True)
            (unfinished / part).rename(out / part)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new and out.exists() and not any(out.iterdir()):
            out.rmdir()
    return totals


def _generate(directory: Path, options: Options, progress: Callable[[int], None], batch_records: int) -> dict[str, int]:
    topology = make_topology(options.nodes, options.skewed, options.seed)
    stage = Stage(plan.scenes_of(options), options.formats, options.level)
    keys = make_keys(directory / "keys", options.seed)
    setting = Setting(
        topology,
        options.seed,
        keys,
        int(plan.moments(np.array([options.active_us // 2]))[0]),
        options.huge_messages,
    )
    truth = Truth(directory / "truth", stage, topology, options.seed, options.start_us)
    tapes = Tapes(stage, topology, options.start_us)
    segments = [Segments(directory / "captures", name) for name in topology.names()[: topology.captured]]
    writers = ThreadPoolExecutor(_WRITERS)
    try:
        writing: list[Future[None]] = []
        for batch in _batches(setting, stage, options, tapes, truth, batch_records):
            for future in writing:
                future.result()
            writing = [writers.submit(segments[one.node].write, one) for one in batch]
            progress(truth.totals["records"])
        for future in writing:
            future.result()
    finally:
        writers.shutdown(cancel_futures=True)  # no file is closed while somebody writes to it
        for one in segments:
            one.close()
    truth.close()
    _summarise(directory / "truth" / "summary.json", options, truth.totals)
    return truth.totals


def _batches(
    setting: Setting, stage: Stage, options: Options, tapes: Tapes, truth: Truth, batch_records: int
) -> Iterator[list[Written]]:
    totals = plan.counts(options, stage)
    batches = max(1, -(-options.messages // batch_records))
    flow = 0
    for batch in range(batches):
        begin, end = (options.active_us * at // batches for at in (batch, batch + 1))
        performances = []
        for at, cell in enumerate(stage.cells):
            number = plan.in_batch(totals[at], batch, batches, at)
            before_end_us = cell.scene.before_end_us
            if before_end_us is not None:
                number = totals[at] if batch == batches - 1 else 0
            if not number:
                continue
            draws = Draws(options.seed, 2, batch, at)
            flows = np.arange(flow, flow + number)
            flow += number * cell.flows
            starts = plan.moments(begin + draws.below(end - begin, number))
            if before_end_us is not None:
                starts = plan.closing_moment(options) - before_end_us + 1_000 * np.arange(number)
            # A huge flow has rows of its own, and is given by itself.
            parts = [slice(one, one + 1) for one in range(number)] if cell.play.repeated else [slice(None)]
            for share in parts:
                performances += Performance(setting, cell, flows[share], starts[share], draws).everything
        until = int(plan.moments(np.array([end]))[0]) if batch < batches - 1 else None
        for one in performances:
            truth.add(one)
        written = list(tapes.add(performances, until))
        for part in written:
            truth.add_written(part)
        truth.flush()
        yield written


def _summarise(path: Path, options: Options, totals: dict[str, int]) -> None:
    summary = {
        "seed": options.seed,
        "options": {
            "messages": options.messages,
            "nodes": options.nodes,
            "level": str(options.level),
            "formats": [str(one) for one in options.formats],
            "rates": dict(options.rates),
            "skewed": options.skewed,
            "start": options.start.isoformat(),
            "active_us": options.active_us,
            "huge_messages": options.huge_messages,
        },
        "counts": dict(sorted(totals.items())),
    }
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
