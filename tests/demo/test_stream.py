"""The stream beside the shop: how it is ended, and what is said of its tables."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from hopline.demo.processes import DemoError, Process
from hopline.demo.run import DemoOptions, _Demo, _wrapped_command
from tests.explorer.planted import write_planted

# As a stream: the first SIGTERM lets it finish, which takes a time, and the second one interrupts it.
PROGRAM = """
import signal, sys, time

received = []
signal.signal(signal.SIGTERM, lambda *_: received.append(1) if not received else sys.exit(3))
print("ready", flush=True)
while not received:
    time.sleep(0.01)
time.sleep(float(sys.argv[1]))
"""


def stream_that_takes(seconds: float, tmp_path: Path) -> Process:
    process = Process("stream", [sys.executable, "-c", PROGRAM, str(seconds)], tmp_path / "stream.log")
    process.wait_for("ready")
    return process


def test_a_stream_that_is_stopped_is_waited_for(tmp_path: Path) -> None:
    process = stream_that_takes(0.1, tmp_path)
    process.lower_priority()
    assert process.finish() == 0
    process.interrupt()  # has ended, and is left alone
    process.close()


def test_a_stream_that_is_interrupted_does_not_finish(tmp_path: Path) -> None:
    process = stream_that_takes(3_600, tmp_path)
    process.interrupt()
    assert process.wait() == 3
    process.close()


def demo_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[_Demo, io.StringIO]:
    """Return a demonstration whose stream has made tables, and in which no batch job is started."""
    told = io.StringIO()
    demo = _Demo(DemoOptions(tmp_path), Console(file=told, width=80))

    def no_output(*_: str) -> Iterator[str]:
        return iter(())

    monkeypatch.setattr(demo, "_output_of", no_output)
    write_planted(tmp_path / "tables")
    return demo, told


def test_equal_tables_are_confirmed_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, told = demo_over(tmp_path, monkeypatch)
    write_planted(tmp_path / "batch")
    demo._confirm()
    assert re.search(r"the stream's 13 tables are equal to the batch job's: [1-9]\d* rows", told.getvalue())


def test_a_difference_is_named_and_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, _ = demo_over(tmp_path, monkeypatch)
    write_planted(tmp_path / "batch", incidents=[{"node": "front", "offence": "unsigned"}])
    with pytest.raises(DemoError, match="incidents: 1 rows only of the stream, 1 only of the batch job"):
        demo._confirm()


def test_a_command_takes_as_few_lines_as_fit_and_keeps_options_without_a_value() -> None:
    words = ("$ hopline", "pipeline", "stream", "captures", "--final", "--out", "tables", "--verbose")
    assert list(_wrapped_command(*words)) == [" ".join(words)]
    assert list(_wrapped_command(*words, indent=30)) == [
        "$ hopline pipeline stream captures --final \\",
        "    --out tables --verbose",
    ]
