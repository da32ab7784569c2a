"""Errors of the pipeline's commands: what to install where parts are missing, exit codes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from hopline.cli.console import one_line_errors
from hopline.cli.output import flush_output
from hopline.message import printable

BAD_FILES = 3


@contextmanager
def pipeline_errors(command: str, *, debug: bool) -> Iterator[None]:
    """Turn what goes wrong into a message and an exit code; with `debug` the stack is shown too."""
    with one_line_errors(command, debug=debug):
        from hopline.pipeline.failures import BadCapturesError

        try:
            yield
        except BadCapturesError as error:
            if debug:
                raise
            flush_output()
            for line in f"hopline {command}: {error}".splitlines():
                typer.echo(printable(line), err=True)
            raise typer.Exit(BAD_FILES) from None
