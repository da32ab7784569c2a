"""Damage conversations for as long as you like: ``make fuzz`` or ``python -m tests.zmtp.fuzz --minutes 5``.

A connection must turn any bytes into events and raise nothing, and the same bytes into the same events and the same
output however they are cut into pieces. A failure is saved as a hex file: what the peer sent.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import typer

from tests.fuzzing import Finding, fresh_seed, fuzz
from tests.zmtp.conversations import Conversation, Outcome, conversation, damaged, outcome, random_chunks, summary

CORPUS = 300


def finding(what: str, said: Conversation) -> Finding:
    """Return what must not happen, with the conversation that made it happen."""
    source = said.stream.hex()
    return Finding(what, source, f"to a {said.ours.name} with {said.limits}: {source}")


@dataclass
class Fuzzer:
    """Damages conversations and checks what becomes of them."""

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.corpus = [conversation(self.rng) for _ in range(CORPUS)]

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
        raise finding(f"whole it is {whole}, in pieces of {[len(piece) for piece in pieces]} {in_pieces}", said)
    return summary(whole)


def attempt(said: Conversation, pieces: list[bytes]) -> Outcome:
    """Return what a connection makes of the pieces; an exception is a finding."""
    try:
        return outcome(said.ours, said.limits, pieces)
    except Exception as error:
        raise finding(f"receive raised {error!r}", said) from error


def main(
    minutes: float = typer.Option(5, help="How long."),
    seed: int | None = typer.Option(None, help="Start from this seed instead of a fresh one."),
) -> None:
    """Damage conversations until the time is up, or until something breaks."""
    seed = fresh_seed() if seed is None else seed
    typer.echo(f"seed {seed}, {minutes:g} min for zmtp; Ctrl-C stops with what was found")
    fuzz(Fuzzer(seed), "zmtp", minutes, Path(f"fuzz-zmtp-{seed}.hex"))
    typer.secho("nothing found", fg="green", bold=True)


if __name__ == "__main__":
    typer.run(main)
