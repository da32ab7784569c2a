"""The demonstration as a user sees it: the command, in a process of its own, with everything that it starts."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from hopline.demo.processes import DemoError
from hopline.demo.run import DemoOptions, _Demo, prepare
from tests.network.processes import until

DEMO = [sys.executable, "-m", "hopline", "demo"]


def processes_that_mention(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_the_demo_runs_to_its_end_and_fits_the_screen(tmp_path: Path) -> None:
    home = tmp_path / "evening"
    command = [*DEMO, "--directory", str(home), "--orders", "600", "--rate", "80"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    assert "payments is killed" in told
    assert re.search(r"[\d,]+ records are in the tables, [\d,]+ were before; [\d,]+ came late", told)
    assert re.search(r"the stream's 13 tables are equal to the batch job's: [\d,]+ rows", told)
    assert "an attacker without a key sends to payments:" in told
    assert "12 forged, 5 of a foreign domain, 4 unsigned" in told
    assert re.search(r"12 x bad signature, from an unknown peer", told)
    assert re.search(r"5 x unknown domain, from an unknown peer", told)
    assert re.search(r"\d x replayed, from (front|warehouse)", told)
    assert "Which of the 600 orders did not complete, and why?" in told
    command_lines = re.findall(r"^    \$ hopline (.*)", told.replace("\\\n", ""), re.MULTILINE)
    assert len(command_lines) == 6
    for command_line in command_lines:
        words = [sys.executable, "-m", "hopline", *shlex.split(command_line)]
        digging = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert digging.returncode == 0, command_line + digging.stderr
        assert digging.stdout
    report_uri = (home / "report.html").resolve().as_uri()
    assert report_uri in told
    too_wide = [line for line in told.splitlines() if len(line) > 80 and report_uri not in line]
    assert not too_wide
    assert len(told.splitlines()) <= 76  # how many of the findings have a line of their own varies
    assert "Are all messages accounted for?" in (home / "report.html").read_text("utf-8")
    assert not processes_that_mention(str(home))


@pytest.mark.parametrize("moment", ["Place 2,000 orders", "is ready"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    home = tmp_path / "evening"
    out = tmp_path / "told.txt"
    with out.open("w") as told:
        demo = subprocess.Popen([*DEMO, "--directory", str(home)], stdout=told, stderr=told, start_new_session=True)
    begun: Callable[[], bool] = (
        (lambda: moment in out.read_text())
        if moment == "Place 2,000 orders"
        else lambda: (home / "logs/rendezvous.log").exists() and moment in (home / "logs/rendezvous.log").read_text()
    )
    try:
        until(begun, longest=120, what=moment)
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 130, out.read_text()
    finally:
        demo.kill()
        demo.wait()
        left = processes_that_mention(str(home))
        for process in left:
            os.kill(process, signal.SIGKILL)
    assert not left
    assert not home.exists()
    assert "Traceback" not in out.read_text()


def test_ctrl_c_right_after_the_incidents_began_ends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = ThreadPoolExecutor.submit

    def interrupted(pool: ThreadPoolExecutor, *arguments: Any) -> None:
        submit(pool, *arguments)
        raise KeyboardInterrupt

    demo = _Demo(DemoOptions(tmp_path), Console(file=io.StringIO()))
    processes: Any = SimpleNamespace(python=lambda *_, **__: None)
    ended: list[type[BaseException]] = []

    def trade() -> None:
        try:
            demo._place_orders(processes)
        except KeyboardInterrupt as interrupt:
            ended.append(type(interrupt))

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    trading = threading.Thread(target=trade, daemon=True)
    trading.start()
    trading.join(20.0)
    demo._is_over.set()  # whatever went wrong, nothing waits for ever
    assert ended == [KeyboardInterrupt]


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(DemoError, match="name another with --directory"):
        prepare(tmp_path)
    assert (tmp_path / "precious").read_text() == "mine"


def test_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    prepare(tmp_path / "evening")
    (tmp_path / "evening/captures").mkdir()
    prepare(tmp_path / "evening")
    assert not (tmp_path / "evening/captures").exists()
