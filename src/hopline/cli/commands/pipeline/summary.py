"""``hopline pipeline summary``: what the tables say that is worth knowing first."""

from __future__ import annotations

from typing import Annotated

import typer

from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.terminal import make_console


def summary_command(
    location: Annotated[str, typer.Argument(metavar="TABLES", help="The folder of the tables, or a URI.")],
    debug: DebugOption = False,
) -> None:
    """Show the summary of the tables. Does not start Spark.

    **Example**:

        hopline pipeline summary tables
    """
    with pipeline_errors("pipeline summary", debug=debug):
        from hopline.cli.pipeline_display import draw_findings
        from hopline.query.summary import findings

        make_console().print(draw_findings(findings(location)))
