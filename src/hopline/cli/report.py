"""``hopline report``: the tables as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopline.cli.console import UsageError, say
from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors

EPILOG = """
**Examples**

    hopline report tables -o report.html
    hopline report tables -o monday.html --from 2026-03-02 --to 2026-03-03
    hopline report tables -o order.html --journey 02f3b037       # one journey, for a ticket
    hopline report webhdfs://namenode:9870/lake/tables -o report.html

The file has everything in it: no script, and nothing that a browser would load from anywhere. It shows what the pages
of `hopline explore` show, with the journeys of the worst flows in full.
"""


def report_command(
    location: Annotated[
        str,
        typer.Argument(metavar="TABLES", help="What `hopline pipeline run --out` wrote: a folder, or a URI."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write; it is replaced.")],
    journey: Annotated[
        list[str] | None,
        typer.Option(
            "--journey", metavar="ID", help="Only this journey: the id of one of its flows, or its beginning."
        ),
    ] = None,
    from_: Annotated[str, typer.Option("--from", metavar="TIME", help="Only what began since then, UTC.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="Only what began before then, UTC.")] = "",
    debug: DebugOption = False,
) -> None:
    """Write what the tables say as one HTML file, for a ticket or an archive."""
    with pipeline_errors("report", debug=debug):
        from hopline.explorer.report import make_report

        if out.is_dir() or not out.parent.is_dir():
            raise UsageError(f"--out: {out} is {'a folder' if out.is_dir() else 'in no folder'}")
        given = {name: value for name, value in (("from", from_), ("to", to)) if value}
        document = make_report(location, given=given, journeys=journey or ())
        unfinished = out.with_name(f".{out.name}.unfinished")
        unfinished.write_text(document, encoding="utf-8")
        unfinished.replace(out)
        say(f"{out}: {len(document.encode()) / 1_000:,.0f} kB")


report_command.__doc__ = f"{report_command.__doc__}\n{EPILOG}"
