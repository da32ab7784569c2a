"""The examples run, and show what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.xdist_group("jvm")
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
