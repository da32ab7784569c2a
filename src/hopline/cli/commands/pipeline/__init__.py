"""``hopline pipeline``: captures to tables on Spark, once or while the network runs."""

from __future__ import annotations

import typer

from hopline.cli.commands.pipeline.late import late_command
from hopline.cli.commands.pipeline.run import run_command
from hopline.cli.commands.pipeline.stream import stream_command
from hopline.cli.commands.pipeline.submit_path import submit_path_command
from hopline.cli.commands.pipeline.summary import summary_command

__all__ = ["pipeline_app"]

pipeline_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Turn captures into tables, on Spark.",
)
pipeline_app.command("run")(run_command)
pipeline_app.command("stream")(stream_command)
pipeline_app.command("summary")(summary_command)
pipeline_app.command("late")(late_command)
pipeline_app.command("submit-path")(submit_path_command)
