"""A message as people want to see it: frame by frame from the end, in colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from rich.text import Text

from hopline.message import TICKS_PER_MICROSECOND, printable, read_extension
from hopline.wire import Annotation, Reading, RemoteError, Word

SELECTOR_MARK = "*"
WORD_INDENT = "  "
BETWEEN_COLUMNS = "  "

# What a narrow terminal does without.
NEEDED_WIDTH = {"meaning": 140, "bytes": 110}

STYLES = {"frame": "blue", "value": "green", "bytes": "dim", "meaning": "italic dim"}

_RAW_BYTES = 12
_VALUE_CHARACTERS = 48
_EXTENSION_CHARACTERS = 160
_TICKS_PER_SECOND = 1_000_000 * TICKS_PER_MICROSECOND


def dump(label: str, annotation: Annotation, width: int) -> Text:
    """Draw one annotated message, as wide as the terminal."""
    size = sum(map(len, annotation.frames))
    title = annotation.layout.title if annotation.layout else "unknown format"
    counts = f"{plural(len(annotation.frames), 'frame')}, {plural(size, 'byte')}"
    lines = [Text.assemble((printable(label), "bold"), "  ", (title, "cyan"), f"  {counts}")]
    rows = [_cells(reading) for reading in annotation.readings if _is_worth_a_row(reading)]
    if rows:
        lines += _table(rows, width)
    if annotation.fault:
        lines += _fault(annotation, annotation.fault)
    return Text("\n").join(lines)


def _is_worth_a_row(reading: Reading) -> bool:
    return bool(reading.value) or not reading.name.startswith("reserved.")


def _cells(reading: Reading) -> dict[str, str]:
    is_word = isinstance(reading.row, Word)
    has_parts = reading.value is None or isinstance(reading.value, tuple)
    selector = reading.row.selector
    place = f"n-{reading.position}" if reading.offset is None else f"  @{reading.offset}"
    return {
        "frame": "" if is_word else place,
        "field": (WORD_INDENT if is_word else "") + reading.name + (SELECTOR_MARK if selector else ""),
        "value": "" if has_parts else shown(reading.name, reading.value),
        "bytes": "" if is_word else raw(reading.raw),
        "meaning": reading.row.meaning,
    }


def _table(rows: list[dict[str, str]], width: int) -> Iterator[Text]:
    """Line the cells up; what does not fit behind the last column's start is wrapped there."""
    columns = [name for name in ("frame", "field", "bytes", "value", "meaning") if width >= NEEDED_WIDTH.get(name, 0)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    margin = sum(widths[name] + len(BETWEEN_COLUMNS) for name in columns[:-1])
    room = max(width - margin, 16)
    yield Text(BETWEEN_COLUMNS.join(name.ljust(widths[name]) for name in columns).rstrip(), "dim")
    for row in rows:
        first, *more = textwrap.wrap(row[columns[-1]], room, break_on_hyphens=False) or [""]
        cells = [(row[name].ljust(widths[name]), _style(name, row)) for name in columns[:-1]]
        line = Text(BETWEEN_COLUMNS).join(Text(text, style) for text, style in [*cells, (first, STYLES[columns[-1]])])
        line.rstrip()
        yield line
        yield from (Text(" " * margin + text, STYLES[columns[-1]]) for text in more)


def _style(column: str, row: dict[str, str]) -> str:
    if column == "field":
        return "yellow" if row["field"].endswith(SELECTOR_MARK) else ""
    return STYLES[column]


def _fault(annotation: Annotation, fault: RemoteError) -> Iterable[Text]:
    """Point at the fault: what is wrong where, with the bytes, and what stays unread above it."""
    yield Text.assemble(("--> ", "bold red"), (f"{fault.place}  {fault.field}", "bold red"), f"  {fault.reason}")
    yield Text(f"    expected {fault.expected}")
    yield Text(f"    found    {printable(fault.shown_found)}", "red")
    read = {reading.position for reading in annotation.readings}
    unread = [above for above in range(1, len(annotation.frames) + 1) if above not in read and above != fault.position]
    if read and unread:
        yield Text(f"    {plural(len(unread), 'frame')} above it not read", "dim")
    elif unread:
        yield from (Text(f"n-{above}".ljust(7) + raw(annotation.frames[-above]), "dim") for above in unread)


def raw(content: bytes) -> str:
    """Show the beginning of some bytes, and how many there are."""
    if not content:
        return "empty"
    if len(content) <= _RAW_BYTES:
        return content.hex()
    return f"{content[:_RAW_BYTES].hex()}.. ({len(content):,})"


def shown(name: str, value: Any) -> str:
    """Show a value; whatever a peer put into it, nothing of it reaches the terminal unescaped."""
    if name == "extension":
        return _cut(ascii(read_extension(value)), _EXTENSION_CHARACTERS)
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
    return value.hex() if len(value) <= _RAW_BYTES else plural(len(value), "byte")


def _cut(text: str, longest: int = _VALUE_CHARACTERS) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def plural(number: int, noun: str) -> str:
    """Count things."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def summary(label: str, annotation: Annotation) -> Text:
    """Put a message into one line."""
    if annotation.fault:
        return Text.assemble((printable(label), "bold"), "  ", (printable(str(annotation.fault)), "red"))
    message, size = annotation.message, sum(map(len, annotation.frames))
    if message is None or annotation.layout is None:
        raise ValueError("an annotation has a message or a fault")
    lists = f"routers {len(message.routing)}, callbacks {len(message.callback_point)}"
    return Text.assemble(
        (printable(label), "bold"),
        "  ",
        (annotation.layout.name, "cyan"),
        "  ",
        (str(message.identifier), "green"),
        f"  hops {message.hops}, {lists}, {plural(size, 'byte')}",
    )
