"""Time the codecs beside msgspec and protobuf, in one run: ``make bench-wire``.

Every round times each codec once, one after the other, over the same messages; a ratio is taken within its round,
against msgspec's MessagePack of the same message, and the table shows medians over the rounds, with the middle half.
"""

from __future__ import annotations

import gc
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.peers import MsgspecArrayCodec, ProtobufCodec
from hopline import Message, MessageIdentifier, WireFormat
from hopline.message import RoutingEntry
from hopline.wire import decode, encode, peek
from hopline.wire.fast_path import REMEMBERED_LISTS

MESSAGES = 1_000
STRANGERS = 3 * REMEMBERED_LISTS  # more different lists than are remembered
YARDSTICK = "msgspec"
GOALS = {"encode": 3.0, "decode": 4.0, "view": 1.0}
GOAL_CASE = "typical"
NOISE = 0.05  # what two runs differ by anyway


# -- messages --------------------------------------------------------------------------------------------------------


def guid(rng: random.Random) -> bytes:
    """Make a GUID as text, as node identities and correlation ids are."""
    digits = rng.randbytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}".encode()


def minimal(rng: random.Random) -> list[Message]:
    """Messages with an identity, a correlation id and a small body."""
    return [Message.create(b"ORDER.PRICE", rng.randbytes(20), correlation_id=guid(rng)) for _ in range(MESSAGES)]


