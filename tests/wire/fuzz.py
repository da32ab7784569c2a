"""Damage messages for as long as you like: ``make fuzz`` or ``python -m tests.wire.fuzz --minutes 5 --format v5``.

Every damaged message must be read or refused, with a `RemoteError` and nothing else, alike by the fast and the careful
path; what was read must survive being written and read again. A failure is saved as a hex file that
`hopline decode` shows.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import typer

from hopline import Message, WireFormat
from hopline.errors import LocalError
from hopline.wire import Layout, RemoteError, RoutingView, annotate, decode, detect, encode, layouts, peek
from hopline.wire.reader import Reader
from tests.fuzzing import Finding, fresh_seed, fuzz
from tests.wire.mutations import Frames, mutate
from tests.wire.vectors import cases

FUZZED = {
    "first": [layouts.FIRST, layouts.FIRST_TICKS],
    "v4": [layouts.V4, layouts.V5_INT32, layouts.V4A, layouts.V4B, layouts.V4C, layouts.V4D, layouts.V4E],
    "v5": [layouts.V5],
    "v6": [layouts.V6],
}


def finding(what: str, frames: Frames) -> Finding:
    """Return what must not happen, with the frames that made it happen."""
    source = "|".join(frame.hex() for frame in frames)
    return Finding(what, source, f"frames: {source}")


@dataclass
class Fuzzer:
    """Damages messages of one format and checks what becomes of them."""

    wire_format: str
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.wire_format}-{self.seed}")
        names = {layout.name for layout in FUZZED[self.wire_format]}
        self.corpus = [
            case.frames for case in cases("cases") if case.layout.name in names and len(case.raw["frames"]) > 1
        ]
        self.corpus = [frames for frames in self.corpus if sum(map(len, frames)) < 4096]
        self.corpus += [encode(typical(), layout) for layout in FUZZED[self.wire_format]]

    def run(self, times: int) -> None:
        for _ in range(times):
            frames = mutate(self.rng.choice(self.corpus), self.rng)
            if self.rng.random() < 0.05:  # half of one message, half of another
                other = self.rng.choice(self.corpus)
                frames = frames[: self.rng.randrange(len(frames) + 1)] + other[self.rng.randrange(len(other)) :]
            self.outcomes[check(frames, self.rng.choice((layouts.FIRST, layouts.FIRST_TICKS)))] += 1
            if self.rng.random() < 0.02:
                self.corpus[self.rng.randrange(len(self.corpus) // 2)] = frames or self.corpus[0]  # damage on damage


def typical() -> Message:
    """A message with something in every field."""
    guid = b"6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    message = Message.create(b"ORDER.PRICE", b"{}" * 20, partition=b"eu", correlation_id=guid)
    message = message.with_receiver_actor(guid, b"\x01" + guid)
    message = message.register_callback_point(guid, b"\x00" + guid, [message.identifier, Message(b"X").identifier], 42)
    message = message.push_router_address("tcp://10.0.0.1:9000", guid).push_router_address("tcp://10.0.0.2:9000", guid)
    return message.add_hop().clone(signature=b"s" * 16, domain="orders", trace_options=1, ttl_ticks=300_000_000)


def check(frames: Frames, first: Layout) -> str:
    """Hold one string of frames against every promise; give the outcome."""
    read = attempt(frames, "decode", lambda: decode(frames, first=first))
    careful = attempt(frames, "Reader", lambda: Reader(frames, detect(frames, first=first)).read())
    view = attempt(frames, "peek", lambda: peek(frames, first=first))
    annotation = annotate(frames, first=first)
    if isinstance(read, RemoteError):
        if not isinstance(careful, RemoteError) or careful.args != read.args or annotation.fault is None:
            raise finding(f"decode says {read}, the careful reader {careful}", frames)
        return read.reason
    if read != careful or read != annotation.message:
        raise finding(f"decode reads {read}, the careful reader {careful}", frames)
    fields = [getattr(read, name) for name in RoutingView._fields[:-1]]
    if isinstance(view, RemoteError) or list(view[:-1]) != fields:
        raise finding(f"decode reads {read}, peek {view}", frames)
    survives(read, frames, first)
    return "read"


def attempt(frames: Frames, what: str, action):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Give the result or the `RemoteError`; anything else is a finding."""
    try:
        return action()
    except RemoteError as error:
        return error
    except Exception as error:
        raise finding(f"{what} raised {error!r}", frames) from error


def survives(message: Message, frames: Frames, first: Layout) -> None:
    """Write what was read and read it again: the same message, unless its format cannot write it at all."""
    layout = first if message.wire_format is WireFormat.FIRST else detect(frames)
    try:
        written = encode(message, layout)
    except LocalError:
        return
    again = attempt(frames, "decode again", lambda: decode(written, first=first))
    strip = {"routing": tuple((entry.uri.rstrip("/"), entry.identity) for entry in message.routing)}
    if isinstance(again, RemoteError) or again.clone(**strip) != message.clone(**strip):
        raise finding(f"{message} came back as {again}", frames)


def main(
    minutes: float = typer.Option(5, help="How long, for each format."),
    wire_format: list[str] = typer.Option(list(FUZZED), "--format", help="Which formats."),  # noqa: B008
    seed: int | None = typer.Option(None, help="Start from this seed instead of a fresh one."),
) -> None:
    """Damage messages until the time is up, or until something breaks."""
    seed = fresh_seed() if seed is None else seed
    typer.echo(f"seed {seed}, {minutes:g} min for each of {', '.join(wire_format)}; Ctrl-C stops with what was found")
    path = Path(f"fuzz-{seed}.hex")
    for name in wire_format:
        fuzz(Fuzzer(name, seed), name, minutes, path, hint=f"; see it with: hopline decode {path}")
    typer.secho("nothing found", fg="green", bold=True)


if __name__ == "__main__":
    typer.run(main)
