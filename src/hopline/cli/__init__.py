"""The command line: ``hopline …``."""

from __future__ import annotations

from typing import Annotated

import typer

import hopline
from hopline.cli.decode import decode_command

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


app.command("decode")(decode_command)


def main() -> None:
    """Run the command line."""
    app()
