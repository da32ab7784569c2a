"""The frames in which a message is relayed.

A message keeps its frames as they arrived, in whatever format: a relay that decodes and encodes would drop what it does
not know. Only the frames that sockets put in front are replaced by an empty envelope. All offsets in a message count
from its end, so they stay valid.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopline.cluster.messages.formats import SERVICE_FORMATS
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import annotate, encode

ENVELOPE = 2  # frames in front of every message
_V6_FRAMES = ENVELOPE + 2  # the body and the meta frame


def relayed_frames(message: Message, received: Sequence[bytes]) -> list[bytes]:
    """Return the frames of a received message with an empty envelope."""
    own_frames = _frames_as_written_here(message, received)
    if own_frames is None:
        own_frames = _frames_that_are_read(received)
    return [b"", b"", *own_frames]


def _frames_as_written_here(message: Message, received: Sequence[bytes]) -> Sequence[bytes] | None:
    """Return the message's frames at the end of those received; None if our own writer would write others."""
    try:
        frames = encode(message, message.wire_format or WireFormat.V6)
    except LocalError:
        return None
    written = frames[ENVELOPE:]
    count = len(written)
    tail = list(received[-count:])
    return written if written == tail else None


def _frames_that_are_read(received: Sequence[bytes]) -> Sequence[bytes]:
    """Return the frames behind those that the careful reader takes for the envelope."""
    readings = annotate(received).readings
    names = [reading.name for reading in readings]
    envelope = names.count("envelope")
    return received[envelope:]


def is_ambiguous(message: Message, frames: Sequence[bytes]) -> bool:
    """Return whether a node that knows only one format could read another message in these frames.

    Nodes of the reference do not detect formats. The last frame of the first format is chosen by its sender and could
    be a header of V6, and above the header of V6 there is room for all the frames of V5.
    """
    if message.wire_format not in SERVICE_FORMATS:
        return True
    return message.wire_format is WireFormat.V6 and len(frames) != _V6_FRAMES
