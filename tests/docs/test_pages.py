"""Every block of code in the documentation runs, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import cli_page

import hopline
from tests.docs.pages import ROOT, RUN, PageRun, blocks, free_port

DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
# The examples on the pages of the tables have a test of their own: tests/pipeline/test_table_pages.py.
PAGES_WITH_CODE = [
    page for page in PAGES if any(block.language in RUN for block in blocks(page.read_text(encoding="utf-8")))
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def needs(page: Path) -> str:
    """Return what a page needs before its first block runs: nothing, a network or captures."""
    named = re.search(r"^<!-- needs: (\w+) -->$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return named[1] if named else ""


@pytest.fixture
def environment() -> dict[str, str]:
    """Return an environment in which networks do not use the default port, which others may use at the same time."""
    address = f"tcp://127.0.0.1:{free_port() % 40_000 + 10_000}"
    return {"HOPLINE_NODE__RENDEZVOUS": f'["{address}"]', "HOPLINE_RENDEZVOUS__ADDRESS": address}


@pytest.mark.parametrize("page", [page for page in PAGES_WITH_CODE if not needs(page)], ids=name_of)
@pytest.mark.timeout(900)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    directory = ROOT if page == README else tmp_path
    PageRun(page, directory, environment).run()


@pytest.mark.timeout(600)
def test_the_pages_that_need_a_network_run_in_one(tmp_path: Path, environment: dict[str, str]) -> None:
    network = PageRun(README, tmp_path, environment)
    network.start("hopline node --app examples.greeter:Greeter --embedded --identity desk --capture captures")
    try:
        for page in PAGES_WITH_CODE:
            if needs(page) == "network":
                PageRun(page, tmp_path, environment).run()
    finally:
        network.stop()


@pytest.mark.timeout(900)
def test_the_pages_that_need_captures_share_them(tmp_path: Path, environment: dict[str, str]) -> None:
    generate = [sys.executable, "-m", "hopline", "generate", str(tmp_path), "--messages", "20000", "--seed", "7"]
    subprocess.run(generate, cwd=tmp_path, check=True, capture_output=True)
    for page in PAGES_WITH_CODE:
        if needs(page) == "captures":
            PageRun(page, tmp_path, environment).run()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(blocks(text)), "a fence is not at the start of its line, or not closed"
    for block in blocks(text):
        assert block.language in RUN or block.is_shown_only, f"line {block.line}: language {block.language!r}"
        if block.note.startswith("not run"):
            assert len(block.reason_not_to_run) > 10, f"line {block.line}: no reason"


def test_few_blocks_are_not_run() -> None:
    elsewhere = {"run-on-a-cluster.md"}  # clusters and storages that tests do not have
    skipped = [
        f"{name_of(page)}:{block.line}"
        for page in PAGES_WITH_CODE
        if page.name not in elsewhere
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.reason_not_to_run
    ]
    assert len(skipped) <= 8, skipped


def test_the_first_program_is_under_fifteen_lines() -> None:
    program = next(block.code for block in blocks(README.read_text(encoding="utf-8")) if block.language == "python")
    assert "asyncio.run(main())" in program
    assert len([line for line in program.splitlines() if line.strip()]) < 15


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the links of a page to other files and headings, outside of its blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)]+))?\)", text):
        if not target.startswith("http"):
            yield target, heading


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, heading in links(page):
        linked = (page.parent / target) if target else page
        assert linked.exists(), target
        if heading:
            assert heading in anchors(linked.read_text(encoding="utf-8")), f"{target}#{heading}"


def anchors(page: str) -> set[str]:
    """Return the names that headings have in links, as Markdown renderers make them."""
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "{toctree}":
                entries = [line for line in block.code.splitlines() if line and not line.startswith(":")]
                listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {(DOCS / "index.md").resolve()}
    assert pages == listed


def test_lines_of_text_are_not_longer_than_a_hundred_characters() -> None:
    generated = {"cli.md", "wire-formats.md"}
    too_long = []
    for page in PAGES:
        if page.name in generated:
            continue
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in text.splitlines() if not line.startswith(("|", "<!--", "!["))]
        too_long += [f"{name_of(page)}: {line}" for line in lines if len(line) > 100 and "](http" not in line]
    assert not too_long


def walks() -> list[str]:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = contributing.partition("## Five walks")[2].partition("\n## ")[0]
    return [paragraph for paragraph in section.split("\n\n") if paragraph.startswith("**")]


def test_there_are_five_walks() -> None:
    assert len(walks()) == 5


@pytest.mark.parametrize("walk", walks(), ids=lambda walk: walk.split("**")[1])
def test_a_walk_names_files_that_exist_and_none_twice(walk: str) -> None:
    files = re.findall(r"`([\w/]+\.py)`", walk)
    assert len(files) > 5
    assert len(files) == len(set(files))
    for file in files:
        assert (ROOT / "src/hopline" / file).exists(), file


def test_the_map_names_every_package() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = contributing.partition("## The map")[2].partition("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    packages = {path.parent.name for path in (ROOT / "src/hopline").glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)`", " ".join(first_cells))) == packages


def test_the_page_on_errors_names_every_public_error() -> None:
    page = (DOCS / "reference/errors.md").read_text(encoding="utf-8")
    errors = [name for name in hopline.__all__ if name.endswith("Error")]
    assert len(errors) > 5
    for name in errors:
        assert f"`{name}`" in page, name


def test_the_page_on_actors_names_every_setting_and_its_default() -> None:
    page = (DOCS / "reference/actors.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| ([\w.,]+) \|", page, flags=re.MULTILINE))
    settings = hopline.NodeSettings()
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        assert documented[name] == ("no" if value is False else f"{value:,g}")


def test_the_page_on_metrics_names_every_metric() -> None:
    page = (DOCS / "reference/metrics.md").read_text(encoding="utf-8")
    source = (ROOT / "src/hopline/metrics/collectors.py").read_text(encoding="utf-8")
    metrics = set(re.findall(r'"(hopline_\w+)"', source))
    assert len(metrics) > 20
    for name in metrics:
        assert name in page


def test_the_page_of_the_command_line_is_that_of_the_commands() -> None:
    page = cli_page.TARGET.read_text(encoding="utf-8")
    assert page == cli_page.generate(), "docs/reference/cli.md is stale: make generate"
