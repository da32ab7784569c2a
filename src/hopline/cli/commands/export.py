"""``hopline export``: journeys of the tables as traces, in files or sent to a collector."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hopline.cli.errors import UsageError
from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.spark_options import (
    ConfOption,
    FromOption,
    MasterOption,
    MemoryOption,
    RemoteOption,
    ToOption,
    VerboseOption,
    day_of,
    ended_by_signal,
    own_logs_only,
    settings_of,
)
from hopline.cli.terminal import make_console
from hopline.display.frames import plural
from hopline.message import printable

if TYPE_CHECKING:
    from rich.console import Console

    from hopline.export import ExportReport

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"

EPILOG = f"""
**Examples**

    # every journey, as lines of OTLP/JSON
    hopline export tables --otlp traces
    # journeys that began on one day
    hopline export tables --zipkin traces --from 2026-01-31 --to 2026-01-31
    # one journey, to a collector
    hopline export tables --endpoint http://127.0.0.1:4318 \\
        --journey 0f1e2d3c
    hopline export s3a://lake/tables --otlp s3a://lake/traces \\
        --master spark://host:7077

A trace is a journey: a flow with all flows that its handlers began. Each message is a span of its sender (PRODUCER),
with a child span for each handler that received it (CONSUMER); a message that a handler sent is a child of its span.
Hops are events. Times are those of each node's own clock, not adjusted; `hopline.skew_us` has the clock difference.

Ids are the same in every export: the trace id of a journey whose id is a GUID is that GUID without the dashes.

The folder must not exist. A line of `--otlp` is one request of OTLP/JSON, a line of `--zipkin` a list of spans for
Zipkin's `/api/v2/spans`. `--endpoint` posts OTLP/HTTP (to `/v1/traces` if the URL has no path), and retries when
there is no connection or the status is 429, 502, 503 or 504. Put headers with secrets into the environment:
`{HEADERS_VARIABLE}='authorization=Bearer%20…'`. See docs/how-to/export-traces.md.

**Exit codes**: 0 success, 1 an error or rejected spans, 2 wrong options, 130 stopped by Ctrl-C.
"""


def export_command(
    tables: Annotated[
        str, typer.Argument(metavar="TABLES", help="What `hopline pipeline run --out` wrote: a folder, or a URI.")
    ],
    otlp: Annotated[
        str | None, typer.Option("--otlp", metavar="DIR", help="Write OTLP/JSON lines into this new folder, or URI.")
    ] = None,
    zipkin: Annotated[
        str | None, typer.Option("--zipkin", metavar="DIR", help="Write Zipkin v2 JSON lines into this new folder.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint", metavar="URL", help="Send to an OTLP/HTTP collector, such as http://127.0.0.1:4318."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header for the endpoint; may be repeated."),
    ] = None,
    journey: Annotated[
        str | None,
        typer.Option(
            "--journey", metavar="ID", help="One journey: its id or that of one of its flows, or how it begins."
        ),
    ] = None,
    first: FromOption = None,
    last: ToOption = None,
    trace_limit: Annotated[
        int,
        typer.Option(
            "--trace-limit", metavar="N", help="Maximum number of records per journey; further ones are only counted."
        ),
    ] = 50_000,
    format_: Annotated[
        str, typer.Option("--format", help="Format of the tables: parquet, orc, or delta where Spark has it.")
    ] = "parquet",
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = "2g",
    conf: ConfOption = None,
    verbose: VerboseOption = False,
    debug: DebugOption = False,
) -> None:
    """Write journeys as traces for Jaeger, Tempo, Zipkin and others, or send them to a collector."""
    with pipeline_errors("export", debug=debug):
        from hopline.cli.pipeline_display import shown_progress
        from hopline.export import ExportOptions, run_export
        from hopline.export.options import endpoint_of

        if header and endpoint is None:
            raise UsageError("--header is for --endpoint, which is not given")
        options = ExportOptions(
            tables=tables,
            otlp=otlp,
            zipkin=zipkin,
            endpoint=None if endpoint is None else endpoint_of(endpoint, headers_of(header or [])),
            journey=journey,
            first_day=day_of("--from", first),
            last_day=day_of("--to", last),
            trace_limit=trace_limit,
            format=format_,
            master=master,
            remote=remote,
            memory=memory,
            conf=settings_of(conf or []),
            verbose=verbose,
        )
        console = make_console()
        with ended_by_signal(), own_logs_only(debug=debug), shown_progress(console) as progress:
            report = run_export(options, progress)
        _show_report(console, report)


export_command.__doc__ = f"{export_command.__doc__}\n{EPILOG}"


def headers_of(texts: list[str]) -> dict[str, str]:
    """Return the headers of the environment, in the syntax of OpenTelemetry's exporters, and those of the options."""
    from urllib.parse import unquote

    headers = {}
    for source, text in (
        *((HEADERS_VARIABLE, one) for one in os.environ.get(HEADERS_VARIABLE, "").split(",") if one.strip()),
        *(("--header", one) for one in texts),
    ):
        name, equals, value = text.partition("=")
        value = unquote(value.strip()) if source == HEADERS_VARIABLE else value
        is_name = name.strip().replace("-", "").replace("_", "").isalnum() and name.isascii()
        if not (equals and is_name and value.isascii() and value.isprintable()):
            # The value may be a secret, and without "=" it is not known where it begins.
            found = f"one named {name.strip()!r}" if equals else "one without ="
            raise UsageError(f"{source}: expected NAME=VALUE in plain ASCII, found {found}")
        headers[name.strip()] = value
    return headers


def _show_report(console: Console, report: ExportReport) -> None:
    if report.dropped is not None:
        console.print(
            f"Left out {plural(report.dropped.records, 'record')} of {plural(report.dropped.journeys, 'journey')} "
            f"with more than {report.options.trace_limit:,}: raise --trace-limit to include them"
        )
    for written, what in ((report.otlp, "OTLP/JSON"), (report.zipkin, "Zipkin v2 JSON")):
        if written is not None:
            console.print(
                f"Wrote {plural(written.spans, 'span')} of {plural(written.traces, 'trace')} to "
                f"{printable(shlex.quote(written.folder))}: {plural(written.lines, 'line')} of {what}"
            )
    if report.sent is not None and report.options.endpoint is not None:
        sent = report.sent
        console.print(
            f"Sent {plural(sent.spans, 'span')} to {printable(report.options.endpoint.url)}: "
            f"{plural(sent.batches, 'request')}, {sent.retries:,} retried"
        )
