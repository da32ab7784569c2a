"""Frames to messages and back: the usual message by a compiled fast path, everything else by the careful one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hopline.message import LocalError, Message, WireFormat
from hopline.wire.compiled import DECODERS, ENCODERS, VIEWS
from hopline.wire.detection import FIRST_FRAMES, detect
from hopline.wire.layout import Layout
from hopline.wire.layouts import CANONICAL, FIRST, FIRST_TICKS, LAYOUTS, V4, V5, V5_INT32, V6
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


def _guesser(paths: dict[str, _Path]) -> Callable[[Sequence[bytes], Layout], _Path | None]:
    """Make the function that picks one of the compiled paths by what the last frame looks like.

    A wrong guess costs time only: the path stumbles.
    """
    v6 = paths[V6.name]
    first_documented, first_ticks = paths[FIRST.name], paths[FIRST_TICKS.name]
    by_version_frame = {
        V5.number: paths[V5.name],
        V4.number: paths[V4.name],
        V4.number[:2]: paths[V4.name],
        V5_INT32.number: paths[V4.name],
    }

    def guess(frames: Sequence[bytes], first: Layout) -> _Path | None:
        last = frames[-1]
        if len(last) <= _LONGEST_VERSION_FRAME:
            path = by_version_frame.get(last)
            if path is not None:
                return path
        elif frames[-2]:
            return v6
        elif last[0] == 6 and last[1] == 0:  # V6 with an empty body, or the first format with one that looks like V6
            return v6 if len(frames) < FIRST_FRAMES else None
        return first_documented if first is FIRST else first_ticks if first is FIRST_TICKS else None

    return guess


_guess_decoder = _guesser(DECODERS)
_guess_view = _guesser(VIEWS)


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
