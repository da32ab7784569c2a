"""What all commands share of the terminal: tables, errors of one line, exit codes, logs."""

from __future__ import annotations

import copy
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hopline._starting import INTERRUPTED, interrupt_as_usual
from hopline.actors import CorrelationFilter
from hopline.cli.output import flush_output, give_up_output
from hopline.config import ConfigurationError
from hopline.message import (
    AnswerTimeoutError,
    HoplineError,
    LocalError,
    printable,
    printable_json,
    printable_lines,
    printable_traceback,
)

FAILED, BAD_USAGE, TIMED_OUT = 1, 2, 3
# A pipe has no width: wide enough for whole rows, so that they can be searched.
PIPE_WIDTH = 240
# What brings the libraries that a command needs; for the others it is what Spark needs.
_EXTRAS = {"capture": "capture", "replay": "capture", "node": "capture", "generate": "generator", "explore": "explorer"}


class UsageError(HoplineError):
    """The command line asks for something that makes no sense."""


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # for `one_line_errors`; rich would end the process here, as if it had failed


def make_console() -> Console:
    """Make a console that takes what comes from the network for what it is: text, never markup."""
    console = _Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def folding(*columns: str) -> Table:
    """Make a table in which a narrow terminal folds long texts, and never leaves a part of them out."""
    table = Table(*columns)
    for column in table.columns:
        column.overflow = "fold"
    return table


def say(text: str) -> None:
    """Write lines at once, for whoever waits for them; nothing in them that a terminal obeys."""
    sys.stdout.write(f"{printable_lines(text, limit=None)}\n")
    sys.stdout.flush()


def say_json(document: Any) -> None:
    """Write a document as one line of JSON, at once."""
    sys.stdout.write(f"{json_line(document)}\n")
    sys.stdout.flush()


def json_line(document: Any) -> str:
    """Return a document as one line of JSON: safe for a terminal, and the same value whatever the output's encoding."""
    return printable_json(msgspec.json.encode(document).decode(), ascii_only=not output_is_unicode())


def output_is_unicode() -> bool:
    """Return whether the output can show every character."""
    return (sys.stdout.encoding or "utf-8").lower().startswith("utf")


@contextmanager
def one_line_errors(command: str, *, debug: bool) -> Iterator[None]:
    """Turn what goes wrong into one line and an exit code; with `debug` the stack is shown too."""
    try:
        interrupt_as_usual()
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_output()  # whoever reads it has seen enough
    except (HoplineError, OSError) as error:
        if debug:
            raise
        flush_output()
        typer.echo(f"hopline {command}: {printable(str(error))}", err=True)
        raise typer.Exit(exit_code(error)) from None
    except ModuleNotFoundError as missing:
        if debug or (missing.name or "").startswith("hopline"):
            raise
        extra = _EXTRAS.get(command.split()[0], "spark")
        typer.echo(f"hopline {command}: {missing.name} is not installed: pip install 'hopline[{extra}]'", err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def exit_code(error: Exception) -> int:
    """Tell the exit code of an error."""
    if isinstance(error, AnswerTimeoutError):
        return TIMED_OUT
    return BAD_USAGE if isinstance(error, UsageError | ConfigurationError | LocalError) else FAILED


class _PrintableFormatter(logging.Formatter):
    """One line a record, and the traceback indented below it. Records of other libraries pass here too."""

    def format(self, record: logging.LogRecord) -> str:
        safe = copy.copy(record)  # other handlers may want it as it is
        safe.msg, safe.args = printable(record.getMessage()), None
        if safe.exc_info and not safe.exc_text:
            safe.exc_text = printable_traceback(self.formatException(safe.exc_info))
        return super().format(safe)


class _JsonFormatter(_PrintableFormatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "correlation_id": getattr(record, "correlation_id", "-"),
            "message": printable(record.getMessage()),
        }
        if record.exc_info:
            document["exception"] = record.exc_text or printable_traceback(self.formatException(record.exc_info))
        return json.dumps(document)


def set_up_logs(level: LogLevel, *, as_json: bool) -> None:
    """Log to standard error, each record with its flow."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(CorrelationFilter())
    plain = _PrintableFormatter("%(asctime)s %(levelname)s %(correlation_id)s %(name)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if as_json else plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.value.upper())
