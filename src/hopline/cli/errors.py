"""Errors of commands: one line on standard error and an exit code, instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from hopline._starting import INTERRUPTED, interrupt_as_usual
from hopline.cli.standard_streams import discard_stdout, flush_stdout
from hopline.cli.terminal import write_note
from hopline.config import ConfigurationError
from hopline.message import AnswerTimeoutError, ArgumentError, BindError, HoplineError, printable

FAILED, BAD_USAGE, TIMED_OUT = 1, 2, 3
# The extra that has the libraries of a command; every other command needs those of Spark.
_EXTRAS = {"capture": "capture", "replay": "capture", "node": "capture", "generate": "generator", "explore": "explorer"}


class UsageError(HoplineError):
    """The arguments of a command are invalid or contradict each other."""


@contextmanager
def one_line_errors(command: str, *, debug: bool) -> Iterator[None]:
    """Report errors of the enclosed block as one line on standard error, and exit with a code.

    Args:
        command: The command's name, as in ``capture start``; begins the line.
        debug: Let errors propagate with their traceback.

    Raises:
        typer.Exit: With 1 for failures, 2 for wrong usage, 3 for a timeout, 130 after Ctrl-C.
    """
    try:
        interrupt_as_usual()
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()  # the reader of the pipe has closed it, as `head` does: no error
    except (HoplineError, OSError) as error:
        if debug:
            raise
        flush_stdout()
        write_note(f"hopline {command}: {printable(_text(error))}")
        raise typer.Exit(exit_code(error)) from None
    except ModuleNotFoundError as error:
        if debug or (error.name or "").startswith("hopline"):
            raise
        write_note(_missing_extra(command, error.name))
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _text(error: Exception) -> str:
    """Return the text of an error; of one that the system reports about a file, without its number."""
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _missing_extra(command: str, module: str | None) -> str:
    extra = _EXTRAS.get(command.split()[0], "spark")
    return f"hopline {command} needs {module}: pip install 'hopline[{extra}]'"


def exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    if isinstance(error, AnswerTimeoutError):
        return TIMED_OUT
    if isinstance(error, UsageError | ConfigurationError | ArgumentError | BindError):
        return BAD_USAGE
    return FAILED
