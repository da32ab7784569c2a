"""Ways to damage a message: small lies in the right places find more than noise does."""

from __future__ import annotations

import random
from collections.abc import Callable

Frames = list[bytes]

# Numbers at the edges of widths, counts and offsets.
INTERESTING = (0, 1, 2, 3, 4, 13, 16, 17, 18, 19, 0x7F, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1)


def _pick(frames: Frames, rng: random.Random) -> int:
    """Prefer the fixed frames at the end, where the meaning is."""
    return rng.randrange(len(frames)) if rng.random() < 0.4 else len(frames) - 1 - rng.randrange(min(17, len(frames)))


def flip_a_bit(frames: Frames, rng: random.Random) -> None:
    at = _pick(frames, rng)
    if frames[at]:
        content = bytearray(frames[at])
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        frames[at] = bytes(content)


def cut_a_frame(frames: Frames, rng: random.Random) -> None:
    at = _pick(frames, rng)
    frames[at] = frames[at][: rng.randrange(len(frames[at]) + 1)]


def lengthen_a_frame(frames: Frames, rng: random.Random) -> None:
    at = _pick(frames, rng)
    frames[at] += rng.randbytes(rng.choice((1, 2, 7, 100)))


def replace_a_frame(frames: Frames, rng: random.Random) -> None:
    frames[_pick(frames, rng)] = rng.randbytes(rng.choice((0, 1, 2, 3, 4, 7, 8, 9, 36)))


def drop_a_frame(frames: Frames, rng: random.Random) -> None:
    del frames[_pick(frames, rng)]


def repeat_a_frame(frames: Frames, rng: random.Random) -> None:
    frames.insert(rng.randrange(len(frames) + 1), frames[_pick(frames, rng)])


def swap_two_frames(frames: Frames, rng: random.Random) -> None:
    one, other = _pick(frames, rng), _pick(frames, rng)
    frames[one], frames[other] = frames[other], frames[one]


def cut_the_message(frames: Frames, rng: random.Random) -> None:
    at = rng.randrange(len(frames) + 1)
    frames[:] = frames[at:] if rng.random() < 0.5 else frames[:at]


def lie_in_a_number(frames: Frames, rng: random.Random) -> None:
    """Overwrite two, four or eight bytes with a number that sits on some edge."""
    at = _pick(frames, rng)
    width = rng.choice((2, 4, 8))
    if len(frames[at]) >= width:
        offset = rng.randrange(len(frames[at]) - width + 1)
        if rng.random() < 0.7:
            offset -= offset % 2
        number = rng.choice((*INTERESTING, len(frames), len(frames) + 1, rng.randrange(64))) % 2 ** (8 * width)
        content = bytearray(frames[at])
        content[offset : offset + width] = number.to_bytes(width, "little")
        frames[at] = bytes(content)


MUTATIONS: tuple[Callable[[Frames, random.Random], None], ...] = (
    flip_a_bit,
    cut_a_frame,
    lengthen_a_frame,
    replace_a_frame,
    drop_a_frame,
    repeat_a_frame,
    swap_two_frames,
    cut_the_message,
    lie_in_a_number,
    lie_in_a_number,
    lie_in_a_number,
)


def mutate(frames: Frames, rng: random.Random) -> Frames:
    """Give a damaged copy."""
    damaged = list(frames)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not damaged:
            break
        rng.choice(MUTATIONS)(damaged, rng)
    return damaged
