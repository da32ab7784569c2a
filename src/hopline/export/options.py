"""The options of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import urlsplit

from hopline.export.limits import RECORDS_A_TRACE
from hopline.export.post import Endpoint
from hopline.message import LocalError
from hopline.pipeline.days import Days
from hopline.pipeline.options import DEFAULT_MEMORY, PATH_FORMATS, is_within

TRACES_PATH = "/v1/traces"
"""Where a receiver of OTLP/HTTP takes traces, unless the address says otherwise."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which journeys of which tables, where to put them, and where Spark runs. Wrong ones raise `LocalError`."""

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
        folders = [folder for folder in (self.otlp, self.zipkin) if folder is not None]
        if not folders and self.endpoint is None:
            raise LocalError("target", "at least one of --otlp DIR, --zipkin DIR and --endpoint URL", "none")
        if "" in (self.tables, *folders):
            raise LocalError("folder", "a name", "''")
        if len(folders) == 2 and (is_within(folders[0], folders[1]) or is_within(folders[1], folders[0])):
            raise LocalError("zipkin", f"another folder than that of OTLP ({self.otlp})", self.zipkin)
        for folder in folders:
            if is_within(folder, self.tables):
                raise LocalError("folder", f"one that is not in the tables ({self.tables})", folder)
        if self.format not in PATH_FORMATS:
            raise LocalError("format", f"one of {', '.join(PATH_FORMATS)}", self.format)
        if self.trace_limit < 1:
            raise LocalError("trace limit", "at least 1", self.trace_limit)
        if self.journey == "":
            raise LocalError("journey", "an id, or the beginning of one", "''")
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise LocalError("days", "the first not after the last", f"{self.first_day} to {self.last_day}")
        if self.master and self.remote:
            raise LocalError("master", "none beside remote", self.master)

    @property
    def days(self) -> Days:
        """Return the days on which the exported journeys began."""
        return Days(self.first_day, self.last_day)


def endpoint_of(url: str, headers: Mapping[str, str] | None = None) -> Endpoint:
    """Return the endpoint at an address; without a path it is the usual one of OTLP/HTTP.

    Raises:
        LocalError: This is no address of a web server.
    """
    expected = "an address such as http://127.0.0.1:4318"
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise LocalError("endpoint", expected, url) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        raise LocalError("endpoint", expected, url)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise LocalError("endpoint", f"{expected}, in plain ASCII", url)
    if parts.username is not None:
        raise LocalError("endpoint", "no user or password in it: give a header instead", f"one for {parts.hostname}")
    path = parts.path if parts.path not in ("", "/") else TRACES_PATH
    return Endpoint(parts._replace(path=path, fragment="").geturl(), dict(headers or {}))
