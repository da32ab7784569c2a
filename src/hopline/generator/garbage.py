"""Frames that are no message, each with the reason code that the decoder has for it."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hopline.capture.records import Event
from hopline.generator import placeholders
from hopline.generator.script import Arrival, Delay, Image, Play, Step
from hopline.message import EXCEPTION, Message, MessageIdentifier, RoutingEntry, TraceOptions, WireFormat
from hopline.wire import RemoteError, decode, encode

Frames = list[bytes]

_CALLBACKS, _BODY, _TTL, _DISTRIBUTION = -12, -2, -3, -8  # frames of V5, but for the last, which is the first format's
_FAR = 9_000
_MANY = 2_000


def _with(frames: Frames, at: int, frame: bytes) -> Frames:
    spoiled = list(frames)
    spoiled[at] = frame
    return spoiled


def _words(*words: int) -> bytes:
    return struct.pack("<4H", *words)


# What is done to a message, by the format that it has before.
MALFORMED: dict[str, tuple[WireFormat, Callable[[Frames], Frames]]] = {
    "version_9": (WireFormat.V5, lambda frames: _with(frames, -1, b"\x09\x00")),
    "short_lifetime": (WireFormat.V5, lambda frames: _with(frames, _TTL, b"\x01\x02\x03")),
    "far_callbacks": (WireFormat.V5, lambda frames: _with(frames, _CALLBACKS, _words(_FAR, 2, 3, 0))),
    "far_body": (WireFormat.V4, lambda frames: _with(frames, _BODY, _words(_FAR, 1, 0, 0))),
    "many_callbacks": (WireFormat.V5, lambda frames: _with(frames, _CALLBACKS, _words(18, _MANY, 3, 0))),
    "strange_distribution": (WireFormat.FIRST, lambda frames: _with(frames, _DISTRIBUTION, b"\x07\0\0\0")),
    "no_uri": (WireFormat.FIRST, lambda frames: _with(frames, 1, b"nowhere")),
    "half_a_meta_frame": (WireFormat.V6, lambda frames: _with(frames, -1, frames[-1][: len(frames[-1]) // 2])),
    "negative_length": (WireFormat.V6, lambda frames: _with(frames, -1, frames[-1][:2] + b"\xff" * 4 + frames[-1][6:])),
    "noise": (WireFormat.V6, lambda frames: [frames[1], b"\x01\x02\x03\x04\x05\x06\x07"]),
}

TRUNCATED: dict[str, tuple[WireFormat, Callable[[Frames], Frames]]] = {
    "without_the_last_frame": (WireFormat.V5, lambda frames: frames[:-1]),
    "without_the_first_half": (WireFormat.V5, lambda frames: frames[len(frames) // 2 :]),
    "without_the_body": (WireFormat.V4, lambda frames: frames[2:]),
    "without_the_meta_frame": (WireFormat.V6, lambda frames: frames[:-1]),
    "the_last_frame_only": (WireFormat.V5, lambda frames: frames[-1:]),
    "without_headers": (WireFormat.FIRST, lambda frames: frames[-6:]),
    "nothing": (WireFormat.V5, lambda _: []),
}


def spoil(play: Play, fault: str, kind: str) -> None:
    """Let something arrive from a stranger that is no message, and be rejected."""
    wire_format, change = (MALFORMED if fault == "malformed" else TRUNCATED)[kind]
    message = _victim(play)
    frames = change(encode(message, wire_format)[1:])
    code = code_of(frames)
    play.images.append(Image(frames, 0, message))
    play.letters = 1
    received = Step(Event.RECEIVED, 1, 0, -1, Delay.START, -1, peer=0, arrival=Arrival.UNSENT, code=code)
    received.mark = (fault, kind)
    play.steps += [received, Step(Event.REJECTED, 1, 0, 0, Delay.TAIL, 0, reason=code, code=code)]


def code_of(frames: Frames) -> str:
    """Give the reason code for frames that are no message."""
    try:
        decode(frames)
    except RemoteError as error:
        return str(error.reason)
    raise AssertionError(f"the decoder takes what should be garbage: {frames}")


def _victim(play: Play) -> Message:
    return Message(
        b"QUOTE",
        bodies=(play.body("article", 64),),
        correlation_id=placeholders.CORRELATION,
        hops=1,
        trace_options=TraceOptions.ROUTING,
        callback_point=(MessageIdentifier(b"QUOTED"), EXCEPTION),
        callback_key=placeholders.KEY,
        callback_receiver_identity=placeholders.HUBS[0],
        callback_receiver_node_identity=placeholders.NODES[0],
        routing=(RoutingEntry(placeholders.URIS[0], placeholders.NODES[0]),),
    )
