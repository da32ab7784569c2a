"""The extension on the fast paths: inserted into frames that are already written."""

from __future__ import annotations

from hopline.message import usable_extension
from hopline.wire.fast_path import FastPathMiss
from hopline.wire.layout import WORDS, Field
from hopline.wire.layouts import V5
from hopline.wire.limits import Limits

_ABOVE_FIXED = len(V5.fixed)


def _has_offset(row: Field) -> bool:
    names = [word.name for word in row.words]
    return any(name.endswith(".offset") for name in names)


_DESCRIPTORS = [row.position for row in V5.fixed if _has_offset(row)]


def written_extension(extension: bytes) -> bytes:
    """Return an extension as it is written, or decline what the careful writer would refuse."""
    if extension.__class__ is not bytes or not usable_extension(extension):
        raise FastPathMiss
    return extension


def insert_extension(frames: list[bytes], extension: bytes, limits: Limits) -> None:
    """Put an extension into the frames of a V4 or V5 message; whatever stands above it is one frame further up."""
    frames.insert(len(frames) - _ABOVE_FIXED, written_extension(extension))
    if len(frames) > limits.usual_frames or sum(map(len, frames)) > limits.usual_size:
        raise FastPathMiss
    for position in _DESCRIPTORS:
        offset, *words = WORDS.unpack(frames[-position])
        if offset:
            frames[-position] = WORDS.pack(offset + 1, *words)
