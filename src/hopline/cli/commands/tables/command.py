"""``hopline tables``: query the tables of the pipeline in SQL, without starting Spark."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hopline.cli.errors import UsageError
from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.terminal import make_console, write_line
from hopline.display.frames import plural
from hopline.message import printable

if TYPE_CHECKING:
    from hopline.cli.commands.tables.rows import Layout
    from hopline.query.catalogue import WrittenTable
    from hopline.query.tables import Answer, Row, Tables

_CUT_ID = re.compile(r"_id *= *'[0-9a-f]{8,}'", re.IGNORECASE)

EPILOG = """
**Examples**

    hopline tables TABLES
    hopline tables TABLES flows --where "outcome = 'failed'"
    hopline tables TABLES flows --order-by "duration_us desc" --limit 5
    hopline tables TABLES flows --id 0f1e2d3c     # one row: all columns
    hopline tables TABLES messages --id 0f1e2d3c --order-by ts
    hopline tables TABLES hops --where "lost or transit_us > 1000000" \\
        --columns "sent_ts, transit_us / 1e6 as seconds"
    hopline tables TABLES messages --csv --limit 0 \\
        --where "ts between '2026-01-31 10:00' and '2026-01-31 10:05'"
    hopline tables TABLES \\
        --sql "select outcome, count(*) from flows group by outcome"
    hopline tables webhdfs://namenode:9870/lake/tables flows --schema

`--where`, `--columns`, `--order-by` and `--sql` take the SQL of DuckDB; every table is a view of the same name.
Times are UTC. Tables cannot be changed. `--open` shows how to open a table in Spark, DuckDB or pandas.
"""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The options that choose rows of a table and their order."""

    where: str | None = None
    id: str | None = None
    order_by: str | None = None


