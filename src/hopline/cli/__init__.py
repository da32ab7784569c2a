"""The command line: ``hopline …``. Every command is a module or a package of `hopline.cli.commands`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import hopline
from hopline.cli.commands.capture import capture_app
from hopline.cli.commands.decode import decode_command
from hopline.cli.commands.demo import demo_command
from hopline.cli.commands.explore import explore_command
from hopline.cli.commands.export import export_command
from hopline.cli.commands.generate import generate_command
from hopline.cli.commands.keys import keys_app
from hopline.cli.commands.node import node_command
from hopline.cli.commands.nodes import nodes_command
from hopline.cli.commands.ping import ping_command
from hopline.cli.commands.pipeline import pipeline_app
from hopline.cli.commands.rendezvous import rendezvous_command
from hopline.cli.commands.replay import replay_command
from hopline.cli.commands.report import report_command
from hopline.cli.commands.routes import routes_command
from hopline.cli.commands.schema import schema_command
from hopline.cli.commands.send import send_command
from hopline.cli.commands.stats import stats_command
from hopline.cli.commands.tables import tables_command
from hopline.cli.commands.tail import tail_command
from hopline.cli.commands.trace import trace_command
from hopline.cli.errors import FAILED
from hopline.cli.standard_streams import discard_stdout, prepare_streams

_HELP = """Actor messaging without a broker, and analysis of its captured traffic with Spark.

`hopline COMMAND --help` describes a command with examples. Start with `hopline demo`.
"""

app = typer.Typer(
    name="hopline",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"hopline {hopline.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


_RUN, _ASK, _RECORD = "Run a network", "Query a running network", "Record traffic"
_LOOK, _TABLES = "Work with files", "Analyse captured traffic"
app.command("demo", rich_help_panel=_RUN)(demo_command)
app.command("rendezvous", rich_help_panel=_RUN)(rendezvous_command)
app.command("node", rich_help_panel=_RUN)(node_command)
app.command("send", rich_help_panel=_ASK)(send_command)
app.command("trace", rich_help_panel=_ASK)(trace_command)
app.command("stats", rich_help_panel=_ASK)(stats_command)
app.command("routes", rich_help_panel=_ASK)(routes_command)
app.command("nodes", rich_help_panel=_ASK)(nodes_command)
app.command("ping", rich_help_panel=_ASK)(ping_command)
app.command("tail", rich_help_panel=_ASK)(tail_command)
app.command("decode", rich_help_panel=_LOOK)(decode_command)
app.command("generate", rich_help_panel=_LOOK)(generate_command)
app.add_typer(capture_app, name="capture", rich_help_panel=_RECORD)
app.command("replay", rich_help_panel=_RECORD)(replay_command)
app.command("schema", rich_help_panel=_LOOK)(schema_command)
app.add_typer(keys_app, name="keys", rich_help_panel=_LOOK)
app.add_typer(pipeline_app, name="pipeline", rich_help_panel=_TABLES)
app.command("tables", rich_help_panel=_TABLES)(tables_command)
app.command("explore", rich_help_panel=_TABLES)(explore_command)
app.command("report", rich_help_panel=_TABLES)(report_command)
app.command("export", rich_help_panel=_TABLES)(export_command)


def main() -> None:
    """Run the command line."""
    prepare_streams()
    try:
        app()
    except OSError as error:  # while printing help or the version; commands report their own errors
        discard_stdout()
        typer.echo(f"hopline: cannot write: {error.strerror or error}", err=True)
        sys.exit(FAILED)
