"""The command `hopline generate`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT

import pytest
from typer.testing import CliRunner, Result

from hopline.cli import app
from tests.cli.commands import Command, environment
from tests.network.processes import LONGEST

WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from hopline.cli import main
sys.argv = ["hopline", "generate", "out"]
main()
"""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["generate", *arguments])


def test_the_command_reports_what_it_generated(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = invoke(out, "--messages", "2000", "--faults", "none", "--fault", "late=0.05")
    assert done.exit_code == 0, done.stderr
    assert "2,00" in done.stdout
    assert "late" in done.stdout
    assert (tmp_path / "out" / "keys" / "hopline.toml").is_file()
    again = invoke(out, "--messages", "2000")
    assert (again.exit_code, again.stdout) == (2, "")
    assert again.stderr.startswith("hopline generate: out: expected an empty or new directory")
    assert invoke(out, "--messages", "2000", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--messages", "5"), "1,000 to 100,000,000"),
        (("--fault", "lost"), "NAME=SHARE"),
        (("--fault", "rust=1"), "expected one of lost"),
        (("--faults", "some"), "all or none"),
        (("--formats", "v7"), "first, v4, v5, v6"),
        (("--level", "some"), "full or wire"),
    ],
)
def test_invalid_arguments_are_one_line_of_error(tmp_path: Path, arguments: tuple[str, str], error: str) -> None:
    done = invoke(str(tmp_path / "out"), *arguments)
    assert done.exit_code == 2
    assert error in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_interrupted_command_leaves_nothing_behind(tmp_path: Path) -> None:
    with Command(tmp_path, "generate", "out", "--messages", "50000000") as command:
        ends = time.monotonic() + LONGEST
        while not (tmp_path / "out" / ".generating").exists():
            assert time.monotonic() < ends
            time.sleep(0.01)
        assert command.stop(SIGINT) == 130
        assert "interrupted: nothing was written" in command.lines[-1]
    assert not (tmp_path / "out").exists()


def test_without_numpy_the_error_names_the_extra_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMPY],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hopline generate needs numpy: pip install 'hopline[generator]'\n"
