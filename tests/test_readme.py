"""What the README shows, works: every code block is run, every file that it names is there."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopline import NodeSettings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [block for language, block in BLOCKS if language == "sh"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_there_are_only_blocks_that_can_be_run() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_the_python_blocks_run_one_after_the_other() -> None:
    variables: dict[str, Any] = {"__name__": "readme"}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "README.md", "exec"), variables)  # noqa: S102


def test_the_python_blocks_of_the_page_on_actors_run_too() -> None:
    page = (ROOT / "docs/actors.md").read_text(encoding="utf-8")
    variables: dict[str, Any] = {"__name__": "actors_page"}
    before = list(logging.getLogger().handlers)
    try:
        for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
            exec(compile(block, "docs/actors.md", "exec"), variables)  # noqa: S102
    finally:
        logging.getLogger().handlers[:] = before


def test_the_page_on_actors_names_every_setting_and_its_default() -> None:
    page = (ROOT / "docs/actors.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| ([\w.,]+) \|", page, flags=re.MULTILINE))
    settings = NodeSettings()
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        assert told[name] == ("no" if value is False else f"{value:,g}")


def test_the_first_program_is_under_fifteen_lines() -> None:
    program = next(block for language, block in BLOCKS if language == "python")
    assert "asyncio.run(main())" in program
    assert len([line for line in program.splitlines() if line.strip()]) < 15


@pytest.mark.timeout(900)
@pytest.mark.parametrize("commands", COMMANDS, ids=lambda block: block.split()[1])
def test_the_commands_of_a_block_run_one_after_the_other(commands: str) -> None:
    commands = commands.replace(
        "make ", "make --dry-run "
    )  # these would run this test again, or have tests of their own
    commands = commands.replace(".venv/bin/hopline", str(Path(sys.executable).with_name("hopline")))
    for command in commands.splitlines():
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_tour_of_the_wire_runs_to_its_end() -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            linked = (page.parent / target) if target else page
            assert heading in anchors(linked.read_text(encoding="utf-8")), f"{target}#{heading}"


def anchors(page: str) -> set[str]:
    """Return the names that headings have in links, as Markdown renderers make them."""
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
