"""The search for flows and journeys."""

from __future__ import annotations

from starlette.responses import RedirectResponse

from hopline.explorer.pages.context import Context
from hopline.explorer.parameters import MOST_ROWS
from hopline.explorer.questions.search import FLOWS, JOURNEYS, SORTS, Wanted, choices, ids_beginning, search

ROWS = 50


def page(context: Context) -> str | RedirectResponse:
    """Return what was searched for; an id that only one flow has, asked for in the head of a page, leads to it."""
    parameters = context.parameters
    query = parameters.text("q")
    if query and parameters.text("go"):
        ids = context.answer(ids_beginning, query, 2)
        if len(ids) == 1 or query in ids:
            return RedirectResponse(context.link("/journey", id=query if query in ids else ids[0]), 303)
    wanted = Wanted(
        kind=parameters.choice("kind", FLOWS, JOURNEYS),
        id=query,
        identity=parameters.text("identity"),
        node=parameters.text("node"),
        actor=parameters.text("actor"),
        outcome=parameters.text("outcome"),
        least_us=parameters.duration("least"),
        most_us=parameters.duration("most"),
        body=parameters.text("body"),
        span=context.span,
    )
    sort = parameters.choice("sort", *SORTS)
    limit = parameters.number("limit", ROWS, least=1, most=MOST_ROWS)
    offset = parameters.number("offset", 0)
    found = context.answer(search, wanted, sort, limit, offset)
    return context.render(
        "search.html",
        wanted=wanted,
        found=found,
        sort=sort,
        sorts=SORTS,
        limit=limit,
        offset=offset,
        choices=context.answer(choices),
        is_narrowed=any(value for name, value in context.given.items() if name not in ("kind", "sort", "go")),
    )
