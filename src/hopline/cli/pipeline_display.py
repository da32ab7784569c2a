"""The progress of a run of the pipeline, live on a terminal and one line per step elsewhere; and its findings."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hopline.display.frames import plural
from hopline.message import printable
from hopline.pipeline.progress import Progress, Work
from hopline.pipeline.tables.findings import Finding

_BAR_WIDTH = 24
_RATED_ROWS = 10_000  # below that, the rate is dominated by the overhead of Spark
_NUMBER = re.compile(r"([+-]?[\d,.]+( (s|ms|µs))?)?")


@contextmanager
def shown_progress(console: Console) -> Iterator[Progress]:
    """Show the progress of a run, on a terminal or as lines."""
    if not console.is_terminal:
        yield PlainProgress(console)
        return
    live = LiveProgress()
    with Live(live, console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False):
        yield live


class PlainProgress:
    """Prints a line when a step has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def planned(self, steps: list[str]) -> None:
        """Print nothing."""

    def began(self, step: str) -> None:
        """Print nothing."""

    def moved(self, step: str, work: Work) -> None:
        """Print nothing."""

    def ended(self, step: str, result: str, rows: int | None, seconds: float) -> None:
        """Print the time and the result of a step."""
        outcome = _outcome(result, rows, seconds)
        self._console.print(f"{step:<10} {seconds:6.1f} s  {outcome}")

    def note(self, text: str) -> None:
        """Print a note."""
        self._console.print(f"note: {printable(text)}")


@dataclass(slots=True)
class _Step:
    name: str
    began: float | None = None
    seconds: float | None = None
    outcome: str = ""
    work: Work | None = None


class LiveProgress:
    """A table of the steps that is drawn again and again: those that ended, the running one, those to come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, _Step] = {}
        self._notes: list[str] = []
        self._spinner = Spinner("dots", style="cyan")

    def planned(self, steps: list[str]) -> None:
        """Show steps that have not begun."""
        with self._lock:
            for step in steps:
                self._steps.setdefault(step, _Step(step))

    def began(self, step: str) -> None:
        """Show the running time of a step."""
        with self._lock:
            started = self._steps.setdefault(step, _Step(step))
            started.began = time.monotonic()

    def moved(self, step: str, work: Work) -> None:
        """Show the tasks and rows of a step."""
        with self._lock:
            self._steps[step].work = work

    def ended(self, step: str, result: str, rows: int | None, seconds: float) -> None:
        """Show the result of a step."""
        with self._lock:
            ended = self._steps[step]
            ended.outcome = _outcome(result, rows, seconds)
            ended.seconds = seconds

    def note(self, text: str) -> None:
        """Show a note below the steps."""
        with self._lock:
            self._notes.append(text)

    def __rich__(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(width=1)
        table.add_column(min_width=10)
        table.add_column()
        table.add_column(justify="right")
        with self._lock:
            for step in self._steps.values():
                table.add_row(*self._row(step))
            notes = [Text(f"note: {printable(note)}", style="yellow") for note in self._notes]
        return Group(table, *notes)

    def _row(self, step: _Step) -> tuple[RenderableType, ...]:
        if step.seconds is not None:
            return Text("✓", style="green"), step.name, step.outcome, f"{step.seconds:.1f} s"
        if step.began is None:
            return "", Text(step.name, style="dim"), "", ""
        seconds = time.monotonic() - step.began
        activity: RenderableType = Text("")
        work = step.work
        if work is not None and work.tasks:
            bar = ProgressBar(work.tasks, work.tasks_done, width=_BAR_WIDTH)
            activity = Table.grid(padding=(0, 2))
            activity.add_row(bar, _work_text(work, seconds))
        name = Text(step.name, style="bold")
        return self._spinner, name, activity, f"{seconds:.0f} s"


def _work_text(work: Work, seconds: float) -> str:
    parts = [f"{work.tasks_done}/{work.tasks} tasks"]
    if work.rows_read:
        parts.append(f"{work.rows_read:,} rows read")
        parts.append(_rate(work.rows_read, seconds))
    elif work.bytes_read:
        size = size_text(work.bytes_read)
        parts.append(f"{size} read")
    if work.rows_written:
        parts.append(f"{work.rows_written:,} written")
    return ", ".join(parts)


def _outcome(result: str, rows: int | None, seconds: float) -> str:
    parts = [result] if result else []
    if rows is not None:
        parts.insert(0, plural(rows, "row"))
        if rows >= _RATED_ROWS:
            parts.append(_rate(rows, seconds))
    return ", ".join(parts)


def _rate(rows: int, seconds: float) -> str:
    rows_per_second = rows / max(seconds, 0.001)
    return f"{rows_per_second:,.0f} rows/s"


def size_text(count: int) -> str:
    """Return a number of bytes in the largest unit that fits, with up to three digits."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            is_whole = unit == "bytes" or value >= 100
            return f"{value:.0f} {unit}" if is_whole else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def draw_findings(findings: list[Finding]) -> RenderableType:
    """Return the findings, each as a table with the command that shows more."""
    parts: list[RenderableType] = []
    for finding in findings:
        style = "bold yellow" if finding.is_trouble else "bold"
        parts.append(Text(f"\n{finding.title}", style=style))
        parts.append(_finding_table(finding))
        if finding.hidden:
            parts.append(Text(f"  and {finding.hidden:,} more", style="dim"))
        parts.append(Text(f"  {printable(finding.command)}", style="cyan"))
    return Group(*parts)


def _finding_table(finding: Finding) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for header, *cells in zip(finding.headers, *finding.shown, strict=True):
        is_number = all(map(_NUMBER.fullmatch, cells))
        table.add_column(
            header,
            justify="right" if is_number else "left",
            overflow="fold",
        )
    for row in finding.shown:
        texts = [Text(printable(cell)) for cell in row]
        table.add_row(*texts)
    return table
