"""The examples run, and show what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyarrow.dataset import dataset

from hopline.wire import RemoteError, decode

ROOT = Path(__file__).parent.parent

SHOWN = {
    "request_answer": [
        "42 / 8 = 5.25",
        "1 / 0 failed where it was calculated: ZeroDivisionError: division by zero",
        "6 * 7 reached nobody: unroutable: Multiply/1: nobody handles it; its flow waits for Quotient/1",
        "every message accounted for: True",
    ],
    "pipeline": [
        "2 x lamp: shipped for 5980 cents",
        "1 x chair: shipped for 8900 cents",
        "1 x sofa: no such thing as a sofa",
        "1 x chair: only 0 of chair left",
        "3 x lamp: shipped for 8970 cents",
    ],
    "broadcast": [
        "Corner wants 3490 cents",
        "Market wants 2990 cents",
        "best in time: Market; failed: ['RuntimeError: Closed is closed']",
        "stopped with 1 shop still thinking",
    ],
    "network": [
        "asking before anybody is there: the questions wait until somebody is found",
        "200 questions: A answered 100, B answered 100",
        "A is killed with questions in its hands: 200 of 200 came home or failed in time",
        "soon B answers all of them",
        "every message accounted for: True",
    ],
}


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_the_notebook_answers_its_questions_and_draws(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "examples/flows.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "messages +" in done.stdout
    assert "complete" in done.stdout
    assert "bad_signature" in done.stdout
    (home,) = tmp_path.glob("hopline-flows-*")
    for picture in ("time.svg", "latency.svg", "clocks.svg"):
        drawn = (home / picture).read_text()
        assert drawn.startswith("<svg")
        assert drawn.count("<path") > 5


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_the_stream_of_losses_counts_what_was_sent_and_never_received(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "examples/losses.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    (home,) = tmp_path.glob("hopline-losses-*")
    records = dataset(home / "captures").to_table(["ts", "event", "node", "peer", "frames"]).to_pylist()
    received = {(row["peer"], row["node"], *row["frames"]) for row in records if row["event"] == "received"}
    sent: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for row in records:
        if row["event"] == "sent" and is_message(row["frames"]):
            minute = f"{row['ts']:%H:%M}"
            sent[minute] += 1
            lost[minute] += (row["node"], row["peer"], *row["frames"]) not in received
    heading, *lines = done.stdout.splitlines()
    assert heading == f"losses in {home / 'captures'}, a line for each complete minute (UTC):"
    complete_minutes = sorted(sent)[: len(lines)]
    assert len(lines) >= 5
    assert lines == [f"{at}  {sent[at]:>6,} sent  {lost[at]:>4,} lost" for at in complete_minutes]


def is_message(frames: list[bytes]) -> bool:
    try:
        decode(frames)
    except RemoteError:
        return False
    return True


@pytest.mark.parametrize("example", SHOWN)
def test_an_example_shows_what_it_is_about(example: str) -> None:
    command = [sys.executable, f"examples/{example}.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SHOWN[example]


def test_the_tour_of_the_wire_runs_to_its_end() -> None:
    command = [sys.executable, "examples/wire_tour.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "signature valid: True" in done.stdout
    assert "signature valid: False" in done.stdout
    assert "--> n-3  ttl_ticks  too_short" in done.stdout
