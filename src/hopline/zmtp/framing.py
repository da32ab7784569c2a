"""Frames: a byte of flags, a size of one or eight bytes, and the content. The same in ZMTP 2.0, 3.0 and 3.1."""

from __future__ import annotations

import struct
from collections.abc import Sequence

# RFC 23, "Framing": bit 0 says that more frames of this message follow, bit 1 that the size has eight bytes, bit 2 that
# the frame is a command. The other bits are reserved and must be zero. ZMTP 2.0 (RFC 15) has no commands.
MORE = 0x01
LONG = 0x02
COMMAND = 0x04
RESERVED = 0xFF & ~(MORE | LONG | COMMAND)

LONGEST_SHORT = 0xFF  # bytes that the size of a short frame can express
SHORT_HEADER = 2
LONG_HEADER = 9

_LONG_SIZE = struct.Struct(">BQ")
read_size = struct.Struct(">Q").unpack_from

# Headers of short frames, by size.
_SHORT_SIZES = range(LONGEST_SHORT + 1)
_LAST_HEADERS = [bytes((0, size)) for size in _SHORT_SIZES]
_MORE_HEADERS = [bytes((MORE, size)) for size in _SHORT_SIZES]


def encode_into(pieces: list[bytes], frames: Sequence[bytes]) -> int:
    """Append what makes up a message on the wire to a list for `b"".join`, and return how many bytes that are.

    A message has at least one frame.
    """
    append = pieces.append
    total = 0
    for frame in frames:
        size = len(frame)
        total += size
        if size <= LONGEST_SHORT:
            append(_MORE_HEADERS[size])
        else:
            append(_LONG_SIZE.pack(MORE | LONG, size))
            total += LONG_HEADER - SHORT_HEADER
        append(frame)
    size = len(frames[-1])
    if size <= LONGEST_SHORT:
        pieces[-2] = _LAST_HEADERS[size]
    else:
        pieces[-2] = _LONG_SIZE.pack(LONG, size)
    return total + SHORT_HEADER * len(frames)


def encode_message(frames: Sequence[bytes]) -> bytes:
    """Return a message on the wire. A message has at least one frame."""
    pieces: list[bytes] = []
    encode_into(pieces, frames)
    return b"".join(pieces)


def encode_command(name: bytes, content: bytes = b"") -> bytes:
    """Return a command on the wire. RFC 23, "Commands": the length of the name, the name, then what belongs to it."""
    name_size = bytes((len(name),))
    body = name_size + name + content
    size = len(body)
    if size <= LONGEST_SHORT:
        return bytes((COMMAND, size)) + body
    header = _LONG_SIZE.pack(COMMAND | LONG, size)
    return header + body
