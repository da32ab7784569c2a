"""The report: the explorer's pages in one file, which needs no other file and makes no request.

Each part of the report is a page of the explorer, made by the same function and template, in another layout. What is
a link on a page is a link to another part here, or plain text where the report has no such part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hopline.explorer.live_tables import Snapshot, listed_state
from hopline.explorer.pages import journey as journey_page
from hopline.explorer.pages import lists, overview, topology
from hopline.explorer.pages.context import Context, render
from hopline.explorer.parameters import LONGEST_PARAMETER, Parameters
from hopline.explorer.presentation import environment, short_flow_id
from hopline.explorer.protobuf_bodies import ProtobufTypes
from hopline.explorer.questions.asking import has
from hopline.explorer.questions.journey import Journey, Several, journey
from hopline.explorer.questions.overview import overview as overview_of
from hopline.explorer.records import RecordedFrames
from hopline.message import HoplineError, printable
from hopline.query.files import without_password

WORST_JOURNEYS = 5
"""Journeys that are shown in full where none was chosen: those of the worst flows."""


class UnknownJourneyError(HoplineError):
    """No flow, or more than one, has an id that begins as was asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the report: which page it is, and what it shows."""

    id: str
    title: str
    path: str
    page: Callable[[Context], Any]
    table: str = "flows"  # without which there is nothing to show
    given: Mapping[str, str] = field(default_factory=dict)


PAGES = (
    Part("overview", "Overview", "/", overview.page),
    Part("topology", "Topology", "/topology", topology.page, "edges"),
    Part("callbacks", "Never answered", "/callbacks", lists.callbacks_page, "callbacks"),
    Part("incidents", "Incidents", "/incidents", lists.incidents_page, "incidents"),
    Part("rejects", "Rejects", "/rejects", lists.rejects_page, "rejects"),
    Part("clocks", "Clocks", "/clocks", lists.clocks_page, "skew"),
    Part("audit", "Audit", "/audit", lists.audit_page, "audit"),
)


@dataclass(frozen=True, slots=True)
class _PartContext(Context):
    """A page that is being made as a part of the report."""

    part: str
    pages: Mapping[str, str]  # ids of parts, by the path of the page that they are
    journeys: Mapping[str, str]  # ids of parts, by flow

    def link(self, path: str, **parameters: Any) -> str:
        """Return the address of a part; nothing where the report has none."""
        part = self.journeys.get(str(parameters.get("id"))) if path == "/journey" else self.pages.get(path)
        return f"#{part}" if part else ""

    def again(self, **_: Any) -> str:
        """Return nothing: a part has no other states."""
        return ""

    @property
    def surroundings(self) -> dict[str, Any]:
        """Return what the templates need to know of the report."""
        return {"layout": "part.html", "is_report": True, "part": self.part}


def make_report(location: str | Path, *, given: Mapping[str, str] | None = None, journeys: Sequence[str] = ()) -> str:
    """Return a report of the tables at a location, as one HTML document.

    Args:
        location: What `hopline pipeline run --out` wrote: a folder, or a URI.
        given: `from` and `to`, the span of time that it is about; all of the time where they are missing.
        journeys: Ids of flows, or their beginnings: only their journeys are shown, instead of everything.

    Raises:
        UnknownJourneyError: There is no such flow, or there are several.
        HoplineError: The tables cannot be read, or a time makes no sense.
    """
    snapshot = Snapshot(location, listed_state(location))
    try:
        return _report(snapshot, given or {}, journeys)
    finally:
        snapshot.close()


def _report(snapshot: Snapshot, given: Mapping[str, str], wanted: Sequence[str]) -> str:
    if wanted:
        shown = [_journey(snapshot, beginning) for beginning in wanted]
        parts = []
    else:
        shown = _worst_journeys(snapshot, given)
        parts = [part for part in PAGES if has(snapshot.tables, part.table)]
    part_of_flow: dict[str, str] = {}
    for number, seen in enumerate({one.id: one for one in shown}.values(), start=1):
        part = Part(f"journey-{number}", _title(seen), "/journey", journey_page.page, given={"id": seen.id})
        parts.append(part)
        part_of_flow |= {flow["flow_id"]: part.id for flow in seen.flows}
    templates = environment()
    drawn = []
    for part in parts:
        context = _PartContext(
            path=part.path,
            given={**given, **part.given},
            theme="auto",
            snapshot=snapshot,
            freshness="",
            frames=RecordedFrames(None),
            protobuf=ProtobufTypes(None),
            templates=templates,
            part=part.id,
            pages={one.path: one.id for one in parts if one.path != "/journey"},
            journeys=part_of_flow,
        )
        page = str(part.page(context)).replace(' href=""', "")  # the report has no part that they lead to
        drawn.append(Markup(page))  # noqa: S704 - made by our templates, which escape
    style = (files("hopline.explorer") / "static" / "style.css").read_text("utf-8")
    return render(
        templates,
        "report.html",
        contents=parts,
        parts=drawn,
        location=without_password(str(snapshot.tables.location)),
        span=Parameters(given).span(),
        style=Markup(style),  # noqa: S704 - a file of ours
        version=metadata.version("hopline"),
        written=datetime.now(UTC),
    )


def _worst_journeys(snapshot: Snapshot, given: Mapping[str, str]) -> list[Journey]:
    if not has(snapshot.tables, "flows"):
        return []
    worst = snapshot.answer(overview_of, Parameters(given).span()).worst_flows
    has_page = [row["flow_id"] for row in worst if len(row["flow_id"] or "") in range(1, LONGEST_PARAMETER + 1)]
    return [_journey(snapshot, flow_id) for flow_id in has_page[:WORST_JOURNEYS]]


def _journey(snapshot: Snapshot, beginning: str) -> Journey:
    seen = snapshot.answer(journey, beginning)
    if isinstance(seen, Several):
        found = ", ".join(map(printable, seen.ids)) or "none"
        raise UnknownJourneyError(f"{printable(beginning)!r}: expected one flow whose id begins so, found {found}")
    return seen


def _title(seen: Journey) -> str:
    return f"{printable(seen.whole['identity'] or 'Flow', 24)} {short_flow_id(seen.id)}"
