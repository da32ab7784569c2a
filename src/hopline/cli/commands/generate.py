"""``hopline generate``: synthetic captures with planted faults, and the ground truth about them."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from hopline.cli.errors import UsageError, one_line_errors
from hopline.cli.options import DebugOption
from hopline.cli.terminal import write_line
from hopline.message import WireFormat

if TYPE_CHECKING:
    from hopline.generator import Options

_FORMATS = (
    WireFormat.FIRST,
    WireFormat.V4,
    WireFormat.V5,
    WireFormat.V6,
)  # the generator's own list would import numpy

_LINE_PERIOD = 5.0  # seconds, where there is no terminal
_INTERRUPTED = "interrupted: nothing was written"


def generate_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory for captures, keys and truth.")],
    messages: Annotated[
        int, typer.Option("--messages", "-n", help="Number of records, 1,000 to 100,000,000.")
    ] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed; the same seed generates the same records.")] = 1,
    nodes: Annotated[int, typer.Option("--nodes", help="Number of nodes.")] = 8,
    level: Annotated[str, typer.Option("--level", help="full, or wire: only what was sent, received or failed.")] = (
        "full"
    ),
    formats: Annotated[str, typer.Option("--formats", help="Wire formats, separated by commas.")] = ",".join(_FORMATS),
    faults: Annotated[
        str, typer.Option("--faults", help="all: at their default rates; none: only those of --fault.")
    ] = ("all"),
    fault: Annotated[
        list[str] | None, typer.Option("--fault", help="NAME=SHARE of the flows, such as lost=0.01; may be repeated.")
    ] = None,
    skewed: Annotated[
        int, typer.Option("--skewed", help="Number of nodes with wrong clocks; 0 with --faults none.")
    ] = 2,
    rate: Annotated[
        int, typer.Option("--rate", help="Records per second, by the time stamps of the captures.")
    ] = 2_000,
    hours: Annotated[
        float | None, typer.Option("--hours", help="Time that the captures span; overrides --rate.")
    ] = None,
    huge_messages: Annotated[int, typer.Option("--huge-messages", help="Number of answers in a huge flow.")] = 600,
    force: Annotated[bool, typer.Option("--force", help="Replace existing captures, keys and truth.")] = False,
    debug: DebugOption = False,
) -> None:
    """Generate captures of any size, with planted faults, and the ground truth about them.

    OUT/captures has the segments, OUT/keys the keys of their signatures, OUT/truth a summary and tables (Parquet) of
    what was planted.

    **Examples**:

        hopline generate out --messages 1000000 --seed 7
        hopline generate out --faults none --fault lost=0.01 --fault late=0.002
    """
    with one_line_errors("generate", debug=debug):
        from hopline import generator

        options = _options(
            messages=messages,
            seed=seed,
            nodes=nodes,
            level=level,
            formats=formats,
            rates=_rates(faults, fault or [], generator.DEFAULT_RATES),
            skewed=0 if faults == "none" and skewed == 2 else skewed,
            rate=rate,
            hours=hours,
            huge_messages=huge_messages,
        )
        begun = time.monotonic()
        try:
            with _terminable(), _shown(messages) as progress:
                totals = generator.generate(out, options, force=force, progress=progress)
        except KeyboardInterrupt:
            typer.echo(f"hopline generate: {_INTERRUPTED}", err=True)
            raise
        _show_totals(out, totals, time.monotonic() - begun)


def _options(**given: object) -> Options:
    from hopline.capture.records import Level
    from hopline.generator import Options

    try:
        level = Level(str(given.pop("level")))
    except ValueError as error:
        raise UsageError(f"--level: expected full or wire, found {str(error).split()[0]}") from None
    formats = str(given.pop("formats")).lower()
    names = [name.strip() for name in formats.split(",") if name.strip()]
    for name in names:
        if name not in _FORMATS:
            expected = ", ".join(_FORMATS)
            raise UsageError(f"--formats: expected some of {expected}, found {name!r}")
    chosen = tuple(wire_format for wire_format in _FORMATS if wire_format in names)
    return Options(level=level, formats=chosen, **given)  # type: ignore[arg-type]


def _rates(faults: str, single: list[str], defaults: dict[str, float]) -> dict[str, float]:
    if faults not in ("all", "none"):
        raise UsageError(f"--faults: expected all or none, found {faults!r}")
    rates = dict(defaults) if faults == "all" else {}
    for text in single:
        name, equals, share = text.partition("=")
        try:
            rates[name] = float(share)
        except ValueError:
            raise UsageError(f"--fault: expected NAME=SHARE, such as lost=0.01, found {text!r}") from None
        if not equals or name not in defaults:
            names = ", ".join(defaults)
            raise UsageError(f"--fault: expected one of {names}, found {name!r}")
    return rates


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, after which nothing is left behind."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{int(task.speed or 0):,}/s")


@contextmanager
def _shown(total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress on standard error: a bar on a terminal, otherwise a line every few seconds."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("records"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("records", total=total)
            yield lambda done: bar.update(task, completed=min(done, total))
        return
    started = last_line = time.monotonic()

    def write_progress(done: int) -> None:
        nonlocal last_line
        now = time.monotonic()
        if now - last_line >= _LINE_PERIOD:
            last_line = now
            rate = int(done / (now - started))
            sys.stderr.write(f"{done:,} of {total:,} records, {rate:,}/s\n")

    yield write_progress


def _show_totals(out: Path, totals: dict[str, int], seconds: float) -> None:
    records = totals["records"]
    flows = totals.get("flows", 0)
    rate = int(records / max(seconds, 1e-9))
    write_line(f"{records:,} records of {flows:,} flows in {seconds:.1f} s, {rate:,}/s")
    faults = []
    for name, count in sorted(totals.items()):
        if name.startswith("fault."):
            fault = name.removeprefix("fault.")
            faults.append(f"{fault} {count:,}")
    planted = ", ".join(faults) or "nothing"
    write_line(f"planted: {planted}")
    write_line(f"{out / 'captures'}  segments")
    write_line(f"{out / 'keys' / 'hopline.toml'}  domains and their keys")
    write_line(f"{out / 'truth'}  ground truth")
