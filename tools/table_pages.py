"""Write the derived parts of the pages in ``docs/reference/tables``: ``python -m tools.table_pages``.

Each table has a page. Its text is written by hand; the list of columns, between two markers, is made of the table's
schema. So is the list of tables in ``index.md`` there.

``python -m tools.table_pages --examples`` also runs the commands on the pages and writes their results below them. It
generates captures from a fixed seed and makes the tables of them, which takes a minute or two; ``--examples TABLES``
takes tables that were made of these captures before.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql.types import ArrayType, DataType, StructType

from hopline.pipeline.tables.all import TABLES

DOCS = Path(__file__).parent.parent / "docs" / "reference"
INDEX = DOCS / "tables" / "index.md"
PIPELINE = DOCS / "pipeline.md"  # has an example, and nothing derived
PLACE = "TABLES"  # stands for the location of the tables in the commands on the pages
CAPTURES = ("generate", "{home}", "--messages", "20000", "--seed", "7")
RUN = ("pipeline", "run", "{home}/captures", "--out", "{home}/tables", "--keys", "{home}/keys/hopline.toml")
WIDTH = 80

# A command may go on in the next line, after a backslash. Its result follows.
_EXAMPLE = re.compile(r"^```text\n\$ (hopline (?:[^\n]*\\\n)*[^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: made by tools/table_pages.py. Do not edit: make generate. -->", f"<!-- end of {name} -->"


def page_of(table: str) -> Path:
    """Return the path of a table's page."""
    return DOCS / "tables" / f"{table}.md"


def column_list(schema: StructType) -> str:
    """Return the columns of a table as a Markdown table."""
    columns = [f"| `{field.name}` | {type_text(field.dataType)} | {field.metadata['comment']} |" for field in schema]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *columns])


def type_text(type_: DataType) -> str:
    """Return the name of a type as SQL has it, and the fields of a struct by their names only."""
    if isinstance(type_, ArrayType):
        return f"array of {type_text(type_.elementType)}"
    if isinstance(type_, StructType):
        return f"struct ({', '.join(f'`{name}`' for name in type_.names)})"
    return type_.simpleString()


def table_list() -> str:
    """Return the tables, with what a row of each is, as a Markdown table."""
    tables = [f"| [`{table}`]({table}.md) | {TABLES[table].meaning} |" for table in TABLES]
    return "\n".join(["| table | what a row is |", "|---|---|", *tables])


def generate() -> dict[Path, str]:
    """Return every page with its derived part made anew.

    Raises:
        FileNotFoundError: A table has no page yet.
        ValueError: A page has no place for its derived part.
    """
    pages = {
        page_of(table): _with_part(page_of(table), "columns", column_list(TABLES[table].schema)) for table in TABLES
    }
    pages[INDEX] = _with_part(INDEX, "tables", table_list())
    pages[PIPELINE] = PIPELINE.read_text(encoding="utf-8")
    return pages


def _with_part(page: Path, name: str, part: str) -> str:
    text = page.read_text(encoding="utf-8")
    begin, end = _markers(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{page}: expected one line {begin} and one line {end}")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def commands_on(page: str) -> list[str]:
    """Return the commands whose results stand on a page."""
    return _EXAMPLE.findall(page)


def with_results(page: str, result_of: Callable[[str], str]) -> str:
    """Return a page with the result of each command written below it."""
    return _EXAMPLE.sub(lambda found: f"```text\n$ {found[1]}\n{result_of(found[1])}\n```", page)


def _with_examples(pages: Mapping[Path, str], tables: str) -> dict[Path, str]:
    if tables:
        return {path: with_results(text, lambda command: _result(command, tables)) for path, text in pages.items()}
    with tempfile.TemporaryDirectory() as home:
        for arguments in (CAPTURES, RUN):
            _run([sys.executable, "-m", "hopline", *(argument.format(home=home) for argument in arguments)])
        return _with_examples(pages, f"{home}/tables")


def _result(command: str, tables: str) -> str:
    output = _run(["bash", "-c", command.replace(PLACE, tables, 1)])
    lines = output.replace(tables, PLACE).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _run(command: list[str]) -> str:
    # Some commands on the pages end with an exit code on purpose: what counts is what they print.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"COLUMNS": str(WIDTH), "PATH": path}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
    if not done.stdout:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description="Write what is derived in the pages of the tables.")
    parser.add_argument("--examples", nargs="?", const="", metavar=PLACE, help="run the commands on the pages, too")
    tables = parser.parse_args().examples
    pages = generate()
    if tables is not None:
        pages = _with_examples(pages, tables)
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
