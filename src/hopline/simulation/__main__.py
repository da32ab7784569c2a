"""``python -m hopline.simulation``: simulate many seeds, or replay one.

The seeds are divided among processes, which print their results as lines of JSON.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from queue import Queue
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hopline.simulation.invariants import Violation
from hopline.simulation.world import Report, simulate


class SeedResult(msgspec.Struct):
    """The result of one seed: its report, or the problem."""

    seed: int
    report: Report | None = None
    problem: str = ""


def run_seed(seed: int) -> SeedResult:
    """Simulate one seed and return its result."""
    try:
        return SeedResult(seed, simulate(seed))
    except (Exception, BaseExceptionGroup) as error:  # also a group with a cancellation in it
        return SeedResult(seed, problem=_description(error))


def _description(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def main(
    seeds: Annotated[int, typer.Option(help="How many seeds to simulate.", min=1)] = 100,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Replay this seed only, and show its history.")] = None,
    jobs: Annotated[int, typer.Option(help="How many processes to use.", min=1)] = os.cpu_count() or 1,
    lines: Annotated[bool, typer.Option("--lines", hidden=True)] = False,
) -> None:
    """Simulate networks, each made from one integer, and check the invariants after every step.

    A seed that fails is printed with the command that replays it exactly. The exit code is 1 if any failed.
    """
    chosen = range(first, first + seeds)
    if seed is not None:
        _replay(seed)
    elif lines:
        _print_results(chosen)
    else:
        _simulate_all(chosen, jobs)


def _replay(seed: int) -> None:
    console = Console(highlight=False)
    try:
        report = simulate(seed, trace=lambda line: console.print(line, markup=False))
    except (Violation, BaseExceptionGroup) as error:
        console.print(f"[red]seed {seed} fails:[/] {_description(error)}")
        raise typer.Exit(1) from None
    console.print(report)


def _print_results(seeds: range) -> None:
    for seed in seeds:
        line = msgspec.json.encode(run_seed(seed))
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


class _Summary:
    """The sums over all seeds."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.steps = 0
        self.calls: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def add(self, report: Report | None) -> None:
        self.done += 1
        if report is None:
            self.failed += 1
            return
        self.steps += report.steps
        self.calls.update(report.calls)
        self.outcomes.update(report.outcomes)
        self.faults.update(report.faults)

    def print(self, console: Console, seeds: int) -> None:
        _print_counts(console, "faults", self.faults)
        _print_counts(console, "messages", self.outcomes)
        _print_counts(console, "callers", self.calls)
        console.print(f"{self.done:,} of {seeds:,} seeds, {self.steps:,} steps checked, {self.failed} failed")


def _print_counts(console: Console, title: str, counts: Counter[str]) -> None:
    texts = [f"{count:,} {name}" for name, count in counts.most_common()]
    text = ", ".join(texts)
    console.print(f"{title:>9}: {text}")


def _simulate_all(seeds: range, jobs: int) -> None:
    console = Console(highlight=False)
    summary = _Summary()
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(seeds))
        for result in _results(seeds, min(jobs, len(seeds))):
            progress.advance(bar)
            summary.add(result.report)
            if result.report is None:
                progress.console.print(f"[red]seed {result.seed} fails:[/] {result.problem}")
                progress.console.print(f"  replay it: python -m hopline.simulation --seed {result.seed}")
    summary.print(console, len(seeds))
    is_complete = summary.done == len(seeds)
    if summary.failed or not is_complete:
        raise typer.Exit(1)


def _results(seeds: range, jobs: int) -> Iterator[SeedResult]:
    """Simulate seeds in several processes, and yield the results as they arrive."""
    results: Queue[SeedResult | None] = Queue()  # None: a process has ended
    share = math.ceil(len(seeds) / jobs)
    starts = range(0, len(seeds), share)
    processes = [_start(seeds[start : start + share]) for start in starts]

    def read(process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            result = msgspec.json.decode(line, type=SeedResult)
            results.put(result)
        results.put(None)

    try:
        for process in processes:
            reader = threading.Thread(target=read, args=(process,), daemon=True)
            reader.start()
        running = len(processes)
        while running:
            result = results.get()
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        for process in processes:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _start(seeds: range) -> subprocess.Popen[bytes]:
    first = str(seeds.start)
    count = str(len(seeds))
    command = [sys.executable, "-m", "hopline.simulation", "--lines", "--first", first, "--seeds", count]
    return subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - this very program


if __name__ == "__main__":
    typer.run(main)
