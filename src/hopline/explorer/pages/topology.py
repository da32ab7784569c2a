"""The graph of nodes and actors."""

from __future__ import annotations

from hopline.explorer.drawings.graph import graph
from hopline.explorer.pages.context import Context
from hopline.explorer.questions.topology import CLASSES, INSTANCES, LOGICAL, PHYSICAL, topology

P95, ERRORS = "p95", "errors"


def page(context: Context) -> str:
    """Return the topology page."""
    parameters = context.parameters
    kind = parameters.choice("kind", PHYSICAL, LOGICAL)
    by = parameters.choice("by", CLASSES, INSTANCES)
    colour = parameters.choice("colour", P95, ERRORS)
    node = parameters.text("node")
    seen = context.answer(topology, kind, by, node, context.span)
    return context.render(
        "topology.html",
        seen=seen,
        kind=kind,
        by=by,
        colour=colour,
        node=node,
        graph=graph(seen.edges, colour),
    )
