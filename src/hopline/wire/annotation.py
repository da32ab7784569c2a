"""A message taken apart for people: every frame with its name, value and meaning, and the fault if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopline.message import Message
from hopline.wire.codec import check_types
from hopline.wire.detection import detect
from hopline.wire.errors import RemoteError
from hopline.wire.layout import Layout
from hopline.wire.layouts import FIRST
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.reader import Reader, Reading


@dataclass(frozen=True, slots=True)
class Annotation:
    """What was read of a message, from the end. With a fault, `message` is None and the readings stop before it."""

    frames: Sequence[bytes]
    layout: Layout | None  # None when not even the format could be told
    readings: tuple[Reading, ...]
    message: Message | None
    fault: RemoteError | None


def annotate(frames: Sequence[bytes], *, limits: Limits = DEFAULT_LIMITS, first: Layout = FIRST) -> Annotation:
    """Read a message for display; never raises on what a peer sent."""
    check_types(frames, first)
    try:
        layout = detect(frames, first=first)
    except RemoteError as fault:
        return Annotation(frames, None, (), None, fault)
    reader = Reader(frames, layout, limits)
    try:
        message = reader.read()
    except RemoteError as fault:
        return Annotation(frames, layout, tuple(reader.readings), None, fault)
    return Annotation(frames, layout, tuple(reader.readings), message, None)
