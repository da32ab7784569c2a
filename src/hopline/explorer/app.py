"""The web application: its routes, which hosts it answers, and what a page may load.

Pages are made in threads: DuckDB works there without holding the event loop. Nothing but GET is answered, and nothing
is ever written. Every answer forbids the browser to load, run or embed anything that does not come from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopline.explorer.addresses import own_path
from hopline.explorer.hosts import Hosts
from hopline.explorer.live_tables import LiveTables, Snapshot
from hopline.explorer.pages import journey, lists, overview, record, rows, search, topology
from hopline.explorer.pages.context import THEMES, Context, NotFoundError, render
from hopline.explorer.parameters import ParameterError
from hopline.explorer.presentation import environment
from hopline.explorer.protobuf_bodies import ProtobufTypes
from hopline.explorer.records import RecordedFrames
from hopline.message import HoplineError, get_logger, printable_lines
from hopline.query.tables import NoTableError

Page = Callable[[Context], str | RedirectResponse]

LOGGER = get_logger(__name__)
THEME_COOKIE = "hopline_theme"
_YEAR_SECONDS = 365 * 24 * 3_600
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Explorer:
    """What the application serves."""

    tables: LiveTables
    hosts: Hosts
    frames: RecordedFrames
    protobuf: ProtobufTypes = field(default_factory=ProtobufTypes)

    def context(
        self, path: str, snapshot: Snapshot, given: Mapping[str, str] | None = None, theme: str = THEMES[0]
    ) -> Context:
        """Return what the page at a path is made of."""
        return Context(
            path=path,
            given=given or {},
            theme=theme,
            snapshot=snapshot,
            freshness=self.tables.freshness(),
            frames=self.frames,
            protobuf=self.protobuf,
            templates=environment(),
        )


def create_app(explorer: Explorer) -> ASGIApp:
    """Return the application."""

    def theme(request: Request) -> str:
        chosen = request.cookies.get(THEME_COOKIE, "")
        return chosen if chosen in THEMES else THEMES[0]

    def serve(page: Page) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            given = dict(request.query_params)
            given |= {f"_{name}": value for name, value in request.path_params.items()}
            made = explorer.tables.read(
                lambda snapshot: page(explorer.context(request.url.path, snapshot, given, theme(request)))
            )
            return HTMLResponse(made) if isinstance(made, str) else made

        return answer

    def state(_: Request) -> Response:
        return JSONResponse({"state": explorer.tables.state(), "freshness": explorer.tables.freshness()})

    def failed(request: Request, title: str, problem: str, status: int, remedy: str = "") -> Response:
        page = render(
            environment(),
            "error.html",
            title=title,
            problem=printable_lines(problem),
            remedy=remedy,
            state=_state_of(explorer.tables),
            theme=theme(request),
        )
        return HTMLResponse(page, status)

    def bad_parameter(request: Request, error: Exception) -> Response:
        return failed(request, "This address makes no sense", str(error), 400)

    def not_found(request: Request, error: Exception) -> Response:
        return failed(request, "Not found", str(error), 404)

    def bad_tables(request: Request, error: Exception) -> Response:
        remedy = "Other pages may still work. A new run of hopline pipeline run replaces the tables."
        return failed(request, "The tables cannot be shown", str(error), 500, remedy)

    def http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return failed(request, "Not found" if status == 404 else "Not possible", f"{request.url.path}", status)

    def fault(request: Request, error: Exception) -> Response:
        LOGGER.error("%s could not be made", request.url.path, exc_info=error)
        problem = f"{type(error).__name__}. See the explorer's log for details."
        return failed(request, "This page could not be made", problem, 500)

    routes = [
        Route("/state", state, methods=["GET"]),
        Route("/theme", _choose_theme, methods=["GET"]),
        Mount("/static", StaticFiles(directory=str(files("hopline.explorer") / "static"))),
        *(Route(path, serve(page), methods=["GET"]) for path, page in PAGES.items()),
    ]
    handlers: dict[Any, Any] = {
        ParameterError: bad_parameter,
        NotFoundError: not_found,
        NoTableError: not_found,
        HoplineError: bad_tables,
        HTTPException: http_error,
        Exception: fault,
    }
    # Around everything: the answer to an exception is not made inside of Starlette's own middleware.
    return _Guard(Starlette(routes=routes, exception_handlers=handlers), explorer.hosts)


PAGES: dict[str, Page] = {
    "/": overview.page,
    "/topology": topology.page,
    "/search": search.page,
    "/journey": journey.page,
    "/record": record.page,
    "/callbacks": lists.callbacks_page,
    "/incidents": lists.incidents_page,
    "/rejects": lists.rejects_page,
    "/clocks": lists.clocks_page,
    "/audit": lists.audit_page,
    "/tables": rows.tables_page,
    "/rows/{table}": rows.page,
}


def _state_of(tables: LiveTables) -> str:
    """Return the state of tables, or a word that no state is: such a page is made again until there is one."""
    try:
        return tables.state()
    except HoplineError:
        return "unknown"


def _choose_theme(request: Request) -> Response:
    chosen = request.query_params.get("to", "")
    response = RedirectResponse(own_path(request.query_params.get("back", "/")), 303)
    if chosen in THEMES:
        response.set_cookie(THEME_COOKIE, chosen, max_age=_YEAR_SECONDS, httponly=True, samesite="strict")
    return response


class _Guard:
    """Refuses foreign hosts, and adds the headers of every answer."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        if not self._hosts.accept(Headers(scope=scope).get("host", "")):
            refusal = PlainTextResponse("This host is not served here; --allow-host NAME adds one.\n", 421)
            await refusal(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)
