"""The options of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import urlsplit

from hopline.checks import require, require_choice
from hopline.export.limits import RECORDS_A_TRACE
from hopline.export.post import Endpoint
from hopline.message import ArgumentError
from hopline.pipeline.days import Days
from hopline.pipeline.options import DEFAULT_MEMORY, PATH_FORMATS, is_within

TRACES_PATH = "/v1/traces"
"""Where a receiver of OTLP/HTTP takes traces, unless the address says otherwise."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which journeys of which tables, where to put them, and where Spark runs. Wrong ones raise `ArgumentError`."""

    tables: str  # the folder of the tables, on any storage that Spark knows
    otlp: str | None = None  # folders to be made, likewise
    zipkin: str | None = None
    endpoint: Endpoint | None = None
    journey: str | None = None  # the id of one journey, or the beginning of the id
    first_day: date | None = None
    last_day: date | None = None
    trace_limit: int = RECORDS_A_TRACE  # records of one journey; further ones are counted
    format: str = "parquet"
    master: str | None = None
    remote: str | None = None
    memory: str = DEFAULT_MEMORY
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False

    def __post_init__(self) -> None:
        self._check_folders()
        require_choice("format", self.format, PATH_FORMATS)
        require(self.trace_limit >= 1, "trace limit", "at least 1", self.trace_limit)
        require(self.journey != "", "journey", "an id, or the beginning of one", "''")
        self._check_days()
        has_two_servers = self.master and self.remote
        require(not has_two_servers, "master", "none beside remote", self.master)

    def _check_days(self) -> None:
        first = self.first_day
        last = self.last_day
        if first is None or last is None:
            return
        is_ordered = first <= last
        require(is_ordered, "days", "the first not after the last", f"{first} to {last}")

    def _check_folders(self) -> None:
        """Raise `ArgumentError` unless there is a target, and no folder is inside another."""
        folders = [folder for folder in (self.otlp, self.zipkin) if folder is not None]
        has_target = bool(folders) or self.endpoint is not None
        require(has_target, "target", "at least one of --otlp DIR, --zipkin DIR and --endpoint URL", "none")
        require("" not in (self.tables, *folders), "folder", "a name", "''")
        if len(folders) == 2:
            otlp, zipkin = folders
            are_apart = not is_within(otlp, zipkin) and not is_within(zipkin, otlp)
            require(are_apart, "zipkin", f"another folder than that of OTLP ({otlp})", zipkin)
        for folder in folders:
            is_outside = not is_within(folder, self.tables)
            require(is_outside, "folder", f"one that is not in the tables ({self.tables})", folder)

    @property
    def days(self) -> Days:
        """Return the days on which the exported journeys began."""
        return Days(self.first_day, self.last_day)


def endpoint_of(url: str, headers: Mapping[str, str] | None = None) -> Endpoint:
    """Return the endpoint at an address; without a path it is the usual one of OTLP/HTTP.

    Raises:
        ArgumentError: This is no address of a web server.
    """
    expected = "an address such as http://127.0.0.1:4318"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ArgumentError("endpoint", expected, url) from None
    is_web = parts.scheme in ("http", "https")
    if not is_web or not parts.hostname or port == 0:
        raise ArgumentError("endpoint", expected, url)
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if not is_plain:
        raise ArgumentError("endpoint", f"{expected}, in plain ASCII", url)
    if parts.username is not None:
        raise ArgumentError(
            "endpoint",
            "no user or password in it: give a header instead",
            f"one for {parts.hostname}",
        )
    has_path = parts.path not in ("", "/")
    path = parts.path if has_path else TRACES_PATH
    target = parts._replace(path=path, fragment="")
    return Endpoint(
        url=target.geturl(),
        headers=dict(headers or {}),
    )
