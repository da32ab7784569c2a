"""A decoded message as text: a line per frame from the last one, or one line for the whole message."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

from hopline.display.frames import FrameRow, frame_rows, plural, raw, unread_positions
from hopline.message import printable
from hopline.wire import Annotation, RemoteError

SELECTOR_MARK = "*"
WORD_INDENT = "  "
COLUMN_GAP = "  "
_LEAST_WIDTH = 16  # of the last column

# The terminal width from which a column is shown.
NEEDED_WIDTH = {"meaning": 140, "bytes": 110}

STYLES = {"frame": "blue", "value": "green", "bytes": "dim", "meaning": "italic dim"}

_COLUMNS = ("frame", "field", "bytes", "value", "meaning")

Cells = dict[str, str]  # by column


def draw_message(label: str, annotation: Annotation, width: int) -> Text:
    """Return an annotated message as a table of its frames, for a terminal of this width."""
    title = annotation.layout.title if annotation.layout else "unknown format"
    frames = plural(len(annotation.frames), "frame")
    size = plural(_size(annotation), "byte")
    heading = Text.assemble(
        (printable(label), "bold"),
        "  ",
        (title, "cyan"),
        f"  {frames}, {size}",
    )
    lines = [heading]
    rows = [_cells(row) for row in frame_rows(annotation)]
    if rows:
        lines += _table_lines(rows, width)
    if annotation.fault:
        lines += _fault_lines(annotation, annotation.fault)
    return Text("\n").join(lines)


def summary_line(label: str, annotation: Annotation) -> Text:
    """Return an annotated message as one line."""
    label = printable(label)
    if annotation.fault:
        problem = printable(str(annotation.fault))
        return Text.assemble((label, "bold"), "  ", (problem, "red"))
    message = annotation.message
    if message is None or annotation.layout is None:
        raise ValueError("an annotation has a message or a fault")
    routers = len(message.routing)
    callbacks = len(message.callback_point)
    size = plural(_size(annotation), "byte")
    return Text.assemble(
        (label, "bold"),
        "  ",
        (annotation.layout.name, "cyan"),
        "  ",
        (str(message.identifier), "green"),
        f"  hops {message.hops}, routers {routers}, callbacks {callbacks}, {size}",
    )


def _size(annotation: Annotation) -> int:
    return sum(map(len, annotation.frames))


def _cells(row: FrameRow) -> Cells:
    is_field_of_frame = row.place.startswith("@")
    field = row.field
    if row.is_word:
        field = f"{WORD_INDENT}{field}"
    if row.is_selector:
        field = f"{field}{SELECTOR_MARK}"
    return {
        "frame": f"{WORD_INDENT}{row.place}" if is_field_of_frame else row.place,
        "field": field,
        "value": row.value,
        "bytes": row.raw,
        "meaning": row.meaning,
    }


def _table_lines(rows: list[Cells], width: int) -> Iterator[Text]:
    """Align the cells in columns; the last column wraps at the terminal's width."""
    columns = [name for name in _COLUMNS if width >= NEEDED_WIDTH.get(name, 0)]
    widths = {}
    for name in columns:
        longest = max(len(row[name]) for row in rows)
        widths[name] = max(len(name), longest)
    *aligned, last = columns
    margin = sum(widths[name] + len(COLUMN_GAP) for name in aligned)
    last_width = max(width - margin, _LEAST_WIDTH)
    header = COLUMN_GAP.join(name.ljust(widths[name]) for name in columns)
    yield Text(header.rstrip(), "dim")
    for row in rows:
        wrapped = textwrap.wrap(row[last], last_width, break_on_hyphens=False) or [""]
        cells = []
        for name in aligned:
            padded = row[name].ljust(widths[name])
            cells.append(Text(padded, _style(name, row)))
        cells.append(Text(wrapped[0], STYLES[last]))
        line = Text(COLUMN_GAP).join(cells)
        line.rstrip()
        yield line
        for continuation in wrapped[1:]:
            yield Text(" " * margin + continuation, STYLES[last])


def _style(column: str, row: Cells) -> str:
    if column == "field":
        return "yellow" if row["field"].endswith(SELECTOR_MARK) else ""
    return STYLES[column]


def _fault_lines(annotation: Annotation, fault: RemoteError) -> Iterator[Text]:
    """Return the place of the fault, what was expected and found there, and the frames that were not read."""
    yield Text.assemble(
        ("--> ", "bold red"),
        (f"{fault.place}  {fault.field}", "bold red"),
        f"  {fault.reason}",
    )
    yield Text(f"    expected {fault.expected}")
    yield Text(f"    found    {printable(fault.shown_found)}", "red")
    unread = unread_positions(annotation)
    if annotation.readings and unread:
        count = plural(len(unread), "frame")
        yield Text(f"    {count} above it not read", "dim")
        return
    for position in unread:
        place = f"n-{position}".ljust(7)
        frame = annotation.frames[-position]
        yield Text(f"{place}{raw(frame)}", "dim")
