"""The end of the demonstration at a terminal: the explorer's address, until a key is pressed.

The story before it is left out: tables that are there already take its place.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import environment
from tests.demo.test_demo import processes_that_mention
from tests.explorer.planted import write_planted
from tests.network.processes import LONGEST, until

# A terminal of its own, so that Ctrl-C reaches it and whatever it starts, as from a keyboard.
PROGRAM = """
import fcntl, shutil, sys, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from hopline.cli import main
from hopline.demo.run import _Demo

tables = sys.argv.pop(1)


def run(demo):
    demo._captures.mkdir()
    shutil.copytree(tables, demo._tables)


_Demo.run = run
sys.argv[0] = "hopline"
main()
"""
ENTER, CTRL_C, CTRL_D = b"\r", b"\x03", b"\x04"


class Terminal:
    """A program at a terminal: what it shows, and the keys that are pressed."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.shown = ""
        self._descriptor = descriptor

    def press(self, key: bytes) -> None:
        os.write(self._descriptor, key)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + LONGEST
        while text not in self.shown:
            assert self._read(deadline), f"no {text!r} in {self.shown!r}"

    def end(self) -> int:
        deadline = time.monotonic() + LONGEST
        while self._read(deadline):
            pass
        return self.process.wait(LONGEST)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], max(deadline - time.monotonic(), 0))
        data = b""
        if ready:
            with suppress(OSError):  # nobody is at the other side any more
                data = os.read(self._descriptor, 4_096)
        self.shown += data.decode(errors="replace")
        return bool(data)


@contextmanager
def demo_at_a_terminal(home: Path, tables: Path, *options: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, str(tables), "demo", "--directory", str(home), *options]
    try:
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment()
        ) as process:
            os.close(theirs)
            try:
                yield Terminal(process, ours)
            finally:
                process.kill()
    finally:
        os.close(ours)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_planted(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize("key", [ENTER, CTRL_C, CTRL_D], ids=["enter", "ctrl-c", "ctrl-d"])
def test_the_explorer_is_served_until_a_key_is_pressed(tmp_path: Path, tables: Path, key: bytes) -> None:
    home = tmp_path / "evening"
    with demo_at_a_terminal(home, tables) as terminal:
        terminal.wait_for("until you press Enter")
        address = re.search(r"http://127\.0\.0\.1:\d+/", terminal.shown)
        assert address, terminal.shown
        assert "<title>Overview" in httpx.get(address[0], timeout=LONGEST).text
        terminal.press(key)
        assert terminal.end() == 0
    assert "Traceback" not in terminal.shown
    with pytest.raises(httpx.ConnectError):
        httpx.get(address[0], timeout=LONGEST)
    until(lambda: not processes_that_mention(str(home)), longest=LONGEST, what="the end of the explorer")
    assert (home / "tables" / "flows").is_dir(), "what the demo made stays"


def test_nobody_is_waited_for_without_the_explorer(tmp_path: Path, tables: Path) -> None:
    with demo_at_a_terminal(tmp_path / "evening", tables, "--no-explore") as terminal:
        assert terminal.end() == 0
    assert "http://" not in terminal.shown
