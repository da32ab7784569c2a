"""Damage conversations for as long as you like: ``make fuzz`` or ``python -m tests.zmtp.fuzz --minutes 5``.

A connection must turn any bytes into events and raise nothing, and the same bytes into the same events and the same
output however they are cut into pieces. A failure is saved as a hex file: what the peer sent.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tests.zmtp.conversations import Conversation, Outcome, conversation, damaged, outcome, random_chunks, summary

BATCH = 200
CORPUS = 300


class Finding(AssertionError):  # noqa: N818
    """Something that must not happen, with the conversation that made it happen."""

    def __init__(self, what: str, said: Conversation) -> None:
        super().__init__(f"{what}\nto a {said.ours.name} with {said.limits}: {said.stream.hex()}")
        self.said = said


@dataclass
class Fuzzer:
    """Damages conversations and checks what becomes of them."""

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.corpus = [conversation(self.rng) for _ in range(CORPUS)]

    @property
    def executions(self) -> int:
        return self.outcomes.total()

    def run(self, times: int) -> None:
        for _ in range(times):
            said = damaged(self.rng.choice(self.corpus), self.rng)
            self.outcomes[check(said, random_chunks(said.stream, self.rng))] += 1
            if self.rng.random() < 0.02:
                self.corpus[self.rng.randrange(CORPUS // 2)] = damaged(said, self.rng)  # damage on damage
            elif self.rng.random() < 0.02:
                self.corpus[self.rng.randrange(CORPUS)] = conversation(self.rng)


def check(said: Conversation, pieces: list[bytes]) -> str:
    """Hold one conversation against every promise; return how it went."""
    whole = attempt(said, [said.stream])
    in_pieces = attempt(said, pieces)
    if in_pieces != whole:
        raise Finding(f"whole it is {whole}, in pieces of {[len(piece) for piece in pieces]} {in_pieces}", said)
    return summary(whole)


def attempt(said: Conversation, pieces: list[bytes]) -> Outcome:
    """Return what a connection makes of the pieces; an exception is a finding."""
    try:
        return outcome(said.ours, said.limits, pieces)
    except Exception as error:
        raise Finding(f"receive raised {error!r}", said) from error


def main(
    minutes: float = typer.Option(5, help="How long."),
    seed: int | None = typer.Option(None, help="Start from this seed instead of a fresh one."),
) -> None:
    """Damage conversations until the time is up, or until something breaks."""
    console = Console()
    if seed is None:
        seed = random.SystemRandom().randrange(2**32)
    console.print(f"seed {seed}, {minutes:g} min for zmtp; Ctrl-C stops with what was found")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:6}"),
        BarColumn(),
        TextColumn("{task.fields[done]:>12,}"),
        TimeElapsedColumn(),
    )
    fuzzer = Fuzzer(seed)
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("zmtp", total=minutes * 60, done=0)
            started = time.monotonic()
            while (elapsed := time.monotonic() - started) < minutes * 60:
                fuzzer.run(BATCH)
                progress.update(task, completed=elapsed, done=fuzzer.executions)
            progress.update(task, completed=minutes * 60)
        console.print("  " + ", ".join(f"{outcome} {count:,}" for outcome, count in fuzzer.outcomes.most_common()))
    except Finding as finding:
        path = Path(f"fuzz-zmtp-{seed}.hex")
        path.write_text(finding.said.stream.hex() + "\n", encoding="utf-8")
        console.print("[bold red]found[/]:", end=" ")
        console.print(f"{finding}\nsaved to {path}", markup=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print(f"stopped after {fuzzer.executions:,}")
        raise typer.Exit(130) from None
    console.print("[bold green]nothing found")


if __name__ == "__main__":
    typer.run(main)
