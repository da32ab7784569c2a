"""``hopline decode``: show messages frame by frame, annotated."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

from hopline.cli.commands.decode.drawing import draw_message, summary_line
from hopline.cli.commands.decode.inputs import STANDARD_INPUT, InputError, InputMessage, find_messages, read_hex
from hopline.cli.commands.decode.json_lines import annotation_json
from hopline.cli.errors import UsageError, one_line_errors
from hopline.cli.terminal import PIPE_WIDTH
from hopline.wire import Annotation, annotate, layouts
from hopline.wire.layout import Layout

MALFORMED = 1

Render = Callable[[str, Annotation], str]


class FirstTtl(StrEnum):
    """Unit of the TTL in the format FIRST, whose messages do not carry it."""

    MS = "ms"
    TICKS = "ticks"


EPILOG = """
**Examples**

    hopline decode message.hex
    hopline decode --hex '|||...|0500'
    hopline decode tests/data/vectors/v5.json --only callbacks_2
    hopline decode captures/ --summary
    hopline decode capture.parquet --json | jq .message

**Hex lines**: a line with bars (`a|b||c`) is a whole message, with a bar between frames. Without bars, each line is a
frame, an empty line or a lone `-` is an empty frame, and `---` separates messages. `#` starts a comment.

**Exit codes**: 0 every message could be decoded, 1 some are malformed, 2 the input cannot be read.
"""


def decode_command(
    source: Annotated[
        str | None,
        typer.Argument(
            help="Hex lines, a vectors file (JSON), a capture (.parquet), a folder of captures, or - for stdin.",
            show_default="-",
        ),
    ] = None,
    hex_message: Annotated[
        str | None, typer.Option("--hex", help="Decode this message instead of a file: hex, with | between frames.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="TEXT", help="Show only messages whose label contains this text.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of messages.")] = None,
    one_line: Annotated[bool, typer.Option("--summary", "-s", help="One line per message.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object per message, with bytes in hex.")] = False,
    first_ttl: Annotated[
        FirstTtl, typer.Option("--first-ttl", help="Unit of the TTL in the format FIRST; its document says ms.")
    ] = FirstTtl.MS,
) -> None:
    """Show messages frame by frame, from the last frame: position, name, bytes, value and meaning.

    The wire format is detected by structure. Route selectors are marked with a star. A malformed message is shown up to
    the fault, which is marked with an arrow.
    """
    if hex_message is not None and source is not None:
        raise typer.BadParameter("give a file or --hex, not both")
    if one_line and json_lines:
        raise typer.BadParameter("give --summary or --json, not both")
    with one_line_errors("decode", debug=False):
        messages = _read(source or STANDARD_INPUT) if hex_message is None else read_hex([hex_message], "--hex")
        if only is not None:
            messages = (message for message in messages if only in message.label)
        first_layout = layouts.FIRST_TICKS if first_ttl is FirstTtl.TICKS else layouts.FIRST
        separator = "" if one_line or json_lines else "\n"
        render = _renderer(one_line=one_line, json_lines=json_lines)
        shown, malformed = _show(islice(messages, limit), render, first_layout, separator)
        if not shown:
            name = "--hex" if hex_message is not None else _name_of(source)
            problem = "no messages in it" if only is None else f"no message whose label contains {only!r}"
            raise InputError(f"{name}: {problem}")
        if malformed:
            raise typer.Exit(MALFORMED)


decode_command.__doc__ = f"{decode_command.__doc__}\n{EPILOG}"


def _read(source: str) -> Iterator[InputMessage]:
    is_typed = source == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty()
    if is_typed:
        typer.echo("Reading hex lines from the terminal; end them with Ctrl-D. --help explains the format.", err=True)
    return find_messages(source)


def _name_of(source: str | None) -> str:
    return "standard input" if source in (None, STANDARD_INPUT) else str(source)


def _show(messages: Iterable[InputMessage], render: Render, first: Layout, separator: str) -> tuple[int, int]:
    """Write messages as they are read; return how many there were, and how many of them are malformed."""
    shown = malformed = 0
    for message in messages:
        annotation = annotate(message.frames, first=first)
        try:
            text = render(message.label, annotation)  # may flush standard output
            sys.stdout.write(f"{separator if shown else ''}{text}\n")
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(f"cannot write: {error.strerror or error}") from None
        shown += 1
        if annotation.fault is not None:
            malformed += 1
    return shown, malformed


def _renderer(*, one_line: bool, json_lines: bool) -> Render:
    """Return the function that turns a message into text, with colours if standard output is a terminal."""
    if json_lines:
        return annotation_json
    console = Console(highlight=False)
    has_width = console.is_terminal or "COLUMNS" in os.environ
    width = console.width if has_width else PIPE_WIDTH

    def render(label: str, annotation: Annotation) -> str:
        text = summary_line(label, annotation) if one_line else draw_message(label, annotation, width)
        with console.capture() as capture:
            console.print(text, soft_wrap=True, end="")
        return capture.get()

    return render
