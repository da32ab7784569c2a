"""Standard output that is closed, full, of another encoding, or read no further; and Ctrl-C while everything starts."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hopline._starting import INTERRUPTED, is_command_line
from tests.network.processes import LONGEST
from tests.query.written import flow, write_table, write_tables

HOPLINE = str(Path(sys.executable).with_name("hopline"))
VECTORS = str(Path(__file__).parents[1] / "data" / "vectors" / "v4.json")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("tables"))


def shell(script: str) -> subprocess.CompletedProcess[str]:
    script = f"set -o pipefail; {script.replace('hopline', shlex.quote(HOPLINE), 1)}"
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, errors="replace", check=False, timeout=LONGEST
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_without_the_letters_gets_escapes(out: Path, encoding: str) -> None:
    for arguments in (f"tables {out}", f"tables {out} flows --wide", f"pipeline summary {out}"):
        done = shell(f"PYTHONIOENCODING={encoding} hopline {arguments}")
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert "\\u" in done.stdout or "\\x" in done.stdout or encoding == "latin-1"


def test_json_is_json_in_every_encoding(tmp_path: Path) -> None:
    write_table(tmp_path, "flows", [flow("café 😀", "failed", 1)])
    done = shell(f"PYTHONIOENCODING=ascii hopline tables {tmp_path} flows --json")
    assert json.loads(done.stdout)["flow_id"] == "café 😀"


@pytest.mark.parametrize("arguments", ["tables {out}", "tables {out} flows --json", "tables {out} flows"])
def test_whoever_has_seen_enough_ends_a_command_without_an_error(out: Path, arguments: str) -> None:
    done = shell(f"hopline {arguments.format(out=out)} | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", ["tables {out}", "decode --limit 1 {vectors}", "--help"])
def test_an_output_that_is_closed_is_none(out: Path, arguments: str) -> None:
    done = shell(f"hopline {arguments.format(out=out, vectors=VECTORS)} >&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("arguments", ["tables {out}", "decode --limit 1 {vectors}", "--help"])
def test_an_output_that_is_full_is_one_line(out: Path, arguments: str) -> None:
    done = shell(f"hopline {arguments.format(out=out, vectors=VECTORS)} > /dev/full")
    assert done.returncode in (1, 2)
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


def run_interrupted(folder: Path, module: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that is interrupted while it imports a module."""
    blocker = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupt())
"""
    (folder / "sitecustomize.py").write_text(blocker, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST, env=environment)


@pytest.mark.parametrize("module", ["hopline.actors", "msgspec", "typer", "hopline.cli.commands.trace"])
@pytest.mark.parametrize("command", [[HOPLINE], [sys.executable, "-m", "hopline"]])
def test_an_interrupt_while_everything_is_imported_leaves_no_stack(
    tmp_path: Path, command: list[str], module: str
) -> None:
    done = run_interrupted(tmp_path, module, *command, "stats")
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


def test_an_interrupt_while_a_command_imports_what_it_needs_leaves_no_stack(tmp_path: Path, out: Path) -> None:
    done = run_interrupted(tmp_path, "duckdb", HOPLINE, "tables", str(out), "flows")
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


def test_a_program_that_imports_hopline_keeps_its_handler() -> None:
    program = "import signal, hopline; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LONGEST)
    assert done.stdout == "True\n"


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what runs in its background
    try:
        done = subprocess.run([HOPLINE, "--version"], capture_output=True, text=True, check=True, timeout=LONGEST)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.stdout.startswith("hopline ")


@pytest.mark.parametrize(
    ("arguments", "interpreter_arguments", "is_it"),
    [
        (["/usr/bin/hopline", "stats"], ["python", "/usr/bin/hopline", "stats"], True),
        (["-m", "stats"], ["python", "-X", "dev", "-m", "hopline", "stats"], True),
        (["-m", "hopline"], ["python", "-m", "shop", "hopline"], False),
        (["shop.py"], ["python", "shop.py"], False),
        (["-c"], ["python", "-c", "import hopline"], False),
        ([], ["python"], False),
    ],
)
def test_the_command_line_is_told_from_programs(
    arguments: list[str], interpreter_arguments: list[str], is_it: bool
) -> None:
    assert is_command_line(arguments, interpreter_arguments) is is_it
