"""Writing to standard output: consoles, tables, lines of text and JSON; and notes on standard error.

Whatever comes from the network is escaped here, so that no control character of a peer reaches the terminal.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
from rich.console import Console

from hopline.cli.wrapping import wrap
from hopline.message import printable, printable_json, printable_lines

# A pipe has no width: wide enough for whole rows, so that they can be searched.
PIPE_WIDTH = 240


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # handled by `one_line_errors`; rich would exit with an error code here


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: no markup, no emoji codes, no highlighting."""
    console = _Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def line_width(*, stderr: bool = False) -> int | None:
    """Return the width of an output, if lines should be broken: on a terminal, or where COLUMNS says so."""
    console = make_console(stderr=stderr)
    return console.width if console.is_terminal or "COLUMNS" in os.environ else None


def write_line(text: str) -> None:
    """Write one or several lines and flush; control characters are escaped."""
    sys.stdout.write(f"{printable_lines(text, limit=None)}\n")
    sys.stdout.flush()


def write_wrapped(text: str) -> None:
    """Write one line, broken where the terminal is narrow, and flush; control characters are escaped."""
    write_line("\n".join(wrap(printable(text, limit=None), line_width())))


def write_note(text: str) -> None:
    """Write a line to standard error, as `write_wrapped` does: an error, or what is beside a command's output."""
    lines = wrap(printable(text, limit=None), line_width(stderr=True))
    sys.stderr.write("\n".join([*lines, ""]))
    sys.stderr.flush()


def write_json(document: Any) -> None:
    """Write a document as one line of JSON and flush."""
    sys.stdout.write(f"{json_line(document)}\n")
    sys.stdout.flush()


def json_line(document: Any) -> str:
    """Return a document as one line of JSON: safe for a terminal, and the same value in every output encoding."""
    return printable_json(msgspec.json.encode(document).decode(), ascii_only=not output_is_unicode())


def json_lines(document: Any) -> str:
    """Return a document as indented lines of JSON, otherwise as `json_line` does."""
    return msgspec.json.format(json_line(document))


def output_is_unicode() -> bool:
    """Return whether standard output can encode every character."""
    encoding = sys.stdout.encoding or "utf-8"
    return encoding.lower().startswith("utf")
