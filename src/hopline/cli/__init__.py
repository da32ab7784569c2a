"""The command line: ``hopline …``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import hopline
from hopline.cli.capture import capture_app
from hopline.cli.console import FAILED
from hopline.cli.decode import decode_command
from hopline.cli.demo import demo_command
from hopline.cli.explore import explore_command
from hopline.cli.export import export_command
from hopline.cli.generate import generate_command
from hopline.cli.keys import keys_app
from hopline.cli.node import node_command
from hopline.cli.output import give_up_output, prepare_output
from hopline.cli.pipeline import pipeline_app
from hopline.cli.rendezvous import rendezvous_command
from hopline.cli.replay import replay_command
from hopline.cli.report import report_command
from hopline.cli.routes import routes_command
from hopline.cli.send import send_command
from hopline.cli.stats import stats_command
from hopline.cli.tables import tables_command
from hopline.cli.trace import trace_command

app = typer.Typer(
    name="hopline",
    help="Brokerless actor messaging, and answers from its captured traffic.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hopline {hopline.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Brokerless actor messaging, and answers from its captured traffic."""


_RUN, _ASK, _RECORD = "Run a network", "Talk to a running network", "Record"
_LOOK, _TABLES = "Files", "Answers from captured traffic"
app.command("demo", rich_help_panel=_RUN)(demo_command)
app.command("rendezvous", rich_help_panel=_RUN)(rendezvous_command)
app.command("node", rich_help_panel=_RUN)(node_command)
app.command("send", rich_help_panel=_ASK)(send_command)
app.command("trace", rich_help_panel=_ASK)(trace_command)
app.command("stats", rich_help_panel=_ASK)(stats_command)
app.command("routes", rich_help_panel=_ASK)(routes_command)
app.command("decode", rich_help_panel=_LOOK)(decode_command)
app.command("generate", rich_help_panel=_LOOK)(generate_command)
app.add_typer(capture_app, name="capture", rich_help_panel=_RECORD)
app.command("replay", rich_help_panel=_RECORD)(replay_command)
app.add_typer(keys_app, name="keys", rich_help_panel=_LOOK)
app.add_typer(pipeline_app, name="pipeline", rich_help_panel=_TABLES)
app.command("tables", rich_help_panel=_TABLES)(tables_command)
app.command("explore", rich_help_panel=_TABLES)(explore_command)
app.command("report", rich_help_panel=_TABLES)(report_command)
app.command("export", rich_help_panel=_TABLES)(export_command)


def main() -> None:
    """Run the command line."""
    prepare_output()
    try:
        app()
    except OSError as error:  # of the help or the version: commands report what fails in them
        give_up_output()
        typer.echo(f"hopline: cannot write: {error.strerror or error}", err=True)
        sys.exit(FAILED)
