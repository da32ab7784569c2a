"""A message as people want to see it: frame by frame from the end, in colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.text import Text

from hopline.display.frames import FrameRow, frame_rows, plural, raw, unread_positions
from hopline.message import printable
from hopline.wire import Annotation, RemoteError

SELECTOR_MARK = "*"
WORD_INDENT = "  "
BETWEEN_COLUMNS = "  "

# What a narrow terminal does without.
NEEDED_WIDTH = {"meaning": 140, "bytes": 110}

STYLES = {"frame": "blue", "value": "green", "bytes": "dim", "meaning": "italic dim"}


def dump(label: str, annotation: Annotation, width: int) -> Text:
    """Draw one annotated message, as wide as the terminal."""
    size = sum(map(len, annotation.frames))
    title = annotation.layout.title if annotation.layout else "unknown format"
    counts = f"{plural(len(annotation.frames), 'frame')}, {plural(size, 'byte')}"
    lines = [Text.assemble((printable(label), "bold"), "  ", (title, "cyan"), f"  {counts}")]
    rows = [_cells(row) for row in frame_rows(annotation)]
    if rows:
        lines += _table(rows, width)
    if annotation.fault:
        lines += _fault(annotation, annotation.fault)
    return Text("\n").join(lines)


def _cells(row: FrameRow) -> dict[str, str]:
    place = row.place.rjust(len(row.place) + len(WORD_INDENT)) if row.place.startswith("@") else row.place
    return {
        "frame": place,
        "field": (WORD_INDENT if row.is_word else "") + row.field + (SELECTOR_MARK if row.is_selector else ""),
        "value": row.value,
        "bytes": row.raw,
        "meaning": row.meaning,
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
    unread = unread_positions(annotation)
    if annotation.readings and unread:
        yield Text(f"    {plural(len(unread), 'frame')} above it not read", "dim")
    elif unread:
        yield from (Text(f"n-{above}".ljust(7) + raw(annotation.frames[-above]), "dim") for above in unread)


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
