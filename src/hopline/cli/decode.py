"""``hopline decode``: any message, frame by frame, annotated."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from hopline.cli.dump import Dump, summary
from hopline.cli.machine import as_json
from hopline.cli.sources import STANDARD_INPUT, Found, SourceError, find_messages, read_hex
from hopline.wire import Layout, annotate, layouts

# A pipe has no width: wide enough for whole rows, so that they can be searched.
PIPE_WIDTH = 200

MALFORMED, BAD_INPUT = 1, 2


class FirstTtl(StrEnum):
    """The unit of the first format's TTL, which its messages do not say."""

    MS = "ms"
    TICKS = "ticks"


EPILOG = """
**Examples**

    hopline decode message.hex
    hopline decode --hex '||42|...|0500'
    hopline decode tests/data/vectors/v5.json --only callbacks_2
    hopline decode captures/ --summary
    hopline decode capture.parquet --json | jq .message

**Hex lines**: a line with bars (`a|b||c`) is a whole message. Without bars each line is a frame, an empty line or a
lone `-` an empty one, and `---` stands between messages. `#` starts a comment.

**Exit code**: 0 when every message could be read, 1 when one is malformed, 2 when the input itself is unusable.
"""


def decode_command(
    source: Annotated[
        str, typer.Argument(help="Hex lines, a vectors file (JSON), a capture (.parquet), a folder of captures, or -.")
    ] = STANDARD_INPUT,
    hex_message: Annotated[
        str | None, typer.Option("--hex", help="Decode this message instead of a file: hex, | between frames.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="Show only messages whose label contains this text.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after this many messages.")] = None,
    one_line: Annotated[bool, typer.Option("--summary", "-s", help="One line a message.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object a message, bytes as hex.")] = False,
    first_ttl: Annotated[
        FirstTtl, typer.Option("--first-ttl", help="Unit of the first format's TTL: its document says ms.")
    ] = FirstTtl.MS,
) -> None:
    """Show messages frame by frame, from the end: position, name, bytes, value and meaning.

    The format is told by structure. Route selectors are marked with a star. Of a malformed message the good part is
    shown, with an arrow at the fault.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    first = layouts.FIRST_TICKS if first_ttl is FirstTtl.TICKS else layouts.FIRST
    shown = malformed = 0
    try:
        found = find_messages(source) if hex_message is None else read_hex(hex_message, "--hex")
        for message in found:
            if only is not None and only not in message.label:
                continue
            malformed += not _show(console, message, first, one_line=one_line, json_lines=json_lines, nth=shown)
            shown += 1
            if shown == limit:
                break
        if not shown:
            wanted = "no messages in it" if only is None else f"no message whose label contains {only!r}"
            raise SourceError(f"{source if hex_message is None else '--hex'}: {wanted}")
    except SourceError as error:
        typer.secho(f"hopline decode: {error}", err=True, fg="red")
        raise typer.Exit(BAD_INPUT) from None
    if malformed:
        raise typer.Exit(MALFORMED)


decode_command.__doc__ = f"{decode_command.__doc__}\n{EPILOG}"


def _show(console: Console, found: Found, first: Layout, *, one_line: bool, json_lines: bool, nth: int) -> bool:
    """Print one message and tell whether it could be read."""
    annotation = annotate(found.frames, first=first)
    if json_lines:
        typer.echo(as_json(found.label, annotation))
    elif one_line:
        console.print(summary(found.label, annotation), soft_wrap=True)
    else:
        if nth:
            console.print()
        console.print(Dump(found.label, annotation))
    return annotation.fault is None
