"""What every page has at hand: the tables, its address, and the templates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from jinja2 import Environment
from markupsafe import Markup

from hopline.explorer import charts
from hopline.explorer.addresses import address
from hopline.explorer.live_tables import Snapshot
from hopline.explorer.parameters import Parameters, Span
from hopline.explorer.protobuf_bodies import ProtobufTypes
from hopline.explorer.records import RecordedFrames
from hopline.query.files import without_password

Result = TypeVar("Result")

THEMES = ("auto", "light", "dark")
MENU = (
    ("/", "Overview", "o"),
    ("/topology", "Topology", "t"),
    ("/search", "Search", "s"),
    ("/callbacks", "Callbacks", "c"),
    ("/incidents", "Incidents", "i"),
    ("/rejects", "Rejects", "r"),
    ("/clocks", "Clocks", "k"),
    ("/audit", "Audit", "a"),
    ("/tables", "Tables", "b"),
)


class NotFoundError(Exception):
    """There is no such flow, record or page."""


@dataclass(frozen=True, slots=True)
class Context:
    """A page that is being made."""

    path: str
    given: Mapping[str, str]
    theme: str
    snapshot: Snapshot
    freshness: str  # how fresh the tables are, if a stream writes them
    frames: RecordedFrames
    protobuf: ProtobufTypes
    templates: Environment

    @property
    def parameters(self) -> Parameters:
        """Return the query string of the address."""
        return Parameters(self.given)

    @property
    def span(self) -> Span:
        """Return the span of time that the page is about."""
        return self.parameters.span()

    def answer(self, question: Callable[..., Result], *parameters: Hashable) -> Result:
        """Return the answer to a question, perhaps one that was given before."""
        return self.snapshot.answer(question, *parameters)

    def link(self, path: str, **parameters: Any) -> str:
        """Return the address of another page about the same span of time."""
        return address(path, {**self.span.parameters, **parameters})

    def again(self, **changes: Any) -> str:
        """Return the address of this page with some parameters changed; None leaves one out."""
        shown = {name: value for name, value in self.given.items() if not name.startswith("_")}
        return address(self.path, {**shown, **changes})

    def render(self, template: str, **values: Any) -> str:
        """Return the page."""
        return render(
            self.templates,
            template,
            path=self.path,
            given=self.given,
            theme=self.theme,
            span=self.span,
            state=self.snapshot.state,
            freshness=self.freshness,
            location=without_password(str(self.snapshot.tables.location)),
            link=self.link,
            again=self.again,
            **self.surroundings,
            **values,
        )

    @property
    def surroundings(self) -> dict[str, Any]:
        """Return what the templates need to know of the document that the page is, or is a part of."""
        return {"layout": "base.html", "is_report": False}


def render(templates: Environment, template: str, **values: Any) -> str:
    """Fill a template; what all pages share and an error page may lack has a default here."""
    defaults: dict[str, Any] = {
        "path": "",
        "given": {},
        "theme": "auto",
        "span": Span(),
        "state": "",
        "freshness": "",
        "location": "",
        "link": lambda path, **parameters: address(path, parameters),
        "again": lambda **_: "",
        "layout": "base.html",
        "is_report": False,
        "menu": MENU,
        "themes": THEMES,
    }
    return templates.get_template(template).render({**defaults, **values})


@lru_cache(maxsize=128)
def _drawn(document: str) -> str:
    return charts.svg_of_json(document)


def drawing(chart: charts.Chart) -> Markup:
    """Return a chart as a part of a page. The last ones are kept: the same rows give the same picture."""
    return Markup(_drawn(charts.as_json(chart)))  # noqa: S704 - vl-convert escapes what it draws
