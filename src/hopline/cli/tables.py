"""``hopline tables``: what the pipeline has written, looked at in the terminal without starting Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from hopline.cli.console import UsageError, make_console, say
from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.message import printable

if TYPE_CHECKING:
    from hopline.pipeline.catalogue import WrittenTable

# What fits on a screen; everything else by --columns.
BRIEF = {
    "messages": "ts node event peer receiver_name handler identity flow_id hops bytes verdict",
    "rejects": "ts node event peer code frame_index detail",
    "hops": "sent_ts from_node to_node identity flow_id bytes transit_us skew_us skew_bound_us lost duplicate",
    "callbacks": "asked_ts asked_node identity asked_for answer_identity answered_by latency_us outcome flow_id",
    "flows": "start_ts flow_id identity origin outcome messages hops nodes duration_us skew_us critical_path",
    "handlers": "window_start node actor actor_name handler identity count errors wait_p99_us run_p50_us run_p99_us",
    "edges": "window_start kind source source_name target target_name identity count bytes errors lost transit_p99_us",
    "security": "window_start domain node peer verified unsigned bad_signature wrong_domain unknown_domain replayed",
    "incidents": "ts node peer offence domain identity flow_id",
    "skew": "date node_a node_b offset_us bound_us transits_ab transits_ba",
    "audit": "hour node records dropped missing rejects submitted received sent delivered balance balanced",
}


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


EPILOG = """
**Examples**

    hopline tables OUT
    hopline tables OUT flows --where "outcome = 'failed'" --order-by "duration_us desc"
    hopline tables OUT flows --where "flow_id = '0f1e'"        # one row: all of its columns, the path stage by stage
    hopline tables OUT hops --where "lost or transit_us > 1000000" --columns sent_ts,from_node,to_node,transit_us
    hopline tables OUT messages --where "ts between '2026-01-31 10:00' and '2026-01-31 10:05'" --format csv --limit 0
    hopline tables OUT flows --schema
    hopline tables OUT flows --open

`--where` takes comparisons, `and`, `or`, `not`, brackets, `in (…)`, `between`, `like` and `is null`; text stands in
single quotes, times are UTC. For more, `--open` says how to open the table in Spark, DuckDB or pandas.
"""


def tables_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that `hopline pipeline run --out` wrote.")],
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One of them; without, they are listed.")] = None,
    where: Annotated[str | None, typer.Option("--where", help="Which rows: a condition as in SQL.")] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Which columns, with commas between; * for all of them.")
    ] = None,
    order_by: Annotated[
        str | None,
        typer.Option("--order-by", help="Columns to sort by, with commas between; `desc` for the largest first."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many rows; 0 for all.")] = 20,
    format_: Annotated[Format, typer.Option("--format", "-f", help="For people or for programs.")] = Format.TABLE,
    schema: Annotated[bool, typer.Option("--schema", help="Show the columns and what they mean.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Show how to open it in Spark, DuckDB or pandas.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show the tables that the pipeline has written, or the rows of one. Spark is not started."""
    with pipeline_errors("tables", debug=debug):
        from hopline.pipeline.catalogue import written_table

        if table is None:
            if where or columns or order_by or schema:
                raise UsageError(f"of which table? hopline tables {out} TABLE …")
            list_tables(out, format_, with_snippets=open_)
            return
        found = written_table(out, table)
        if open_:
            say("\n".join(snippets(out, table)))
        elif schema:
            _show_schema(found, format_)
        else:
            _show_rows(found, where, columns, order_by, limit, format_)


tables_command.__doc__ = f"{tables_command.__doc__}\n{EPILOG}"


def list_tables(out: Path, format_: Format, *, with_snippets: bool) -> None:
    """List the tables in a folder."""
    from hopline.cli.pipeline_display import size_text
    from hopline.cli.table_rows import write_rows
    from hopline.pipeline.catalogue import written_tables

    found = written_tables(out)
    if format_ is not Format.TABLE:
        rows = [
            {
                "table": one.name,
                "rows": one.rows,
                "days": [str(day) for day in one.days],
                "files": len(one.files),
                "bytes": one.bytes,
                "meaning": one.meaning,
            }
            for one in found
        ]
        write_rows(rows, ["table", "rows", "days", "files", "bytes", "meaning"], as_json=format_ is Format.JSON)
        return
    table = Table("table", "rows", "days", "files", "size", "what a row is")
    for index in (1, 3, 4):
        table.columns[index].justify = "right"
    for one in found:
        table.add_row(
            one.name, f"{one.rows:,}", _days_text(one), f"{len(one.files):,}", size_text(one.bytes), one.meaning
        )
    make_console().print(table)
    name = "flows" if any(one.name == "flows" for one in found) else found[0].name
    if with_snippets:
        say("\n".join(snippets(out, name)))
    else:
        say(f"Look into one:  hopline tables {out} {name}     open it elsewhere:  hopline tables {out} {name} --open")


