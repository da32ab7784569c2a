"""Errors of the pipeline's commands: what to install where parts are missing, exit codes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from hopline.cli.console import BAD_USAGE, one_line_errors
from hopline.cli.output import flush_output
from hopline.message import printable_lines

BAD_FILES = 3


@contextmanager
def pipeline_errors(command: str, *, debug: bool) -> Iterator[None]:
    """Turn what goes wrong into a message and an exit code; with `debug` the stack is shown too."""
    with one_line_errors(command, debug=debug):
        from hopline.pipeline.failures import BadCapturesError
        from hopline.query.errors import QuestionError

        try:
            yield
        except (BadCapturesError, QuestionError) as error:
            if debug:
                raise
            flush_output()
            typer.echo(printable_lines(f"hopline {command}: {error}"), err=True)
            raise typer.Exit(BAD_FILES if isinstance(error, BadCapturesError) else BAD_USAGE) from None
