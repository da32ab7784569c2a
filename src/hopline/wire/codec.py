"""Frames to messages and back: the usual message by a compiled fast path, everything else by the careful one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hopline.message import LocalError, Message, WireFormat
from hopline.wire.compiled import DECODERS, ENCODERS, META_VIEWS, VIEWS
from hopline.wire.detection import FIRST_FRAMES, detect
from hopline.wire.fast_path import STUMBLES
from hopline.wire.layout import Layout
from hopline.wire.layouts import BY_FORMAT, FIRST, FIRST_TICKS, LAYOUTS, V4, V5, V5_INT32, V6
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.reader import Reader
from hopline.wire.view import RoutingView
from hopline.wire.writer import Writer

_LONGEST_VERSION_FRAME = 4

Decoder = Callable[[Sequence[bytes], Limits], Message]

_ENCODERS_BY_LAYOUT = {LAYOUTS[name]: encoder for name, encoder in ENCODERS.items()}
_ENCODERS_BY_FORMAT = {wire_format: ENCODERS[layout.name] for wire_format, layout in BY_FORMAT.items()}
_ENCODERS = _ENCODERS_BY_LAYOUT | _ENCODERS_BY_FORMAT

# The layout of each version frame: its compiled functions are tried first.
_BY_VERSION_FRAME = {
    V5.number: V5.name,
    V4.number: V4.name,
    V4.number[:2]: V4.name,
    V5_INT32.number: V5_INT32.name,
}
_DECODERS = {number: DECODERS[name] for number, name in _BY_VERSION_FRAME.items()}
_VIEWS = {number: VIEWS[name] for number, name in _BY_VERSION_FRAME.items()}
_decode_v6 = DECODERS[V6.name]
_decode_first = DECODERS[FIRST.name]
_decode_first_ticks = DECODERS[FIRST_TICKS.name]
_view_v6 = META_VIEWS[V6.name]
_view_first = VIEWS[FIRST.name]
_view_first_ticks = VIEWS[FIRST_TICKS.name]


def encode(
    message: Message,
    wire_format: WireFormat | Layout,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> list[bytes]:
    """Write a message as frames, the socket identity and the empty delimiter in front.

    A format has no place for some fields: these are left out. What it has a place for but cannot say, such as 70,000
    hops, raises `LocalError`. A `Layout` instead of a format writes a dialect, such as ``layouts.FIRST_TICKS``.
    """
    try:
        return _ENCODERS[wire_format](message, limits)
    except STUMBLES:
        pass
    layout = _layout_of(wire_format)
    writer = Writer(message, layout, limits)
    return writer.write()


def decode(
    frames: Sequence[bytes],
    *,
    limits: Limits = DEFAULT_LIMITS,
    first: Layout = FIRST,
) -> Message:
    """Read a message of any format, whatever envelope frames stand in front of it.

    Returns a message or raises `RemoteError`, whatever the bytes are. `first` is the dialect to take the first format
    for: it does not say by itself which one it is.
    """
    try:
        if len(frames[-1]) > _LONGEST_VERSION_FRAME and frames[-2]:  # the most usual guess, without the call
            return _decode_v6(frames, limits)
        decoder = _guess_decoder(frames, first)
        if decoder is not None:
            return decoder(frames, limits)
    except STUMBLES:
        pass
    return _careful_reader(frames, limits, first).read()


def peek(
    frames: Sequence[bytes],
    *,
    limits: Limits = DEFAULT_LIMITS,
    first: Layout = FIRST,
) -> RoutingView:
    """Read only what a router needs: the route selectors and the hop count. `decode` the frames for the rest.

    Faults elsewhere in the message stay unseen until then, and of the limits only the number of frames is looked at.
    """
    try:
        count = len(frames)
        if count <= limits.frames:  # guess as for decoding, without the call, which is a twentieth of the time
            last = frames[-1]
            if len(last) <= _LONGEST_VERSION_FRAME and last in _VIEWS:
                return _VIEWS[last](frames)
            if count < FIRST_FRAMES or frames[-2]:
                if count > 1:
                    return _view_v6(frames, last)
            elif not last or last[0] != 6 or last[1] != 0:
                if first is FIRST:
                    return _view_first(frames)
                if first is FIRST_TICKS:
                    return _view_first_ticks(frames)
    except STUMBLES:
        pass
    return _careful_reader(frames, limits, first).view()


def _guess_decoder(frames: Sequence[bytes], first: Layout) -> Decoder | None:
    """Choose a compiled decoder by the last frame. A wrong guess costs time only: the decoder declines the message."""
    last = frames[-1]
    if len(last) <= _LONGEST_VERSION_FRAME:
        decoder = _DECODERS.get(last)
        if decoder is not None:
            return decoder
    elif last[0] == 6 and last[1] == 0:  # V6 with an empty body, or the first format with one that looks like V6
        return _decode_v6 if len(frames) < FIRST_FRAMES else None
    if first is FIRST:
        return _decode_first
    return _decode_first_ticks if first is FIRST_TICKS else None


def _layout_of(wire_format: WireFormat | Layout) -> Layout:
    layout = BY_FORMAT.get(wire_format) if isinstance(wire_format, str) else wire_format
    if not isinstance(layout, Layout):
        raise LocalError("wire_format", "a WireFormat or a Layout", wire_format)
    return layout


def _careful_reader(frames: Sequence[bytes], limits: Limits, first: Layout) -> Reader:
    check_types(frames, first)
    layout = detect(frames, first=first)
    return Reader(frames, layout, limits)


def check_types(frames: Sequence[bytes], first: Layout) -> None:
    """Raise `LocalError` for arguments of the wrong type: that is the caller's mistake, not the peer's."""
    if not isinstance(frames, list | tuple):
        raise LocalError("frames", "a list or tuple of bytes", frames)
    for frame in frames:
        if not isinstance(frame, bytes):
            raise LocalError("frames", "frames of bytes", frame)
    if not isinstance(first, Layout):
        raise LocalError("first", "layouts.FIRST or layouts.FIRST_TICKS", first)
