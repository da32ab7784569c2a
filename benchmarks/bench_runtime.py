"""Time request and answer inside one process beside Pykka, xoscar and bare queues, in one run: ``make bench-runtime``.

Every round takes each measure of each contender once, one contender right after the other; a ratio is taken within its
round, and the tables show medians over the rounds, with the middle half.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.runtime.contender import Contender
from benchmarks.runtime.hopline_contender import Hopline, HoplineTasks
from benchmarks.runtime.pykka_contender import Pykka
from benchmarks.runtime.queue_contender import BareQueues
from benchmarks.runtime.xoscar_contender import XoscarDirectCalls, XoscarMessages

CONTENDERS: tuple[Contender, ...] = (
    Hopline(),
    HoplineTasks(),
    BareQueues(),
    Pykka(),
    XoscarMessages(),
    XoscarDirectCalls(),
)
FLOOR = BareQueues.name
SUBJECT = Hopline.name

P50, P99, PIPELINED, FAN_OUT = "sequential p50", "sequential p99", "pipelined", "fan-out"

Seconds = dict[str, dict[str, list[float]]]  # by measure and contender, round by round


@dataclass(frozen=True)
class Load:
    """How much is asked in one round."""

    sequential: int = 2_000
    pipelined: int = 20_000
    in_flight: int = 1_000
    actors: int = 100
    broadcasts: int = 50


QUICK = Load(sequential=500, pipelined=5_000, broadcasts=10)


@dataclass(frozen=True)
class Goal:
    """How fast Hopline is to be, as a multiple of a peer's speed."""

    says: str
    measure: str
    peer: str
    least: float

    def met_by(self, speed: float) -> bool:
        """Hold a measured speed against the goal; to be as fast as the peer is not to be faster."""
        return speed > self.least if self.least == 1 else speed >= self.least


GOALS = (
    Goal("sequential p50 below Pykka's", P50, Pykka.name, 1),
    Goal("at least 2 x Pykka's pipelined rate", PIPELINED, Pykka.name, 2),
    Goal("at least 5 x xoscar's pipelined rate, with messages", PIPELINED, XoscarMessages.name, 5),
    Goal("at least 5 x xoscar's pipelined rate, with direct calls", PIPELINED, XoscarDirectCalls.name, 5),
    Goal("sequential p50 within 4 x of the floor", P50, FLOOR, 1 / 4),
    Goal("pipelined rate within 4 x of the floor", PIPELINED, FLOOR, 1 / 4),
)


# -- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class Results:
    """What was measured: seconds a request (a broadcast in the fan-out), and bytes an idle actor."""

    seconds: Seconds = field(default_factory=lambda: {measure: {} for measure in (P50, P99, PIPELINED, FAN_OUT)})
    idle_bytes: dict[str, float] = field(default_factory=dict)

    def add(self, measure: str, contender: Contender, seconds: float) -> None:
        """Note one round of one contender."""
        self.seconds[measure].setdefault(contender.name, []).append(seconds)

    def ratios(self, measure: str, contender: str, peer: str) -> list[float]:
        """Compare the seconds of two contenders, round by round."""
        measured = self.seconds[measure]
        return [mine / its for mine, its in zip(measured[contender], measured[peer], strict=True)]


def one_round(contenders: Sequence[Contender], load: Load, results: Results) -> None:
    """Take every measure but memory of every contender."""
    for contender in contenders:
        gc.collect()
        latencies = asyncio.run(contender.sequential(load.sequential))
        percentiles = statistics.quantiles(latencies, n=100)
        results.add(P50, contender, percentiles[49])
        results.add(P99, contender, percentiles[98])
    for contender in contenders:
        gc.collect()
        together = asyncio.run(contender.pipelined(load.pipelined, load.in_flight))
        results.add(PIPELINED, contender, together / load.pipelined)
    for contender in contenders:
        gc.collect()
        results.add(FAN_OUT, contender, statistics.median(asyncio.run(contender.fan_out(load.actors, load.broadcasts))))


