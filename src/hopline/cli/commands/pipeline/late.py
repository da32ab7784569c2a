"""``hopline pipeline late``: the records that came too late for a stream."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from hopline.cli.options import DebugOption, JsonOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.terminal import make_console, write_json
from hopline.message import printable

SHOWN = 20


def late_command(
    location: Annotated[str, typer.Argument(metavar="TABLES", help="The folder of the tables, or a URI.")],
    as_json: JsonOption = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Groups that are shown, the largest first; 0: all.")
    ] = SHOWN,
    debug: DebugOption = False,
) -> None:
    """Name the records that came too late for a stream: by day, node and segment. Does not start Spark.

    They are in `messages`, but not part of what the other tables say, until their day is settled or a run replaces it.
    *flow*: their flow had been written. *window*: their flow had not, but their window was final.

    **Examples**

        hopline pipeline late tables
        # the records themselves
        hopline tables tables late
    """
    with pipeline_errors("pipeline late", debug=debug):
        from hopline.query.tables import open_tables

        with open_tables(location) as tables:
            tables.require("late")
            groups = list(
                tables.ask(
                    "select date, node, missed, segment, count(*) as records, min(ts) as first, max(ts) as last "
                    "from late group by all order by records desc, date, node, segment"
                ).records()
            )
        if as_json:
            for group in groups:
                write_json(group)
            return
        console = make_console()
        total = sum(group["records"] for group in groups)
        if not total:
            console.print("No record came too late.")
            return
        shown = groups[:limit] if limit else groups
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for header in ("day", "node", "missed", "records", "first", "segment"):
            table.add_column(header, justify="right" if header == "records" else "left", overflow="fold")
        for group in shown:
            table.add_row(
                str(group["date"]),
                printable(group["node"] or ""),
                group["missed"],
                f"{group['records']:,}",
                f"{group['first']:%H:%M:%S}",
                printable(group["segment"] or ""),
            )
        console.print(f"{total:,} records came too late")
        console.print(table)
        if len(shown) < len(groups):
            console.print(f"and {len(groups) - len(shown):,} more groups; --limit 0 shows all", style="dim")
