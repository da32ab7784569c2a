"""Twenty seconds of what ``make fuzz`` does for as long as you like."""

from __future__ import annotations

import time

import pytest

from hopline import Message
from hopline.wire import RemoteError, decode
from tests.fuzzing import BATCH, Finding
from tests.wire import fuzz
from tests.wire.fuzz import FUZZED, Fuzzer

SECONDS_PER_FORMAT = 5
SEED = 1  # the same messages every day; ``make fuzz`` takes new ones


@pytest.mark.parametrize("wire_format", FUZZED)
def test_damaged_messages_are_read_or_refused_and_nothing_else_happens(wire_format: str) -> None:
    fuzzer = Fuzzer(wire_format, seed=SEED)
    started = time.monotonic()
    while time.monotonic() - started < SECONDS_PER_FORMAT:
        fuzzer.run(BATCH)
    assert fuzzer.outcomes["read"] > 0
    assert len(fuzzer.outcomes) > 5  # the damage is of many kinds


def test_the_same_seed_makes_the_same_messages() -> None:
    one, other = Fuzzer("v5", seed=1), Fuzzer("v5", seed=1)
    one.run(300)
    other.run(300)
    assert one.outcomes == other.outcomes


def test_a_defect_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(frames: list[bytes], **options: object) -> Message:
        if len(frames[-3]) == 7:
            raise IndexError("as if a bound had been forgotten")
        return decode(frames, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fuzz, "decode", careless)
    with pytest.raises(Finding, match="decode raised IndexError"):
        Fuzzer("v5", seed=1).run(20_000)


def test_refusals_carry_their_reason() -> None:
    with pytest.raises(RemoteError) as caught:
        decode([b"", b"garbage"])
    assert caught.value.reason in {"unknown_format"}
