"""What mypy and pyright say of programs on Hopline: right ones pass, and each mistake is an error at its line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT, blocks

MISTAKES = ROOT / "tests" / "data" / "typing_mistakes.py"
RIGHT = ROOT / "tests" / "data" / "typing_right.py"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
README_TITLE = "## The first program"

_MYPY_ERROR = re.compile(r"(?P<file>.+?):(?P<line>\d+): error: (?P<text>.+)")


class Finding(NamedTuple):
    """An error that a type checker reports."""

    file: Path
    line: int
    text: str


def readme_program() -> str:
    """Return the first program of the README, with what the README adds to it."""
    readme = (ROOT / "README.md").read_text()
    chapter = readme.split(README_TITLE, 1)[1].split("\n## ", 1)[0]
    return "\n".join(block.code for block in blocks(chapter) if block.language == "python")


def mypy(files: list[Path], directory: Path) -> list[Finding]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run([*command, "--no-pretty", *map(str, files)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    errors = _MYPY_ERROR.finditer(done.stdout)
    return [Finding((ROOT / match["file"]).resolve(), int(match["line"]), match["text"]) for match in errors]


def pyright(files: list[Path], directory: Path) -> list[Finding]:
    """Run basedpyright as pyright is by default: it is the one that brings its own Node.js."""
    settings = {"include": list(map(str, files)), "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", str(directory)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr or done.stdout
    reports = json.loads(done.stdout)["generalDiagnostics"]
    return [
        Finding(Path(report["file"]).resolve(), report["range"]["start"]["line"] + 1, report["message"])
        for report in reports
        if report["severity"] == "error"
    ]


@pytest.mark.parametrize("check", [mypy, pyright])
def test_type_checkers_accept_right_programs_and_refuse_every_mistake(
    check: Callable[[list[Path], Path], list[Finding]], tmp_path: Path
) -> None:
    first_program = tmp_path / "first.py"
    first_program.write_text(readme_program())
    marked = {at for at, line in enumerate(MISTAKES.read_text().splitlines(), 1) if "# mistake: " in line}
    findings = check([first_program, MISTAKES, RIGHT, *EXAMPLES], tmp_path)
    assert [finding for finding in findings if finding.file != MISTAKES] == []
    assert {finding.line for finding in findings} == marked
    assert len(marked) > 20
