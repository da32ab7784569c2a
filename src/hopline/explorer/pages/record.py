"""One record: its columns, its frames as `hopline decode` shows them, and its bodies decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from hopline.display.bodies import body_text, read_body
from hopline.display.frames import FrameRow, frame_rows, plural, raw, unread_positions
from hopline.explorer.pages.context import Context, NotFoundError
from hopline.explorer.parameters import ParameterError
from hopline.explorer.presentation import FLOW_COLUMNS, NODE_COLUMNS
from hopline.explorer.protobuf_bodies import ProtobufTypes
from hopline.explorer.questions.record import record
from hopline.explorer.records import FramesError
from hopline.message import printable, printable_lines
from hopline.wire import Annotation, annotate

SHOWN_BODIES = 20
_HEX_BYTES = 4_096
_EMPTY: tuple[object, ...] = (None, "", b"", [])


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a record as rows, with the fault where there is one."""

    title: str
    size: str
    rows: list[FrameRow]
    fault: dict[str, str] | None
    unread: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Body:
    """A body frame, decoded."""

    form: str
    size: int
    text: str


def page(context: Context) -> str:
    """Return one record of a node."""
    parameters = context.parameters
    node, seq = context.given.get("node", ""), parameters.number("seq", -1)
    if not node or seq < 0:
        raise ParameterError("which record? The address needs node and seq")
    seen = context.answer(record, node, seq, _day(parameters.text("date")))
    if seen is None:
        raise NotFoundError(f"the tables have no record {seq} of node {printable(node)}")
    frames, problem = seen.frames, ""
    if frames is None:
        try:
            frames = context.frames.read(seen.row["segment"], node, seq)
        except FramesError as error:
            problem = str(error)
    bodies: Sequence[bytes] = seen.bodies
    shown = None
    if frames is not None:
        annotation = annotate(frames)
        shown = _frames(annotation)
        if annotation.message is not None:
            bodies = annotation.message.bodies
    type_name = parameters.text("as") or context.protobuf.type_of(seen.row.get("identity")) or ""
    return context.render(
        "record.html",
        seen=seen,
        facts=[(name, value) for name, value in seen.row.items() if value not in _EMPTY and name != "date"],
        frames=shown,
        problem=problem,
        bodies=[_body(body, context.protobuf, type_name) for body in bodies[:SHOWN_BODIES]],
        types=context.protobuf.names,
        type_name=type_name,
        node_columns=NODE_COLUMNS,
        flow_columns=FLOW_COLUMNS,
    )


def _frames(annotation: Annotation) -> Frames:
    frames, fault = annotation.frames, annotation.fault
    size = f"{plural(len(frames), 'frame')}, {plural(sum(map(len, frames)), 'byte')}"
    return Frames(
        title=annotation.layout.title if annotation.layout else "unknown format",
        size=size,
        rows=frame_rows(annotation),
        fault=None
        if fault is None
        else {
            "place": fault.place,
            "field": fault.field,
            "reason": str(fault.reason),
            "expected": fault.expected,
            "found": fault.shown_found,
        },
        unread=[(f"n-{position}", raw(frames[-position])) for position in unread_positions(annotation)]
        if fault
        else [],
    )


def _body(body: bytes, protobuf: ProtobufTypes, type_name: str) -> Body:
    if type_name and (text := protobuf.text(type_name, body)) is not None:
        return Body(f"protobuf {type_name}", len(body), text)
    form, _ = read_body(body)
    if form == "bytes":
        return Body("bytes", len(body), _hex_lines(body))
    return Body(form, len(body), printable_lines(body_text(body)))


def _hex_lines(body: bytes) -> str:
    """Return bytes as lines of 16: offset, hex, and what is text in them."""
    lines = []
    for start in range(0, min(len(body), _HEX_BYTES), 16):
        part = body[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:06x}  {part.hex(' '):<47}  {text}")
    if len(body) > _HEX_BYTES:
        lines.append(f"... ({len(body):,} bytes)")
    return "\n".join(lines)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise ParameterError(f"{printable(text)!r} is no day: write it as 2026-01-31") from None
