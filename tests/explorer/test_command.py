"""`hopline explore` as a process: it says where it is, answers, and stops when it is told."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals

import httpx
import pytest

from tests.cli.commands import Command, environment, run

EVERYWHERE = "0.0.0.0"  # noqa: S104 - on a port that nobody knows, for a moment
WITHOUT_STARLETTE = """
import sys
sys.modules["starlette"] = sys.modules["starlette.applications"] = None
sys.argv = ["hopline", "explore", "TABLES"]
from hopline.cli import main
main()
"""


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_it_says_its_address_answers_and_stops_cleanly(tmp_path: Path, planted_tables: Path, number: Signals) -> None:
    with Command(tmp_path, "explore", str(planted_tables), "--port", "0", "--no-open") as explorer:
        address = explorer.line("http://127.0.0.1:").split()[0]
        assert "Overview" in httpx.get(address, timeout=60).text
        assert explorer.stop(number) == 0
        assert len(explorer.lines) == 1, explorer.lines


def test_the_next_port_is_taken_where_the_usual_one_is_in_use(tmp_path: Path, planted_tables: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(tmp_path, "explore", str(planted_tables), "--port", str(port))
        assert done.returncode == 1
        assert "in use" in done.stderr
        assert "--port 0" in done.stderr
    with (
        Command(tmp_path, "explore", str(planted_tables)) as one,
        Command(tmp_path, "explore", str(planted_tables)) as two,
    ):
        addresses = {explorer.line("http://127.0.0.1:").split()[0] for explorer in (one, two)}
        assert len(addresses) == 2
        assert [one.stop(), two.stop()] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["nowhere"], 1, "nowhere: no such folder"),
        (["."], 1, "no tables in it"),
        (["TABLES", "--captures", "nowhere"], 2, "--captures: nowhere is not a folder"),
        (["TABLES", "--descriptor", "nowhere"], 1, "nowhere: No such file"),
        (["TABLES", "--host", "no.such.host.invalid"], 1, "cannot listen at no.such.host.invalid"),
    ],
)
def test_bad_input_gets_one_clear_line(
    tmp_path: Path, planted_tables: Path, arguments: list[str], code: int, problem: str
) -> None:
    given = [str(planted_tables) if argument == "TABLES" else argument for argument in arguments]
    done = run(tmp_path, "explore", *given)
    assert done.returncode == code
    assert done.stderr.startswith("hopline explore: ")
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


def test_a_missing_extra_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_STARLETTE],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'hopline[explorer]'")


def test_an_address_that_others_reach_is_warned_of(tmp_path: Path, planted_tables: Path) -> None:
    with Command(tmp_path, "explore", str(planted_tables), "--host", EVERYWHERE, "--port", "0") as explorer:
        explorer.line("everyone who can reach it can read the tables")
        assert explorer.stop() == 0
