"""The pages of the tables: their columns are those of the schemas, and their example queries can be asked."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tools import table_pages
from typer.testing import CliRunner

from hopline.cli import app
from hopline.pipeline.tables.all import TABLES
from tests.query.written import write_tables

PAGES = {table: table_pages.page_of(table) for table in TABLES}


def commands() -> list[str]:
    pages = [*PAGES.values(), table_pages.INDEX, table_pages.PIPELINE]
    return [command for page in pages for command in table_pages.commands_on(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("pages") / "tables")


def test_columns_and_tables_are_those_of_the_schemas() -> None:
    for path, text in table_pages.generate().items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is stale: make generate"


@pytest.mark.parametrize("table", TABLES)
def test_every_page_explains_its_table_and_shows_a_query_with_its_result(table: str) -> None:
    page = PAGES[table].read_text(encoding="utf-8")
    assert page.startswith(f"# `{table}`\n")
    assert "\n## How it is computed\n" in page
    asked = table_pages.commands_on(page)
    assert any(f"tables TABLES {table} " in command for command in asked)
    assert any("--sql" in command for command in asked)
    assert "row" in page.partition(asked[0])[2].partition("```")[0]


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_meaning(table: str) -> None:
    for field in TABLES[table].schema:
        assert field.metadata["comment"], field.name


@pytest.mark.parametrize("command", commands(), ids=lambda command: command[:60])
def test_the_queries_on_the_pages_can_be_asked(command: str, tables: Path) -> None:
    hopline, *arguments = shlex.split(command.replace("\\\n", ""))
    if "|" in arguments:
        arguments = arguments[: arguments.index("|")]  # what another command does with the result
    assert hopline == "hopline"
    if "--id" in arguments:
        at = arguments.index("--id")
        del arguments[at : at + 2]  # these tables have other ids
    arguments[arguments.index(table_pages.PLACE)] = str(tables)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def test_results_are_written_below_their_commands() -> None:
    page = "before\n\n```text\n$ hopline tables TABLES \\\n    flows\nold\nrows\n```\n\n```text\nhopline other\n```\n"
    written = table_pages.with_results(page, lambda command: f"result of {command.split()[-1]}")
    assert written == page.replace("old\nrows", "result of flows")


def test_a_page_without_a_place_for_its_columns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_pages, "DOCS", tmp_path)
    (tmp_path / "tables").mkdir()
    for table in TABLES:
        (tmp_path / "tables" / f"{table}.md").write_text("# nothing\n")
    with pytest.raises(ValueError, match=r"messages\.md: expected one line <!-- columns: "):
        table_pages.generate()
