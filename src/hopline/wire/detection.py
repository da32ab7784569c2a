"""Which layout is this? Told by structure alone, so that a receiver needs to know nothing of the sender.

Three facts decide. The first format ends with an empty frame and the body. V4 and V5 end with an 8-byte body descriptor
and a version frame of two or four bytes. V6 ends with a meta frame that starts with 06 00 and is far longer than that.

Bodies are whatever the application, and so perhaps a stranger, puts there; no body may change the format that its
message is read in. V4 and V5 have no body among the frames that decide. V6 has one, n-2: if it is empty, the frames
above it may be bodies that imitate all headers of the first format. The first format has one, n-1, which may imitate a
meta frame. So a last frame that can be read as a meta frame from end to end makes the message V6, whatever stands above
it, and the writer of the first format refuses a body that is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopline.wire.errors import Reason, RemoteError
from hopline.wire.layout import WORDS, Layout
from hopline.wire.layouts import FIRST, V4, V4A, V4B, V4C, V4D, V4E, V5, V5_INT32, V6
from hopline.wire.reader import is_meta_frame

FIRST_FRAMES = len(FIRST.fixed)
V6_META_SIZE = 82  # without any content
VERSION_FRAME_WIDTHS = (2, 4)


def detect(frames: Sequence[bytes], *, first: Layout = FIRST) -> Layout:
    """Return the layout of a message, or raise `RemoteError`. `first` is the dialect to assume for the first format."""
    if len(frames) < 2:
        raise RemoteError(
            Reason.TOO_FEW_FRAMES, field="frames", expected="a body and its headers", found=f"{len(frames)} frames"
        )
    last = frames[-1]
    is_meta = last[:2] == V6.number
    if not frames[-2] and len(frames) >= FIRST_FRAMES and not (is_meta and is_meta_frame(last)):
        return first
    if len(last) in VERSION_FRAME_WIDTHS:
        return _multipart(frames)
    if is_meta:
        return V6
    raise RemoteError(
        Reason.UNKNOWN_FORMAT,
        field="version.wire_format",
        expected="a version frame of 2 or 4 bytes, a meta frame that starts with 0600, or a body below an empty frame",
        found=last,
        position=1,
    )


def _multipart(frames: Sequence[bytes]) -> Layout:
    number = int.from_bytes(frames[-1][:2], "little")
    if number == 5:
        return V5 if len(frames[-1]) == 2 else V5_INT32
    if number == 4:
        return _dialect_of_4(frames)
    raise RemoteError(Reason.UNKNOWN_VERSION, field="version.wire_format", expected="4 or 5", found=number, position=1)


def _dialect_of_4(frames: Sequence[bytes]) -> Layout:
    """Return which of the six layouts with version 4 it is, by the number of fixed frames its descriptors leave.

    A text version (any width but two) proves that nothing above the domain has a meaning yet. What stays ambiguous is
    an early layout with unknown frames on top of its fixed ones: these are taken for the fields that came later.
    """
    if len(frames) < len(V4A.fixed) or min(len(frames[-2]), len(frames[-12]), len(frames[-13])) < 8:
        return V4  # some frame is at fault, and reading will say which
    fixed_frames = _fixed_frames(frames)
    version_width = len(frames[-7])
    if fixed_frames <= len(V4A.fixed):
        return V4A
    if fixed_frames == len(V4B.fixed):
        return V4B
    if fixed_frames == len(V4C.fixed):
        return V4D if version_width == 2 else V4C
    if version_width > 2:
        return V4C
    return V4E if fixed_frames == len(V4E.fixed) else V4


def _fixed_frames(frames: Sequence[bytes]) -> int:
    """Count the fixed frames by the offset of whatever stands right above them."""
    for descriptor in (frames[-12], frames[-13]):
        offset, count, _, _ = WORDS.unpack_from(descriptor)
        if count:
            return int(offset) - 1
    offset, count, _, _ = WORDS.unpack_from(frames[-2])
    return int(offset) - 1 if count <= 1 else len(V4.fixed)  # no early writer had several bodies