def measure(contenders: Sequence[Contender], load: Load, rounds: int, console: Console) -> Results:
    """Take the rounds, then the memory."""
    gc.collect()
    gc.freeze()  # what the imports left is nobody's garbage to look through
    one_round(contenders, load, Results())  # caches, and what the interpreter specialises
    results = Results()
    for number in track(range(rounds), description="rounds", console=console, transient=True):
        first = number % len(contenders)  # nobody always runs after the same one
        one_round([*contenders[first:], *contenders[:first]], load, results)
    for contender in track(contenders, description="memory", console=console, transient=True):
        results.idle_bytes[contender.name] = contender.idle_memory(contender.idle_actors)
    return results


# -- the report ------------------------------------------------------------------------------------------------------


def spread(values: list[float]) -> str:
    """Give the median and the middle half."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def report(console: Console, contenders: Sequence[Contender], load: Load, results: Results) -> None:
    """Print the times, as multiples of the floor's too, and the memory."""
    title = f"request and answer in one process; x floor: time as a multiple of {FLOOR}"
    table = Table(title=title, title_justify="left")
    table.add_column("contender")
    for heading in ("p50 µs", "x floor", "p99 µs", f"{load.in_flight:,} in flight: requests/s", "x floor"):
        table.add_column(heading, justify="right")
    for heading in (f"to {load.actors} actors and back: µs", "x floor", "bytes an idle actor"):
        table.add_column(heading, justify="right")
    for contender in contenders:
        name = contender.name
        middle = {taken: statistics.median(by_name[name]) for taken, by_name in results.seconds.items()}
        table.add_row(
            name,
            f"{middle[P50] * 1e6:.1f}",
            spread(results.ratios(P50, name, FLOOR)),
            f"{middle[P99] * 1e6:.1f}",
            f"{1 / middle[PIPELINED]:,.0f}",
            spread(results.ratios(PIPELINED, name, FLOOR)),
            f"{middle[FAN_OUT] * 1e6:,.0f}",
            spread(results.ratios(FAN_OUT, name, FLOOR)),
            f"{results.idle_bytes[name]:,.0f} (of {contender.idle_actors:,})",
        )
    console.print(table)
    console.print("Pykka's actors are threads, so fewer of them are started to measure the memory of an idle one.")
    console.print("xoscar's direct calls run the method under the actor's lock in the caller's task: nothing is sent.")


def verdicts(console: Console, results: Results) -> None:
    """Hold Hopline against the goals."""
    console.print("Goals, and Hopline's speed as a multiple of the peer's:")
    for goal in GOALS:
        speeds = results.ratios(goal.measure, goal.peer, SUBJECT)  # its seconds by ours: how often we do it meanwhile
        verdict = "met    " if goal.met_by(statistics.median(speeds)) else "NOT MET"
        console.print(f"  {verdict} {goal.says}: {spread(speeds)}")


def main(
    rounds: int = typer.Option(15, min=3, help="How often everything is timed."),
    quick: bool = typer.Option(False, "--quick", help="Ask less, in 3 rounds: for a glance, not for the record."),
) -> None:
    """Time request and answer inside one process beside Pykka, xoscar and bare queues."""
    console = Console(highlight=False, width=None if Console().is_terminal else 160)
    load, rounds = (QUICK, 3) if quick else (Load(), rounds)
    console.print(
        f"Python {platform.python_version()}, Pykka {version('pykka')}, xoscar {version('xoscar')}, "
        f"asyncio's own loop, {rounds} rounds of {load.sequential:,} requests one after the other, "
        f"{load.pipelined:,} with {load.in_flight:,} in flight, {load.broadcasts} broadcasts; "
        "medians (middle half in brackets)"
    )
    results = measure(CONTENDERS, load, rounds, console)
    report(console, CONTENDERS, load, results)
    verdicts(console, results)


if __name__ == "__main__":
    typer.run(main)
