"""``hopline decode``: any message, frame by frame, annotated."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hopline.cli.console import UsageError, one_line_errors
from hopline.cli.dump import dump, summary
from hopline.cli.machine import as_json
from hopline.cli.sources import STANDARD_INPUT, Found, SourceError, find_messages, read_hex
from hopline.wire import Annotation, annotate, layouts
from hopline.wire.layout import Layout

# A pipe has no width: wide enough for whole rows, so that they can be searched.
PIPE_WIDTH = 240

MALFORMED = 1


class FirstTtl(StrEnum):
    """The unit of the first format's TTL, which its messages do not say."""

    MS = "ms"
    TICKS = "ticks"


EPILOG = """
**Examples**

    hopline decode message.hex
    hopline decode --hex '|||...|0500'
    hopline decode tests/data/vectors/v5.json --only callbacks_2
    hopline decode captures/ --summary
    hopline decode capture.parquet --json | jq .message

**Hex lines**: a line with bars (`a|b||c`) is a whole message. Without bars each line is a frame, an empty line or a
lone `-` an empty one, and `---` stands between messages. `#` starts a comment.

**Exit code**: 0 when every message could be read, 1 when one is malformed, 2 when the input itself is unusable.
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
        str | None, typer.Option("--hex", help="Decode this message instead of a file: hex, | between frames.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="Show only messages whose label contains this text.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after this many messages.")] = None,
    one_line: Annotated[bool, typer.Option("--summary", "-s", help="One line a message.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="JSON lines: one object a message, bytes as hex.")] = False,
    first_ttl: Annotated[
        FirstTtl, typer.Option("--first-ttl", help="Unit of the first format's TTL: its document says ms.")
    ] = FirstTtl.MS,
) -> None:
    """Show messages frame by frame, from the end: position, name, bytes, value and meaning.

    The format is told by structure. Route selectors are marked with a star. Of a malformed message the good part is
    shown, with an arrow at the fault.
    """
    if hex_message is not None and source is not None:
        raise typer.BadParameter("give a file or --hex, not both")
    if one_line and json_lines:
        raise typer.BadParameter("give --summary or --json, not both")
    if hex_message is None and source in (None, STANDARD_INPUT) and sys.stdin is not None and sys.stdin.isatty():
        typer.echo("Reading hex lines from the terminal; Ctrl-D ends them, --help says more.", err=True)
    name = "--hex" if hex_message is not None else source or STANDARD_INPUT
    found = find_messages(name) if hex_message is None else read_hex([hex_message], name)
    if only is not None:
        found = (message for message in found if only in message.label)
    first = layouts.FIRST_TICKS if first_ttl is FirstTtl.TICKS else layouts.FIRST
    draw = as_json if json_lines else _painter(summary if one_line else None)
    with one_line_errors("decode", debug=False):
        shown, malformed = _show(islice(found, limit), draw, first, between="" if json_lines or one_line else "\n")
        if not shown:
            wanted = "no messages in it" if only is None else f"no message whose label contains {only!r}"
            raise SourceError(f"{'standard input' if name == STANDARD_INPUT else name}: {wanted}")
        if malformed:
            raise typer.Exit(MALFORMED)


decode_command.__doc__ = f"{decode_command.__doc__}\n{EPILOG}"


def _show(
    messages: Iterable[Found], draw: Callable[[str, Annotation], str], first: Layout, *, between: str
) -> tuple[int, int]:
    """Write messages as they are read; return how many there were, and how many of them malformed."""
    shown = malformed = 0
    for message in messages:
        annotation = annotate(message.frames, first=first)
        try:
            sys.stdout.write(f"{between if shown else ''}{draw(message.label, annotation)}\n")
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(f"cannot write: {error.strerror or error}") from None
        shown += 1
        malformed += annotation.fault is not None
    return shown, malformed


def _painter(one_line: Callable[[str, Annotation], Text] | None) -> Callable[[str, Annotation], str]:
    """Make the function that draws a message in the colours that the terminal has."""
    console = Console(highlight=False)
    width = console.width if console.is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH

    def paint(label: str, annotation: Annotation) -> str:
        text = one_line(label, annotation) if one_line else dump(label, annotation, width)
        with console.capture() as capture:
            console.print(text, soft_wrap=True, end="")
        return capture.get()

    return paint