def _days_text(table: WrittenTable) -> str:
    days = table.days
    if not days:
        return ""
    return str(days[0]) if len(days) == 1 else f"{days[0]} … {days[-1]} ({len(days)})"


def snippets(out: Path, table: str) -> list[str]:
    """Write the lines that open a table in Spark, DuckDB and pandas."""
    folder = str((out / table).absolute())
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


def _show_schema(table: WrittenTable, format_: Format) -> None:
    from hopline.cli.table_rows import write_rows

    if format_ is not Format.TABLE:
        rows = [{"column": one.name, "type": one.type, "meaning": one.meaning} for one in table.columns]
        write_rows(rows, ["column", "type", "meaning"], as_json=format_ is Format.JSON)
        return
    drawn = Table("column", "type", "meaning", title=f"{table.name}: {table.meaning}", title_justify="left")
    for column in table.columns:
        drawn.add_row(column.name, column.type, column.meaning)
    make_console().print(drawn)


def _show_rows(
    table: WrittenTable, where: str | None, columns: str | None, order_by: str | None, limit: int, format_: Format
) -> None:
    from hopline.cli.table_rows import cell, down_the_page, write_rows
    from hopline.pipeline.where import condition

    expression = condition(where, table.schema) if where else None
    order = _order(order_by, table) if order_by else []
    wanted = _columns(columns, table, brief=format_ is Format.TABLE)
    count = table.dataset.count_rows(filter=expression)
    rows_shown = limit or max(count, 1)
    if format_ is not Format.TABLE:
        if order:
            rows = table.first_rows(wanted, expression, order, rows_shown).to_pylist()
        else:
            rows = table.rows_of(wanted, expression, rows_shown)
        write_rows(rows, wanted, as_json=format_ is Format.JSON)
        return
    console = make_console()
    if min(count, rows_shown) == 1 and columns is None:
        found = table.first_rows(table.schema.names, expression, order, 1).to_pylist()[0]
        console.print(down_the_page(found))
    elif count:
        drawn = Table(*wanted)
        for column, name in zip(drawn.columns, wanted, strict=True):
            column.overflow = "fold"
            column.justify = "right" if str(table.schema.field(name).type) in ("int64", "int32", "double") else "left"
        for row in table.first_rows(wanted, expression, order, rows_shown).to_pylist():
            drawn.add_row(*(Text(cell(name, row[name])) for name in wanted))
        console.print(drawn)
    shown = min(count, rows_shown)
    say(
        f"{shown:,} of {count:,} row{'' if count == 1 else 's'} of {table.name}"
        + (f" where {printable(where)}" if where else "")
    )


def _columns(text: str | None, table: WrittenTable, *, brief: bool) -> list[str]:
    if text is None and brief:
        return [name for name in BRIEF.get(table.name, "").split() if name in table.schema.names] or table.schema.names
    if text is None or text.strip() == "*":
        return list(table.schema.names)
    names = [name.strip() for name in text.split(",") if name.strip()]
    _check(names, table, "--columns")
    return names


def _order(text: str, table: WrittenTable) -> list[tuple[str, str]]:
    order = []
    for part in text.split(","):
        name, _, direction = part.strip().partition(" ")
        if direction.strip().lower() not in ("", "asc", "desc"):
            raise UsageError(f"--order-by: expected asc or desc behind {name}, found {direction.strip()!r}")
        order.append((name, "descending" if direction.strip().lower() == "desc" else "ascending"))
    _check([name for name, _ in order], table, "--order-by")
    return order


def _check(names: list[str], table: WrittenTable, option: str) -> None:
    for name in names:
        if name not in table.schema.names:
            raise UsageError(
                f"{option}: {table.name} has no column {name!r}; there are: {', '.join(table.schema.names)}"
            )
