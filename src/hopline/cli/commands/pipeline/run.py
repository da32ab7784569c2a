"""``hopline pipeline run``: Spark over captures, to tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from hopline.message import printable

if TYPE_CHECKING:
    from rich.console import Console

    from hopline.pipeline import RunReport

EPILOG = """
**Examples**

    hopline pipeline run captures --out tables
    hopline pipeline run 'captures/date=2026-01-*' --out tables \\
        --keys hopline.toml
    # one day again; the others stay
    hopline pipeline run captures --out tables \\
        --from 2026-01-31 --to 2026-01-31
    hopline pipeline run s3a://lake/captures --out s3a://lake/tables \\
        --master spark://host:7077
    # tables of a catalogue
    hopline pipeline run captures --table-prefix lake.hopline --format iceberg
    # list the tables
    hopline tables tables

A run replaces the days (UTC) that the captures have records of; other days stay. With `--from` or `--to` it replaces
these days only, and reads an hour before and after them too, so that flows that cross midnight are complete. Each
table is committed when it is made; after a run that failed or was stopped, repeat it. See docs/reference/pipeline.md.

A folder (`--out`) takes `--format` parquet, orc or delta. Tables of a catalogue (`--table-prefix`, whose schema must
exist) take any format that the session has. `hopline tables` reads Parquet in folders; ask the others with Spark.

**Exit codes**: 0 success, 1 an error, 2 wrong options, 3 captures that cannot be read, 130 stopped by Ctrl-C.
"""


def run_command(
    captures: Annotated[
        list[str], typer.Argument(metavar="CAPTURES...", help="Files, folders or patterns; paths or URIs.")
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", help="Folder of the tables, on any storage that Spark can open: s3a://…, hdfs://…."
        ),
    ] = "",
    format_: Annotated[
        str, typer.Option("--format", help="What Spark writes: parquet, orc, or delta, iceberg, … where it has them.")
    ] = "parquet",
    table_prefix: Annotated[
        str | None,
        typer.Option("--table-prefix", metavar="CATALOG.SCHEMA", help="Write tables of a catalogue instead of --out."),
    ] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    first: FromOption = None,
    last: ToOption = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Configuration with [security]: signatures are checked by it.")
    ] = None,
    window: Annotated[int, typer.Option("--window", help="Seconds of a window in handlers, edges and security.")] = 60,
    tables: Annotated[
        str | None, typer.Option("--tables", help="Comma-separated list of tables. Default: all.")
    ] = None,
    with_bodies: Annotated[
        bool,
        typer.Option("--with-bodies", help="Keep the body frames in messages, up to 64 KiB of each message."),
    ] = False,
    memory: MemoryOption = "2g",
    conf: ConfOption = None,
    skip_bad_files: Annotated[
        bool,
        typer.Option("--skip-bad-files", help="Skip files that cannot be read, with a warning, instead of stopping."),
    ] = False,
    verbose: VerboseOption = False,
    debug: DebugOption = False,
) -> None:
    """Read captures, and write the tables: messages, hops, flows and the others."""
    with pipeline_errors("pipeline run", debug=debug):
        from hopline.pipeline import PipelineOptions, run_pipeline
        from hopline.pipeline.options import TABLE_NAMES

        options = PipelineOptions(
            captures=tuple(captures),
            out=out,
            first_day=day_of("--from", first),
            last_day=day_of("--to", last),
            keys=keys,
            window_s=window,
            with_bodies=with_bodies,
            skip_bad_files=skip_bad_files,
            master=master,
            remote=remote,
            memory=memory,
            conf=settings_of(conf or []),
            verbose=verbose,
            tables=TABLE_NAMES if tables is None else _names(tables),
            format=format_,
            table_prefix=table_prefix,
        )
        console = make_console()
        from hopline.cli.pipeline_display import shown_progress

        with ended_by_signal(), own_logs_only(debug=debug), shown_progress(console) as progress:
            report = run_pipeline(options, progress)
        show_report(console, report)


run_command.__doc__ = f"{run_command.__doc__}\n{EPILOG}"


def show_report(console: Console, report: RunReport) -> None:
    """Show what a run did and found."""
    from hopline.cli.pipeline_display import draw_findings, size_text
    from hopline.query.summary import findings

    read, days = report.captures, report.options.days
    console.print()
    console.print(
        f"Read {len(read.segments):,} segments, {size_text(read.bytes)}, {report.records:,} records"
        + ("" if days.is_all else f" of {days}")
        + f"; in {report.seconds:.1f} s, {report.records / max(report.seconds, 0.001):,.0f} records/s"
    )
    for bad in read.bad:
        console.print(printable(f"skipped: {bad}"), style="yellow")
    console.print(f"{report.records:,} records = {report.messages:,} messages + {report.rejects:,} rejects")
    out = str(report.options.out)
    if report.options.format != "parquet" or not out:
        return
    if Path(out).is_dir():  # a server, or the driver of a cluster, may have written where this machine cannot look
        console.print(draw_findings(findings(Path(out), days)))
        console.print(f"\nAll tables:  hopline tables {printable(out)}")
    else:
        console.print(f"\nSummary of the tables:  hopline pipeline summary {printable(out)}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
