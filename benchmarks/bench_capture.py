"""Time what capture costs: request and answer between processes, with capture off, `wire` and `full`, in one run.

The measure is that of the network benchmark, 1,000 requests in flight. Both nodes record. Their segments are small,
so that the measured time includes closing some. The load of the machine varies, so turns are short and many: before and
after every turn of a level there is one without capture, in the same processes, and a ratio is to the mean of both.
Processes differ in how their memory is laid out, so they are started several times. The tables show medians over all
turns, with the middle half.

Both nodes and their threads share the processors, so the rate goes down as the processor time of a request goes up.
Where the machine is shared with others, processor time is the more reliable measure.
"""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.bench_network import FORMATS, SIZES, SMALL, UNSIGNED, spread
from benchmarks.network.contender import IN_FLIGHT, PIPELINED, Contender, Order
from benchmarks.network.processes import Running
from hopline import CaptureLevel

LEVELS = tuple(CaptureLevel)
OFF = CaptureLevel.OFF
ROUND = (OFF, CaptureLevel.WIRE, OFF, CaptureLevel.FULL)
GOALS = {"V5": 0.80, "V6": 0.75}  # of the rate without capture, at level `wire`
WARM_UP = 0.5


class Turn(NamedTuple):
    """One measurement at one level."""

    level: CaptureLevel
    seconds: float  # per request
    cpu: float  # seconds per request, of all processes


@dataclass
class Measured:
    """All turns at one level, with one format."""

    seconds: list[float] = field(default_factory=list)  # per request
    cpu: list[float] = field(default_factory=list)  # per request
    rate_shares: list[float] = field(default_factory=list)  # of the rate without capture
    cpu_shares: list[float] = field(default_factory=list)  # of the processor time without capture


def contender(wire_format: str, directory: Path) -> Contender:
    """Return a network that can record."""
    return Contender(
        wire_format,
        "benchmarks.network.hopline_node",
        ("rendezvous", "server", "client"),
        {"wire_format": wire_format, "signed": UNSIGNED, "directory": str(directory)},
    )


def measure(
    wire_format: str, directory: Path, starts: int, rounds: int, seconds: float, console: Console
) -> dict[CaptureLevel, Measured]:
    """Start a network several times, and measure all levels in turns."""
    measured = {level: Measured() for level in LEVELS}
    for start in track(range(starts), description=wire_format, console=console, transient=True):
        with Running(contender(wire_format, directory / str(start))) as network:
            for level in LEVELS:
                network.record(level)
                network.carry_out(Order(PIPELINED, SMALL, WARM_UP))
            turns = [_turn(network, level, seconds) for level in (*ROUND * rounds, OFF)]
            network.record(OFF)
        for turn in turns:
            measured[turn.level].seconds.append(turn.seconds)
            measured[turn.level].cpu.append(turn.cpu)
        for before, turn, after in zip(turns, turns[1:], turns[2:], strict=False):
            if turn.level is not OFF:
                measured[turn.level].rate_shares.append((before.seconds + after.seconds) / 2 / turn.seconds)
                measured[turn.level].cpu_shares.append(turn.cpu * 2 / (before.cpu + after.cpu))
    return measured


def _turn(network: Running, level: CaptureLevel, seconds: float) -> Turn:
    network.record(OFF)  # closes the segment of the turn before
    network.record(level)
    before = network.cpu_seconds()
    taken = network.carry_out(Order(PIPELINED, SMALL, seconds))
    return Turn(level, taken.seconds, (network.cpu_seconds() - before) * taken.seconds / seconds)


def report(console: Console, measured: dict[str, dict[CaptureLevel, Measured]]) -> None:
    """Print rates and processor time, as shares of what they are without capture."""
    title = f"{IN_FLIGHT:,} requests in flight, bodies of {SIZES[SMALL]}; shares are of the same format without capture"
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    table.add_column("format, level")
    for heading in ("requests/s", "rate, share", "CPU µs a request", "CPU, share"):
        table.add_column(heading, justify="right")
    for wire_format, levels in measured.items():
        for level, turns in levels.items():
            table.add_row(
                f"{wire_format}, {level}",
                _rates(turns.seconds),
                spread(turns.rate_shares) if turns.rate_shares else "1.00",
                f"{statistics.median(turns.cpu) * 1e6:.1f}",
                spread(turns.cpu_shares) if turns.cpu_shares else "1.00",
            )
    console.print(table)
    for wire_format, goal in GOALS.items():
        wire = measured[wire_format][CaptureLevel.WIRE]
        share = statistics.median(wire.rate_shares)
        by_cpu = 1 / statistics.median(wire.cpu_shares)
        verdict = "met" if share >= goal else "NOT MET"
        console.print(
            f"goal: {wire_format} at level wire keeps at least {goal:.0%} of the rate: {share:.0%}, {verdict} "
            f"({by_cpu:.0%} by processor time)"
        )


def _rates(seconds: list[float]) -> str:
    low, middle, high = statistics.quantiles([1 / one for one in seconds], n=4)
    return f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def recorded(console: Console, wire_format: str, directory: Path) -> None:
    """Print how much the captures contain, and whether records were dropped."""
    table = ds.dataset(list(directory.rglob("*.parquet")), format="parquet").to_table(columns=["dropped", "frames"])
    size = sum(path.stat().st_size for path in directory.rglob("*.parquet"))
    raw = pc.sum(pc.binary_length(pa.chunked_array(pc.list_flatten(table["frames"])))).as_py()
    console.print(
        f"{wire_format}: {table.num_rows:,} records, {pc.sum(table['dropped']).as_py():,} dropped, "
        f"{raw / table.num_rows:.0f} B of frames a record, {size / table.num_rows:.0f} B on the disk"
    )


def main(
    starts: int = typer.Option(5, min=1, help="How often to start the processes."),
    rounds: int = typer.Option(6, min=2, help="How often to time each level after a start."),
    seconds: float = typer.Option(1.5, min=0.5, help="Seconds of each turn."),
    quick: bool = typer.Option(False, "--quick", help="Start once and time less, for a first impression."),
) -> None:
    """Time what capture costs."""
    console = Console(highlight=False, width=None if Console().is_terminal else 200)
    starts, rounds, seconds = (1, 3, 1.0) if quick else (starts, rounds, seconds)
    console.print(
        f"Python {platform.python_version()}, pyarrow {pa.__version__}, {starts} starts of {rounds} rounds, "
        f"{seconds:g} s a level; medians (middle half in brackets); "
        f"load of the machine before: {_load()} on {os.cpu_count()} processors"
    )
    measured: dict[str, dict[CaptureLevel, Measured]] = {}
    with TemporaryDirectory() as place:
        for wire_format in FORMATS:
            measured[wire_format] = measure(wire_format, Path(place) / wire_format, starts, rounds, seconds, console)
            recorded(console, wire_format, Path(place) / wire_format)
    report(console, measured)


if __name__ == "__main__":
    typer.run(main)
