"""All tables, and the rows of one."""

from __future__ import annotations

from hopline.explorer.pages.context import Context
from hopline.explorer.parameters import MOST_ROWS
from hopline.explorer.presentation import FLOW_COLUMNS, NODE_COLUMNS
from hopline.explorer.questions.rows import table_rows
from hopline.query.catalogue import written_tables
from hopline.query.tables import Tables

ROWS = 50
_OWN = ("from", "to", "sort", "offset", "limit")


def tables_page(context: Context) -> str:
    """Return the list of tables."""
    return context.render("tables.html", tables=context.answer(_listed))


def _listed(tables: Tables) -> list[dict[str, object]]:
    return [
        {
            "name": table.name,
            "meaning": table.meaning,
            "rows": table.rows,
            "bytes": table.bytes,
            "days": table.days,
        }
        for table in written_tables(tables)
    ]


def page(context: Context) -> str:
    """Return rows of one table."""
    table = context.given["_table"]
    equal = tuple(
        (name, value)
        for name, value in context.given.items()
        if name not in _OWN and not name.startswith("_") and value
    )
    parameters = context.parameters
    limit = parameters.number("limit", ROWS, least=1, most=MOST_ROWS)
    offset = parameters.number("offset", 0)
    sort = parameters.text("sort")
    seen = context.answer(table_rows, table, equal, context.span, sort, limit, offset)
    return context.render(
        "rows.html",
        seen=seen,
        equal=equal,
        sort=sort,
        limit=limit,
        offset=offset,
        node_columns=NODE_COLUMNS,
        flow_columns=FLOW_COLUMNS,
    )
