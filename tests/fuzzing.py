"""What the fuzzers of ``make fuzz`` share: a loop with a progress display, and what becomes of a finding."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

BATCH = 200


class Finding(AssertionError):  # noqa: N818
    """Something that must not happen, with what made it happen, in hex."""

    def __init__(self, what: str, source: str, detail: str) -> None:
        super().__init__(f"{what}\n{detail}")
        self.source = source


class Fuzzer(Protocol):
    """Damages something, again and again, and counts what becomes of it."""

    outcomes: Counter[str]

    def run(self, times: int) -> None: ...


def fresh_seed() -> int:
    """Return a seed that nobody has tried."""
    return random.SystemRandom().randrange(2**32)


def fuzz(fuzzer: Fuzzer, name: str, minutes: float, saved_as: Path, hint: str = "") -> None:
    """Run a fuzzer until the time is up; save what it finds, and exit with 1 then, with 130 on an interrupt."""
    console = Console()
    try:
        _run(fuzzer, name, minutes * 60, console)
    except Finding as finding:
        saved_as.write_text(finding.source + "\n", encoding="utf-8")
        console.print("[bold red]found[/]:", end=" ")
        console.print(f"{finding}\nsaved to {saved_as}{hint}", markup=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print(f"stopped after {fuzzer.outcomes.total():,} in {name}")
        raise typer.Exit(130) from None
    console.print("  " + ", ".join(f"{outcome} {count:,}" for outcome, count in fuzzer.outcomes.most_common()))


def _run(fuzzer: Fuzzer, name: str, seconds: float, console: Console) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:6}"),
        BarColumn(),
        TextColumn("{task.fields[done]:>12,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=seconds, done=0)
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < seconds:
            fuzzer.run(BATCH)
            progress.update(task, completed=elapsed, done=fuzzer.outcomes.total())
        progress.update(task, completed=seconds)
