"""Frames to messages and back: the usual message by a compiled fast path, everything else by the careful one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from hopline.message import LocalError, Message, WireFormat
from hopline.wire.compiled import DECODERS, ENCODERS, VIEWS
from hopline.wire.detection import FIRST_FRAMES, detect
from hopline.wire.layout import Layout
from hopline.wire.layouts import CANONICAL, FIRST, LAYOUTS, V4, V5, V5_INT32, V6
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.reader import Reader
from hopline.wire.unusual import STUMBLES
from hopline.wire.view import RoutingView
from hopline.wire.writer import Writer

_Path = TypeVar("_Path", bound=Callable[..., object])

_LONGEST_VERSION_FRAME = 4

_ENCODERS = {LAYOUTS[name]: encoder for name, encoder in ENCODERS.items()} | {
    wire_format: ENCODERS[layout.name] for wire_format, layout in CANONICAL.items()
}


class _FastPaths(Generic[_Path]):
    """The compiled functions of one kind, by what the last frame looks like."""

    def __init__(self, paths: dict[str, _Path]) -> None:
        self.v6 = paths[V6.name]
        self.first = {
            LAYOUTS[name]: path for name, path in paths.items() if LAYOUTS[name].wire_format == FIRST.wire_format
        }
        self.by_version_frame = {
            V5.number: paths[V5.name],
            V4.number: paths[V4.name],
            V4.number[:2]: paths[V4.name],
            V5_INT32.number: paths[V4.name],
        }

    def guess(self, frames: Sequence[bytes], first: Layout) -> _Path | None:
        """Guess the path for a message. A wrong guess costs time only: the path stumbles."""
        last = frames[-1] if frames else b""
        if len(last) <= _LONGEST_VERSION_FRAME:
            path = self.by_version_frame.get(last)
            if path is not None:
                return path
        elif last[0] == 6 and last[1] == 0:
            return self.v6 if 1 < len(frames) < FIRST_FRAMES else None
        return self.first.get(first)


_guess_decoder = _FastPaths(DECODERS).guess
_guess_view = _FastPaths(VIEWS).guess


def encode(message: Message, wire_format: WireFormat | Layout, *, limits: Limits = DEFAULT_LIMITS) -> list[bytes]:
    """Write a message as frames, the socket identity and the empty delimiter in front.

    A format has no place for some fields: these are left out. What it has a place for but cannot say, such as 70,000
    hops, raises `LocalError`. A `Layout` instead of a format writes a dialect, such as ``layouts.FIRST_TICKS``.
    """
    try:
        return _ENCODERS[wire_format](message, limits)
    except STUMBLES:
        pass
    return Writer(message, _layout_of(wire_format), limits).write()


def decode(frames: Sequence[bytes], *, limits: Limits = DEFAULT_LIMITS, first: Layout = FIRST) -> Message:
    """Read a message of any format, whatever envelope frames stand in front of it.

    Returns a message or raises `RemoteError`, whatever the bytes are. `first` is the dialect to take the first format
    for: it does not say by itself which one it is.
    """
    try:
        decoder = _guess_decoder(frames, first)
        if decoder is not None:
            return decoder(frames, limits)
    except STUMBLES:
        pass
    return _careful_reader(frames, limits, first).read()


def peek(frames: Sequence[bytes], *, limits: Limits = DEFAULT_LIMITS, first: Layout = FIRST) -> RoutingView:
    """Read only what a router needs: the route selectors and the hop count. `decode` the frames for the rest.

    Faults elsewhere in the message stay unseen until then, and of the limits only the number of frames is looked at.
    """
    try:
        view = _guess_view(frames, first) if len(frames) <= limits.frames else None
        if view is not None:
            return view(frames)
    except STUMBLES:
        pass
    return _careful_reader(frames, limits, first).view()


def _layout_of(wire_format: WireFormat | Layout) -> Layout:
    layout = CANONICAL.get(wire_format) if isinstance(wire_format, str) else wire_format
    if not isinstance(layout, Layout):
        raise LocalError("wire_format", "a WireFormat or a Layout", wire_format)
    return layout


def _careful_reader(frames: Sequence[bytes], limits: Limits, first: Layout) -> Reader:
    check_types(frames, first)
    return Reader(frames, detect(frames, first=first), limits)


def check_types(frames: Sequence[bytes], first: Layout) -> None:
    """Refuse what is no message at all: that is the caller's mistake, not the peer's."""
    if not isinstance(frames, list | tuple):
        raise LocalError("frames", "a list or tuple of bytes", frames)
    for frame in frames:
        if not isinstance(frame, bytes):
            raise LocalError("frames", "frames of bytes", frame)
    if not isinstance(first, Layout):
        raise LocalError("first", "layouts.FIRST or layouts.FIRST_TICKS", first)