def tables_command(
    location: Annotated[
        str,
        typer.Argument(metavar="TABLES", help="What `hopline pipeline run --out` wrote: a folder, or a URI."),
    ],
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Name of a table. Default: list them all.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", help="Rows to show: a condition in SQL.")] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", help="Rows of one flow, node, actor or hub, by its id or the shortened id."),
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="Columns to show, as in a SELECT.")] = None,
    order_by: Annotated[
        str | None, typer.Option("--order-by", help="Sort order; `desc` for the largest first.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Maximum number of rows; 0 for all.")] = 20,
    sql: Annotated[str | None, typer.Option("--sql", help="Any query over all tables, instead of TABLE.")] = None,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="All columns, with ids and times in full, in lines of any length.")
    ] = False,
    vertical: Annotated[bool, typer.Option("--vertical", help="One line per column, one block per row.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row, for programs.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header, for programs.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Show the columns and what they mean.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Show how to open it in Spark, DuckDB or pandas.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show the tables that the pipeline has written, or the rows of one. Does not start Spark."""
    with pipeline_errors("tables", debug=debug):
        from hopline.cli.commands.tables.rows import Layout
        from hopline.query.catalogue import WrittenTable
        from hopline.query.tables import open_tables

        if sum((wide, vertical, as_json, as_csv)) > 1:
            raise UsageError("--wide, --vertical, --json and --csv exclude each other")
        layout = Layout(wide=wide, vertical=vertical, json=as_json, csv=as_csv)
        parts = _Parts(where, id_, order_by)
        if sql is not None and (table or columns or schema or open_ or parts != _Parts()):
            raise UsageError(
                "--sql is a whole query: remove TABLE, --where, --id, --columns, --order-by, --schema, --open"
            )
        if table is None and (columns or schema or parts != _Parts()):
            raise UsageError(f"name a table: hopline tables {printable(location)} TABLE …")
        with open_tables(location) as tables:
            if sql is not None:
                _show_answer(tables, sql, limit, layout)
            elif table is None:
                _list_tables(tables, layout, with_snippets=open_)
            elif open_:
                tables.require(table)
                write_line("\n".join(snippets(location, table)))
            elif schema:
                tables.require(table)
                _show_schema(WrittenTable(tables, table), layout)
            else:
                tables.require(table)
                _show_rows(tables, table, columns, parts, limit, layout)


tables_command.__doc__ = f"{tables_command.__doc__}\n{EPILOG}"


def _list_tables(tables: Tables, layout: Layout, *, with_snippets: bool) -> None:
    from hopline.cli.commands.tables.rows import write_rows
    from hopline.cli.pipeline_display import size_text
    from hopline.query.catalogue import written_tables

    written = written_tables(tables)
    if layout.for_programs:
        rows = []
        for table in written:
            days = [str(day) for day in table.days]
            rows.append((table.name, table.rows, days, len(table.files), table.bytes, table.meaning))
        write_rows(("table", "rows", "days", "files", "bytes", "meaning"), rows, layout)
        return
    drawn = Table("table", "rows", "days", "size", "what a row is", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for index in (1, 3):
        drawn.columns[index].justify = "right"
    for table in written:
        drawn.add_row(
            table.name,
            f"{table.rows:,}",
            _days_text(table),
            size_text(table.bytes),
            table.meaning,
        )
    make_console().print(drawn)
    location = str(tables.location)
    name = "flows" if "flows" in tables.names else tables.names[0]
    if with_snippets:
        write_line("\n".join(snippets(location, name)))
    else:
        write_line(f"\nShow a table:  hopline tables {shlex.quote(location)} {name}")


def _days_text(table: WrittenTable) -> str:
    days = table.days
    if len(days) <= 1:
        return "".join(map(str, days))
    return f"{days[0]} … {days[-1]} ({len(days)})"


def snippets(location: str | Path, table: str) -> list[str]:
    """Return the lines that open a table in Spark, DuckDB and pandas."""
    is_uri = "://" in str(location)
    if is_uri:
        folder = f"{location}/{table}"
    else:
        path = Path(location) / table
        folder = str(path.absolute())
    return [
        "# Spark",
        f"{table} = spark.read.parquet({folder!r})",
        "# DuckDB",
        f"{table} = duckdb.sql({_duckdb(folder)!r})",
        "# pandas",
        f"{table} = pandas.read_parquet({folder!r})",
    ]


def _duckdb(folder: str) -> str:
    pattern = f"{folder}/*/*.parquet".replace("'", "''")
    return f"select * from read_parquet('{pattern}', hive_partitioning = true)"  # noqa: S608 - for the user to run


def _show_schema(table: WrittenTable, layout: Layout) -> None:
    from hopline.cli.commands.tables.rows import write_rows

    if layout.for_programs:
        rows = [(column.name, column.type, column.meaning) for column in table.columns]
        write_rows(("column", "type", "meaning"), rows, layout)
        return
    write_line(f"{table.name}: {table.meaning}\n")
    drawn = Table("column", "type", "meaning", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in table.columns:
        drawn.add_row(column.name, column.type, column.meaning)
    make_console().print(drawn)


def _brief_columns(tables: Tables, table: str) -> str:
    from hopline.pipeline.tables.all import TABLES

    existing = tables.columns(table)
    names = [name for name in TABLES[table].shown_first if name in existing]
    return ", ".join(names) or "*"


def _show_answer(tables: Tables, sql: str, limit: int, layout: Layout) -> None:
    from hopline.cli.commands.tables.rows import show_rows

    answer = tables.ask(sql)
    if layout.for_programs:
        _write_rows(answer, limit, layout)
        return
    rows, has_more = _first_rows(answer, limit)
    show_rows(make_console(), answer.columns, answer.types, rows, layout)
    if has_more:
        write_line(f"the first {len(rows):,} rows; --limit 0 shows all")
    else:
        write_line(plural(len(rows), "row"))


def _show_rows(
    tables: Tables,
    table: str,
    columns: str | None,
    parts: _Parts,
    limit: int,
    layout: Layout,
) -> None:
    from hopline.cli.commands.tables.rows import Shortening, show_rows
    from hopline.query.short_ids import find_id
    from hopline.query.tables import Selection

    brief = _brief_columns(tables, table) if layout.is_brief else "*"
    selection = Selection(table, columns or brief, parts.where, parts.order_by)
    selection.check(tables)
    parameters = []
    if parts.id is not None:
        match = find_id(tables, table, parts.id)
        selection = replace(selection, equal_to_id=match.columns)
        parameters = [match.value]
    answer = tables.ask(selection.question(_one_more(limit)), parameters)
    if layout.for_programs:
        _write_rows(answer, limit, layout)
        return
    rows, has_more = _first_rows(answer, limit)
    count = len(rows)
    if has_more:
        ((count,),) = tables.ask(selection.count(), parameters).fetch()
    if count == 1 and columns is None:
        whole_row = replace(selection, columns="*")
        answer = tables.ask(whole_row.question(1), parameters)
        rows = answer.fetch()
        layout = replace(layout, vertical=True)
    notes = show_rows(
        make_console(),
        answer.columns,
        answer.types,
        rows,
        layout,
        Shortening(tables, table),
    )
    if not rows and _CUT_ID.search(parts.where or ""):
        notes = ["Use --id, not --where, to find a shortened id."]
    where = f" where {printable(parts.where)}" if parts.where else ""
    total = plural(count, "row")
    summary = f"{len(rows):,} of {total} of {table}{where}"
    write_line("\n".join([*notes, summary]))


def _write_rows(answer: Answer, limit: int, layout: Layout) -> None:
    """Write rows for programs as they are read, and warn on standard error if there are more."""
    from hopline.cli.commands.tables.rows import write_rows

    rows = answer.rows()
    write_rows(answer.columns, islice(rows, limit) if limit else rows, layout)
    if limit and next(rows, None) is not None:
        typer.echo(f"hopline tables: only the first {limit:,} rows; --limit 0 writes all", err=True)


def _first_rows(answer: Answer, limit: int) -> tuple[list[Row], bool]:
    """Return the rows to show, and whether there are more."""
    rows = answer.fetch(_one_more(limit))
    if limit and len(rows) > limit:
        return rows[:limit], True
    return rows, False


def _one_more(limit: int) -> int | None:
    """Return the number of rows to ask for, to see whether there are more than a limit; None for all."""
    return limit + 1 if limit else None
