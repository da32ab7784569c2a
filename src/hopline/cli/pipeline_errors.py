"""Errors of the commands that work on tables, which have exit codes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from hopline.cli.errors import BAD_USAGE, one_line_errors
from hopline.cli.standard_streams import flush_stdout
from hopline.message import printable_lines

BAD_FILES = 3


@contextmanager
def pipeline_errors(command: str, *, debug: bool) -> Iterator[None]:
    """Report errors as `one_line_errors` does; those of captures and queries may take several lines.

    Raises:
        typer.Exit: With 3 for captures that cannot be read, 2 for a wrong query, otherwise as `one_line_errors`.
    """
    with one_line_errors(command, debug=debug):
        from hopline.pipeline.failures import BadCapturesError
        from hopline.query.errors import QuestionError

        try:
            yield
        except (BadCapturesError, QuestionError) as error:
            if debug:
                raise
            flush_stdout()
            typer.echo(printable_lines(f"hopline {command}: {error}"), err=True)
            raise typer.Exit(BAD_FILES if isinstance(error, BadCapturesError) else BAD_USAGE) from None
