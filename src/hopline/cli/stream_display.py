"""What a stream does, live on a terminal and one line per batch elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hopline.display.frames import plural
from hopline.message import printable
from hopline.pipeline.progress import Silent
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.running import BatchReport
from hopline.pipeline.stream.state import State

_SECOND_US = 1_000_000


@contextmanager
def shown_stream(console: Console, options: StreamOptions) -> Iterator[StreamDisplay]:
    """Show what a stream does, on a terminal or as lines."""
    display = StreamDisplay(console, options)
    if not console.is_terminal:
        yield display
        return
    with Live(display, console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False):
        yield display


class StreamDisplay(Silent):
    """Shows the last whole batch, the one under way, what waits, and how far the tables are behind the captures."""

    def __init__(self, console: Console, options: StreamOptions) -> None:
        self._console = console
        self._options = options
        self._lock = threading.Lock()
        self._spinner = Spinner("dots", style="cyan")
        self._notes: list[str] = []
        self._under_way: tuple[int, int, float] | None = None  # batch, new segments, when it began
        self._rate = 0.0
        self._records: int | None = None  # in all batches, also those of earlier processes
        self.last: BatchReport | None = None

    def batch_began(self, number: int, segments: int) -> None:
        """Show that a batch is under way."""
        with self._lock:
            self._under_way = number, segments, time.monotonic()

    def batch_ended(self, report: BatchReport) -> None:
        """Show what a batch has done."""
        records = report.state.totals.records
        with self._lock:
            new = records if self._records is None else records - self._records
            if report.segments:
                self._rate = new / max(report.seconds, 0.001)
            self._records = records
            self._under_way = None
            self.last = report
        if report.segments and not self._console.is_terminal:
            self._console.print(f"{_clock()}  {_batch_text(report)}, {_waiting_text(report.state)}")

    def note(self, text: str) -> None:
        """Show a note."""
        with self._lock:
            self._notes.append(text)
        if not self._console.is_terminal:
            self._console.print(f"note: {printable(text)}")

    def ended(self, step: str, result: str, rows: int | None, seconds: float) -> None:  # noqa: ARG002
        """Show that Spark has started."""
        self.note(f"{step} {result}; following {', '.join(self._options.captures)} into {self._options.out}")

    def summary(self) -> str:
        """Return in one line what the stream has done since it was first started."""
        state = State() if self.last is None else self.last.state
        totals = state.totals
        return (
            f"{plural(totals.records, 'record')} = {totals.messages:,} messages + {totals.rejects:,} rejects; "
            f"{plural(totals.flows, 'flow')} closed, {state.pending_units:,} open; {totals.late:,} records late"
        )

    def __rich__(self) -> RenderableType:
        with self._lock:
            last, under_way, notes = self.last, self._under_way, list(self._notes)
        lines: list[RenderableType] = [Text(f"{printable(note)}", style="dim") for note in notes]
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        if last is not None:
            table.add_row("last batch", _batch_text(last))
            table.add_row("rate", f"{self._rate:,.0f} records/s in the last batch with records")
            table.add_row("lag", _lag_text(last.state))
            table.add_row("waiting", _waiting_text(last.state))
            table.add_row("so far", self.summary())
        lines.append(table)
        if under_way is not None:
            number, segments, began = under_way
            seconds = time.monotonic() - began
            self._spinner.update(text=f"batch {number}, {plural(segments, 'new segment')}, {seconds:.0f} s")
            lines.append(self._spinner)
        return Group(*lines)


def lag_s(state: State, now: float) -> float | None:
    """Return how old the newest message in the tables is, None where there is none."""
    if state.last_us is None:
        return None
    return max(now - state.last_us / _SECOND_US, 0.0)


def _batch_text(report: BatchReport) -> str:
    segments = plural(report.segments, "new segment")
    return f"batch {report.number}: {segments} in {report.seconds:.1f} s"


def _waiting_text(state: State) -> str:
    return f"{plural(state.pending_units, 'open flow')}, {plural(state.pending, 'record')}"


def _lag_text(state: State) -> str:
    seconds = lag_s(state, time.time())
    if seconds is None or state.last_us is None:
        return "no messages yet"
    newest = datetime.fromtimestamp(state.last_us / _SECOND_US, UTC)
    if seconds > 24 * 3600:
        return f"newest message of {newest:%Y-%m-%d %H:%M:%S} UTC"
    return f"{seconds:,.0f} s, newest message of {newest:%H:%M:%S} UTC"


def _clock() -> str:
    return f"{datetime.now(UTC):%H:%M:%S}"
