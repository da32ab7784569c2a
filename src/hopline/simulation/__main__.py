"""``python -m hopline.simulation``: live through many seeds, or replay one.

The seeds are shared out among processes, which tell what they found as lines of JSON.
"""

from __future__ import annotations

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

from hopline.simulation.watch import Violation
from hopline.simulation.world import Report, simulate


class Found(msgspec.Struct):
    """What came of one seed: its report, or what went wrong."""

    seed: int
    report: Report | None = None
    problem: str = ""


def live_through(seed: int) -> Found:
    """Simulate one seed, and tell what came of it."""
    try:
        return Found(seed, simulate(seed))
    except (Violation, BaseExceptionGroup) as error:
        return Found(seed, problem=_first_line(error))
    except Exception as error:
        return Found(seed, problem=f"{type(error).__name__}: {error}")


def _first_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def main(
    seeds: Annotated[int, typer.Option(help="How many seeds to live through.", min=1)] = 100,
    first: Annotated[int, typer.Option(help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Replay this one seed, and show its history.")] = None,
    jobs: Annotated[int, typer.Option(help="How many processes to use.", min=1)] = os.cpu_count() or 1,
    lines: Annotated[bool, typer.Option("--lines", hidden=True)] = False,
) -> None:
    """Run simulated networks, each from one integer, and check after every step what must always hold.

    A seed that fails is printed with the command that replays it exactly. The exit code is 1 if any failed.
    """
    if seed is not None:
        _replay(seed)
    elif lines:
        for one in range(first, first + seeds):
            sys.stdout.buffer.write(msgspec.json.encode(live_through(one)) + b"\n")
            sys.stdout.buffer.flush()
    else:
        _live_through_many(range(first, first + seeds), jobs)


def _replay(seed: int) -> None:
    console = Console(highlight=False)
    try:
        report = simulate(seed, trace=lambda line: console.print(line, markup=False))
    except (Violation, BaseExceptionGroup) as error:
        console.print(f"[red]seed {seed} fails:[/] {_first_line(error)}")
        raise typer.Exit(1) from None
    console.print(report)


def _live_through_many(seeds: range, jobs: int) -> None:
    console = Console(stderr=False, highlight=False)
    failed: list[Found] = []
    calls: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    steps = done = 0
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(seeds))
        for found in _shared_out(seeds, min(jobs, len(seeds))):
            progress.advance(bar)
            done += 1
            if found.report is None:
                failed.append(found)
                progress.console.print(f"[red]seed {found.seed} fails:[/] {found.problem}")
                progress.console.print(f"  replay it: python -m hopline.simulation --seed {found.seed}")
                continue
            steps += found.report.steps
            calls.update(found.report.calls)
            outcomes.update(found.report.outcomes)
            faults.update(found.report.faults)
    for title, counts in (("faults", faults), ("messages", outcomes), ("callers", calls)):
        console.print(f"{title:>9}: " + ", ".join(f"{count:,} {what}" for what, count in counts.most_common()))
    console.print(f"{done:,} of {len(seeds):,} seeds, {steps:,} steps checked, {len(failed)} failed")
    if failed or done < len(seeds):
        raise typer.Exit(1)


def _shared_out(seeds: range, jobs: int) -> Iterator[Found]:
    """Run the seeds in so many processes, and give what they found as it comes."""
    found: Queue[Found | None] = Queue()
    share = -(-len(seeds) // jobs)
    processes = [
        subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "hopline.simulation", "--lines", "--first", str(first), "--seeds", str(count)],
            stdout=subprocess.PIPE,
        )
        for first in range(seeds.start, seeds.stop, share)
        if (count := min(share, seeds.stop - first))
    ]

    def read(process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            found.put(msgspec.json.decode(line, type=Found))
        found.put(None)

    try:
        for process in processes:
            threading.Thread(target=read, args=(process,), daemon=True).start()
        left = len(processes)
        while left:
            one = found.get()
            if one is None:
                left -= 1
            else:
                yield one
    finally:
        for process in processes:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


if __name__ == "__main__":
    typer.run(main)
