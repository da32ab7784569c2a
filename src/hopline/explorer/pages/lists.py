"""Callbacks that were not answered, incidents, rejects, clocks and the audit, each a page."""

from __future__ import annotations

from collections.abc import Callable

from hopline.explorer import charts
from hopline.explorer.pages.context import Context, drawing
from hopline.explorer.parameters import MOST_ROWS
from hopline.explorer.questions import lists
from hopline.explorer.questions.clocks import clocks
from hopline.explorer.questions.lists import Listed
from hopline.message import printable
from hopline.pipeline.tables.findings import short

ROWS = 50
CHART_WIDTH = 1_000


def _list_page(question: Callable[..., Listed], template: str, choice: str) -> Callable[[Context], str]:
    def page(context: Context) -> str:
        parameters = context.parameters
        value = parameters.text(choice)
        limit = parameters.number("limit", ROWS, least=1, most=MOST_ROWS)
        offset = parameters.number("offset", 0)
        seen = context.answer(question, value, context.span, limit, offset)
        return context.render(template, seen=seen, value=value, choice=choice, limit=limit, offset=offset)

    return page


callbacks_page = _list_page(lists.callbacks, "callbacks.html", "outcome")
incidents_page = _list_page(lists.incidents, "incidents.html", "offence")
rejects_page = _list_page(lists.rejects, "rejects.html", "code")
audit_page = _list_page(lists.audit, "audit.html", "node")


def clocks_page(context: Context) -> str:
    """Return by how much the clocks differ."""
    seen = context.answer(clocks, context.span, context.parameters.text("reference"))
    rows = [
        {"node": printable(short(one.node), 40), "offset_us": one.offset_us, "bound_us": one.bound_us}
        for one in seen.nodes
    ]
    return context.render(
        "clocks.html",
        seen=seen,
        chart=drawing(charts.clock_offsets(rows, CHART_WIDTH)) if rows else "",
    )
