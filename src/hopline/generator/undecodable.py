"""Scenarios of frames that cannot be decoded: valid messages that are damaged, with the decoder's reason code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

from hopline.capture.records import Event
from hopline.generator import placeholders
from hopline.generator.flow_template import (
    MISSING,
    Delay,
    FaultMark,
    FlowTemplate,
    MessageSnapshot,
    Step,
    TransitStatus,
)
from hopline.message import EXCEPTION, Message, MessageIdentifier, RoutingEntry, TraceOptions, WireFormat
from hopline.wire import RemoteError, decode, encode

Frames: TypeAlias = list[bytes]
Damage: TypeAlias = tuple[WireFormat, Callable[[Frames], Frames]]
"""The format of the intact message, and what is done to its frames."""

# Positions of frames in V4 and V5; the distribution's is that of the first format.
_CALLBACKS, _BODY, _TTL, _DISTRIBUTION = -12, -2, -3, -8
_LAST = -1
_OFFSET_BEYOND_FRAMES = 9_000
_TOO_MANY = 2_000


def _replace(index: int, frame: bytes) -> Callable[[Frames], Frames]:
    def damage(frames: Frames) -> Frames:
        damaged = list(frames)
        damaged[index] = frame
        return damaged

    return damage


def _four_words(*words: int) -> bytes:
    return struct.pack("<4H", *words)


def _half_a_meta_frame(frames: Frames) -> Frames:
    meta = frames[_LAST]
    return [*frames[:_LAST], meta[: len(meta) // 2]]


def _negative_length(frames: Frames) -> Frames:
    meta = frames[_LAST]
    damaged = meta[:2] + b"\xff" * 4 + meta[6:]
    return [*frames[:_LAST], damaged]


MALFORMED: Mapping[str, Damage] = {
    "version_9": (WireFormat.V5, _replace(_LAST, b"\x09\x00")),
    "short_lifetime": (WireFormat.V5, _replace(_TTL, b"\x01\x02\x03")),
    "far_callbacks": (WireFormat.V5, _replace(_CALLBACKS, _four_words(_OFFSET_BEYOND_FRAMES, 2, 3, 0))),
    "far_body": (WireFormat.V4, _replace(_BODY, _four_words(_OFFSET_BEYOND_FRAMES, 1, 0, 0))),
    "many_callbacks": (WireFormat.V5, _replace(_CALLBACKS, _four_words(18, _TOO_MANY, 3, 0))),
    "strange_distribution": (WireFormat.FIRST, _replace(_DISTRIBUTION, b"\x07\0\0\0")),
    "no_uri": (WireFormat.FIRST, _replace(1, b"nowhere")),
    "half_a_meta_frame": (WireFormat.V6, _half_a_meta_frame),
    "negative_length": (WireFormat.V6, _negative_length),
    "noise": (WireFormat.V6, lambda frames: [frames[1], b"\x01\x02\x03\x04\x05\x06\x07"]),
}

TRUNCATED: Mapping[str, Damage] = {
    "without_the_last_frame": (WireFormat.V5, lambda frames: frames[:-1]),
    "without_the_first_half": (WireFormat.V5, lambda frames: frames[len(frames) // 2 :]),
    "without_the_body": (WireFormat.V4, lambda frames: frames[2:]),
    "without_the_meta_frame": (WireFormat.V6, lambda frames: frames[:-1]),
    "the_last_frame_only": (WireFormat.V5, lambda frames: frames[-1:]),
    "without_headers": (WireFormat.FIRST, lambda frames: frames[-6:]),
    "nothing": (WireFormat.V5, lambda _: []),
}

DAMAGES: Mapping[str, Mapping[str, Damage]] = {"malformed": MALFORMED, "truncated": TRUNCATED}
"""Kinds of damage by the fault that they are."""


def damaged(flow: FlowTemplate, fault: str, kind: str) -> None:
    """Receive frames that cannot be decoded from an attacker, and reject them."""
    wire_format, damage = DAMAGES[fault][kind]
    message = _intact_message(flow)
    frames = damage(encode(message, wire_format)[1:])
    code = reject_code_of(frames)
    snapshot = MessageSnapshot(frames, message_index=0, message=message)
    received = Step(
        Event.RECEIVED,
        role=1,
        snapshot=0,
        after=MISSING,
        delay=Delay.START,
        follows=MISSING,
        peer=0,
        transit=TransitStatus.UNSENT,
        mark=FaultMark(fault, kind),
        reject_code=code,
    )
    rejected = Step(
        Event.REJECTED,
        role=1,
        snapshot=0,
        after=0,
        delay=Delay.IMMEDIATE,
        follows=0,
        reason=code,
        reject_code=code,
    )
    flow.snapshots.append(snapshot)
    flow.message_count = 1
    flow.steps += [received, rejected]


def reject_code_of(frames: Frames) -> str:
    """Return the decoder's reason code for frames that it refuses."""
    try:
        decode(frames)
    except RemoteError as error:
        return str(error.reason)
    raise AssertionError(f"the decoder accepts frames that should be damaged: {frames}")


def _intact_message(flow: FlowTemplate) -> Message:
    return Message(
        b"QUOTE",
        bodies=(flow.body("article", 64),),
        correlation_id=placeholders.CORRELATION,
        hops=1,
        trace_options=TraceOptions.ROUTING,
        callback_point=(MessageIdentifier(b"QUOTED"), EXCEPTION),
        callback_key=placeholders.CALLBACK_KEY,
        callback_receiver_identity=placeholders.HUBS[0],
        callback_receiver_node_identity=placeholders.NODES[0],
        routing=(RoutingEntry(placeholders.URIS[0], placeholders.NODES[0]),),
    )
