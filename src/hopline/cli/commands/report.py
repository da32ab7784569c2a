"""``hopline report``: the tables as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopline.cli.errors import UsageError
from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.terminal import write_line

EPILOG = """
**Examples**

    hopline report tables -o report.html
    hopline report tables -o monday.html --from 2026-03-02 --to 2026-03-03
    hopline report tables -o order.html --journey 02f3b037
    hopline report webhdfs://namenode:9870/lake/tables -o report.html

The file is self-contained: it has no scripts, and loads nothing from other places. It shows what the pages of
`hopline explore` show, with the journeys of the worst flows in full.
"""


def report_command(
    location: Annotated[
        str,
        typer.Argument(metavar="TABLES", help="What `hopline pipeline run --out` wrote: a folder, or a URI."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write; an existing one is replaced.")
    ],
    journey: Annotated[
        list[str] | None,
        typer.Option(
            "--journey",
            metavar="ID",
            help="Only this journey: the id of one of its flows, or how it begins; may be repeated.",
        ),
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Only journeys that began at this time or later (UTC).")
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Only journeys that began before this time (UTC).")
    ] = "",
    debug: DebugOption = False,
) -> None:
    """Write the contents of the explorer as one HTML file, for a ticket or an archive."""
    with pipeline_errors("report", debug=debug):
        from hopline.explorer.report import make_report

        if out.is_dir() or not out.parent.is_dir():
            problem = "is a folder" if out.is_dir() else "is in a folder that does not exist"
            raise UsageError(f"--out: {out} {problem}")
        times = {"from": from_, "to": to}
        given = {name: value for name, value in times.items() if value}
        document = make_report(location, given=given, journeys=journey or ())
        unfinished = out.with_name(f".{out.name}.unfinished")
        unfinished.write_text(document, encoding="utf-8")
        unfinished.replace(out)
        write_line(f"{out}: {len(document.encode()) / 1_000:,.0f} kB")


report_command.__doc__ = f"{report_command.__doc__}\n{EPILOG}"
