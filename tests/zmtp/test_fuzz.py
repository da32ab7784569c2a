"""A few seconds of what ``make fuzz`` does for as long as you like."""

from __future__ import annotations

import time

import pytest

from hopline.zmtp import Connection, Event
from tests.fuzzing import BATCH, Finding
from tests.zmtp.fuzz import Fuzzer

SECONDS = 5
SEED = 1  # the same conversations every day; ``make fuzz`` takes new ones


def test_damaged_conversations_become_events_and_nothing_else_happens() -> None:
    fuzzer = Fuzzer(SEED)
    started = time.monotonic()
    while time.monotonic() - started < SECONDS:
        fuzzer.run(BATCH)
    assert fuzzer.outcomes["ready"] > 0
    assert len(fuzzer.outcomes) > 15  # the damage is of many kinds


def test_the_same_seed_makes_the_same_conversations() -> None:
    one, other = Fuzzer(SEED), Fuzzer(SEED)
    one.run(300)
    other.run(300)
    assert one.outcomes == other.outcomes


def test_an_exception_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Connection.receive

    def careless(self: Connection, data: bytes) -> list[Event]:
        if b"\xff\xff" in data:
            raise IndexError("as if a bound had been forgotten")
        return receive(self, data)

    monkeypatch.setattr(Connection, "receive", careless)
    with pytest.raises(Finding, match="receive raised IndexError"):
        Fuzzer(SEED).run(20_000)


def test_a_difference_between_pieces_and_the_whole_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Connection.receive

    def careless(self: Connection, data: bytes) -> list[Event]:
        return [] if len(data) == 17 else receive(self, data)

    monkeypatch.setattr(Connection, "receive", careless)
    with pytest.raises(Finding, match="in pieces of"):
        Fuzzer(SEED).run(20_000)