def traced(rng: random.Random, nodes: int, body_size: int, count: int = MESSAGES) -> list[Message]:
    """Messages on their way through a network: two routers behind them, two callback points, signed, all fields set."""
    routers = [RoutingEntry(f"tcp://10.0.{n // 256}.{n % 256}:9000", guid(rng)) for n in range(nodes)]
    points = [
        (MessageIdentifier(b"ORDER.PRICED.%d" % n), MessageIdentifier(b"KINO.EXCEPTION"))
        for n in range(max(4, nodes // 4))
    ]
    messages = []
    for _ in range(count):
        there, back = rng.choice(routers), rng.choice(routers)
        message = Message.create(b"ORDER.PRICE", rng.randbytes(body_size), partition=b"eu", correlation_id=guid(rng))
        message = message.with_receiver_actor(there.identity, b"\x01" + guid(rng))
        message = message.register_callback_point(
            back.identity, b"\x00" + guid(rng), rng.choice(points), rng.randrange(2**40)
        )
        message = message.clone(routing=(back, rng.choice(routers)), hops=2, trace_options=1, ttl_ticks=300_000_000)
        messages.append(message.clone(signature=rng.randbytes(32), domain="orders", socket_identity=there.identity))
    return messages


def mixed(rng: random.Random, kinds: int = 40) -> list[Message]:
    """Messages as in `traced`, of many kinds whose names, partitions and domains have all sorts of lengths."""
    names = [(b"K" * rng.randrange(5, 40), b"p" * rng.randrange(8), "d" * rng.randrange(20)) for _ in range(kinds)]
    messages = []
    for message in traced(rng, nodes=16, body_size=200):
        identity, partition, domain = rng.choice(names)
        messages.append(message.clone(identity=identity, partition=partition, domain=domain))
    return messages


CASES: dict[str, Callable[[random.Random], list[Message]]] = {
    "minimal": minimal,
    "typical": lambda rng: traced(rng, nodes=16, body_size=200),
    "typical, of 40 kinds": mixed,
    "typical, lists never seen before": lambda rng: traced(rng, nodes=20_000, body_size=200, count=STRANGERS),
    "large body": lambda rng: traced(rng, nodes=16, body_size=64 * 1024),
}


# -- timing ----------------------------------------------------------------------------------------------------------


@dataclass
class Timed:
    """One thing to time, and its seconds a message, round by round."""

    codec: str
    action: str
    run: Callable[..., object]
    inputs: Sequence[Any]
    argument: WireFormat | None = None
    seconds: list[float] = field(default_factory=list)

    def once(self) -> None:
        """Time one round."""
        run, argument = self.run, self.argument
        started = time.perf_counter()
        if argument is None:
            for item in self.inputs:
                run(item)
        else:
            for item in self.inputs:
                run(item, argument)
        self.seconds.append((time.perf_counter() - started) / len(self.inputs))


def contenders(messages: list[Message]) -> list[Timed]:
    """Everything to time over some messages: ours, and the peers."""
    timed = []
    for wire_format in WireFormat:
        frames = [encode(message, wire_format) for message in messages]
        name = wire_format.name
        timed.append(Timed(name, "encode", encode, messages, wire_format))
        timed.append(Timed(name, "decode", decode, frames))
        timed.append(Timed(name, "view", peek, frames))
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Message)
    timed.append(Timed(YARDSTICK, "encode", encoder.encode, messages))
    timed.append(Timed(YARDSTICK, "decode", decoder.decode, [encoder.encode(message) for message in messages]))
    array = MsgspecArrayCodec()
    ready = [array.prepare(message) for message in messages]
    timed.append(Timed("msgspec, fields by position", "encode", array.encode, ready))
    timed.append(Timed("msgspec, fields by position", "decode", array.decode, [array.encode(item) for item in ready]))
    protobuf = ProtobufCodec()
    timed.append(Timed("protobuf", "encode", protobuf.encode, messages))
    timed.append(Timed("protobuf", "decode", protobuf.decode, [protobuf.encode(message) for message in messages]))
    return timed


def ratios(timed: Timed, everything: list[Timed]) -> list[float]:
    """Compare with the yardstick, round by round; a view with its decoding, which is what it saves."""
    action = "decode" if timed.action == "view" else timed.action
    peer = next(other for other in everything if other.codec == YARDSTICK and other.action == action)
    return [mine / its for mine, its in zip(timed.seconds, peer.seconds, strict=True)]


def middle_half(values: list[float]) -> tuple[float, float]:
    """Give the quartiles."""
    quartiles = statistics.quantiles(values, n=4)
    return quartiles[0], quartiles[2]


# -- the report ------------------------------------------------------------------------------------------------------


def cell(everything: list[Timed], codec: str, action: str) -> tuple[str, str]:
    """Give the time and the ratio of one codec at one action."""
    timed = next((other for other in everything if other.codec == codec and other.action == action), None)
    if timed is None:
        return "", ""
    compared = ratios(timed, everything)
    low, high = middle_half(compared)
    return f"{statistics.median(timed.seconds) * 1e6:.2f}", f"{statistics.median(compared):.2f} ({low:.2f}-{high:.2f})"


def report(console: Console, case: str, everything: list[Timed]) -> None:
    """Print one case."""
    table = Table(title=f"{case}: µs a message, and as a multiple of msgspec", title_justify="left")
    table.add_column("codec")
    for action in ("encode", "decode", "view"):
        table.add_column(f"{action} µs", justify="right")
        table.add_column(f"x {YARDSTICK}", justify="right")
    for codec in dict.fromkeys(timed.codec for timed in everything):
        cells = [part for action in ("encode", "decode", "view") for part in cell(everything, codec, action)]
        table.add_row(codec, *cells)
    console.print(table)


def verdicts(console: Console, everything: list[Timed]) -> None:
    """Hold the typical case against the goals: V5's own, and that no other format is worse."""
    console.print(f"Goals for the {GOAL_CASE} message, as multiples of {YARDSTICK}:")
    for action, goal in GOALS.items():
        found = {
            timed.codec: statistics.median(ratios(timed, everything))
            for timed in everything
            if timed.action == action and timed.codec in WireFormat.__members__
        }
        shown = ", ".join(f"{codec} {ratio:.2f}" for codec, ratio in found.items())
        worse = [codec for codec, ratio in found.items() if ratio > found["V5"] * (1 + NOISE)]
        verdict = "met   " if all(ratio <= goal for ratio in found.values()) else "MISSED"
        beside = f"worse than V5 by over {NOISE:.0%}: {', '.join(worse)}" if worse else "none worse than V5"
        console.print(f"  {verdict} {action} at most {goal:g}: {shown} ({beside})")


def main(
    rounds: int = typer.Option(41, min=5, help="How often everything is timed."),
    seed: int = typer.Option(1, help="Seed of the messages."),
) -> None:
    """Time the codecs beside msgspec and protobuf."""
    console = Console(highlight=False, width=None if Console().is_terminal else 140)
    console.print(
        f"Python {platform.python_version()}, msgspec {msgspec.__version__}, {MESSAGES:,} different messages a case "
        f"({STRANGERS:,} where no list was seen before), {rounds} rounds, medians (middle half in brackets)"
    )
    measured: dict[str, list[Timed]] = {}
    for case, make in CASES.items():
        everything = contenders(make(random.Random(seed)))
        gc.collect()
        gc.disable()
        try:
            for timed in everything:
                timed.once()  # caches, branch predictors, and what the interpreter specialises
                timed.seconds.clear()
            for _ in track(range(rounds), description=case, console=console, transient=True):
                for timed in everything:
                    timed.once()
        finally:
            gc.enable()
        report(console, case, everything)
        measured[case] = everything
    verdicts(console, measured[GOAL_CASE])


if __name__ == "__main__":
    typer.run(main)
