"""One journey: timeline, sequence diagram, hops and records."""

from __future__ import annotations

from hopline.explorer.drawings.clock_alignment import Alignment
from hopline.explorer.drawings.sequence import sequence
from hopline.explorer.drawings.timeline import flow_levels, timeline
from hopline.explorer.pages.context import Context, NotFoundError
from hopline.explorer.parameters import ParameterError
from hopline.explorer.questions.asking import Row
from hopline.explorer.questions.journey import LISTED, Several, journey
from hopline.message import printable

# The values of the parameter `clocks`.
ALIGNED = "aligned"
RECORDED = "recorded"


def page(context: Context) -> str:
    """Return the page of a journey: its timeline, its sequence diagram and its records."""
    beginning = context.parameters.text("id")
    if not beginning:
        raise ParameterError("which journey? The address has no id: /journey?id=…, or search for one")
    clocks = context.parameters.choice("clocks", ALIGNED, RECORDED)
    seen = context.answer(journey, beginning)
    if isinstance(seen, Several):
        if not seen.ids:
            raise NotFoundError(f"no flow's id is, or begins with, {printable(beginning)!r}")
        return context.render(
            "several.html",
            beginning=beginning,
            ids=seen.ids[:LISTED],
            more=len(seen.ids) > LISTED,
        )
    alignment = Alignment(seen.clocks if clocks == ALIGNED else {})
    nodes = sorted({record["node"] for record in seen.records if record["node"]})

    def time_key(record: Row) -> tuple[int, str, int]:
        time = alignment.us(record["ts"], record["node"])
        return time, record["node"] or "", record["seq"] or 0

    records = [record for record in seen.records if record["ts"] is not None]
    records.sort(key=time_key)
    return context.render(
        "journey.html",
        seen=seen,
        clocks=clocks,
        levels=flow_levels(seen.flows),
        timeline=timeline(seen, alignment),
        sequence=sequence(seen, alignment),
        records=records,
        node_clocks=[(node, seen.clocks.get(node)) for node in nodes],
    )
