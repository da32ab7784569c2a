"""What the README shows, works: every code block is run, every file that it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_there_are_only_blocks_that_can_be_run() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_the_python_blocks_run_one_after_the_other() -> None:
    variables: dict[str, Any] = {}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "README.md", "exec"), variables)  # noqa: S102


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run(command: str) -> None:
    if command.startswith("make "):  # these would run this test again, or run in a test of their own
        command = command.replace("make ", "make --dry-run ")
    command = command.replace(".venv/bin/hopline", str(Path(sys.executable).with_name("hopline")))
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_demo_runs_to_its_end() -> None:
    command = [sys.executable, "examples/wire_tour.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "signature valid: True" in done.stdout
    assert "signature valid: False" in done.stdout
    assert "--> n-3  ttl_ticks  too_short" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
