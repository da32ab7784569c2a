"""Durations as people read them."""

from __future__ import annotations

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units: ``2 d 3 h``, ``5 min``, ``12 s``, ``0.3 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for (size, unit), (next_size, next_unit) in zip(_STEPS, (*_STEPS[1:], (1, "s")), strict=True):
        if whole >= size:
            count, rest = divmod(whole, size)
            more = rest // next_size
            return f"{count} {unit} {more} {next_unit}" if more and next_size > 1 else f"{count} {unit}"
    return f"{whole} s"


def milliseconds(seconds: float) -> str:
    """Return a short duration in milliseconds."""
    return f"{seconds * 1000:.1f} ms"
