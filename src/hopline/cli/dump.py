"""A message as people want to see it: frame by frame from the end, in colour."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from hopline.message import TICKS_PER_MICROSECOND
from hopline.wire import Annotation, Reading, RemoteError, Word

SELECTOR_MARK = "*"
WORD_INDENT = "  "
WIDTH_FOR_MEANINGS = 130

_RAW_BYTES = 12
_VALUE_CHARACTERS = 48
_TICKS_PER_SECOND = 1_000_000 * TICKS_PER_MICROSECOND


class Dump:
    """One annotated message, ready for a rich console."""

    def __init__(self, label: str, annotation: Annotation) -> None:
        self.label = label
        self.annotation = annotation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        annotation = self.annotation
        size = sum(map(len, annotation.frames))
        title = annotation.layout.title if annotation.layout else "unknown format"
        yield Text.assemble(
            (self.label, "bold"), "  ", (title, "cyan"), f"  {len(annotation.frames)} frames, {size:,} bytes"
        )
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False)
        table.add_column("frame", no_wrap=True, min_width=5)
        table.add_column("field", no_wrap=True)
        table.add_column("bytes", no_wrap=True, style="dim")
        table.add_column("value", overflow="fold")
        if options.max_width >= WIDTH_FOR_MEANINGS:
            table.add_column("meaning", style="italic dim", overflow="fold", min_width=30)
        for reading in annotation.readings:
            if reading.value or not reading.name.startswith("reserved."):
                table.add_row(*_row(reading)[: len(table.columns)])
        if annotation.readings:
            yield table
        if annotation.fault:
            yield from _fault(annotation, annotation.fault)


def _row(reading: Reading) -> tuple[Text, Text, Text, Text, Text]:
    selector = reading.row is not None and reading.row.selector
    is_word = isinstance(reading.row, Word)
    place = "" if is_word else f"n-{reading.position}" if reading.offset is None else f"  @{reading.offset}"
    name = Text((WORD_INDENT if is_word else "") + reading.name)
    if selector:
        name.append(SELECTOR_MARK, "bold yellow")
        name.stylize("yellow")
    has_parts = reading.value is None or isinstance(reading.value, tuple)
    value = Text() if has_parts else Text(shown(reading.name, reading.value), "green")
    meaning = reading.row.meaning if reading.row else ""
    return Text(place, "blue"), name, Text("" if is_word else raw(reading.raw)), value, Text(meaning)


def _fault(annotation: Annotation, fault: RemoteError) -> RenderResult:
    """Point at the fault: what is wrong where, with the bytes, and the frames that stay unread above it."""
    yield Text.assemble(("--> ", "bold red"), (f"{fault.place}  {fault.field}", "bold red"), f"  {fault.reason}")
    yield Text(f"    expected {fault.expected}")
    yield Text(f"    found    {fault.shown_found}", "red")
    read = {reading.position for reading in annotation.readings}
    unread = [above for above in range(1, len(annotation.frames) + 1) if above not in read and above != fault.position]
    if unread and not read:
        for above in unread:
            yield Text.assemble((f"n-{above}".ljust(7), "dim"), (raw(annotation.frames[-above]), "dim"))
    elif unread:
        yield Text(f"    {len(unread)} frames above it were not read", "dim")


def raw(content: bytes) -> str:
    """Show the beginning of some bytes, and how many there are."""
    if not content:
        return "empty"
    if len(content) <= _RAW_BYTES:
        return content.hex()
    return f"{content[:_RAW_BYTES].hex()}.. ({len(content):,})"


def shown(name: str, value: Any) -> str:
    """Show a value; whatever a peer put into it, nothing of it reaches the terminal unescaped."""
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, str):
        return _cut(repr(value)) if value else ""
    if name == "ttl_ticks" and value:
        return f"{value / _TICKS_PER_SECOND:g} s ({value} ticks)"
    if name.endswith(".offset") and value:
        return f"{value} (n-{value})"
    return str(value)


def _bytes(value: bytes) -> str:
    """Show bytes as text when that is what they are, perhaps behind a type byte as in actor and hub identities."""
    if not value:
        return ""
    text = value.decode("utf-8", "replace")
    if text.isprintable() and "\ufffd" not in text:
        return _cut(repr(text))
    kind = {0: "hub ", 1: "actor "}.get(value[0], "")
    if kind and text[1:].isprintable() and len(text) > 1 and "\ufffd" not in text:
        return kind + _cut(repr(text[1:]))
    return "" if len(value) <= _RAW_BYTES else f"{len(value):,} bytes"


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_CHARACTERS else text[: _VALUE_CHARACTERS - 3] + "..."


def summary(label: str, annotation: Annotation) -> Text:
    """Put a message into one line."""
    if annotation.fault:
        return Text.assemble((label, "bold"), "  ", (str(annotation.fault), "red"))
    message, size = annotation.message, sum(map(len, annotation.frames))
    if message is None or annotation.layout is None:
        raise ValueError("an annotation has a message or a fault")
    lists = f"routers {len(message.routing)}, callbacks {len(message.callback_point)}"
    return Text.assemble(
        (label, "bold"),
        "  ",
        (annotation.layout.name, "cyan"),
        "  ",
        (repr(str(message.identifier))[1:-1], "green"),
        f"  hops {message.hops}, {lists}, {size:,} bytes",
    )
