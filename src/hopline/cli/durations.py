"""Durations as people read them."""

from __future__ import annotations

_IN_TWO_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"))  # seconds and name of a unit and of the next one


def duration_text(seconds: float) -> str:
    """Return a duration in its largest units: ``2 d 3 h``, ``5 min``, ``12 s``, ``0.3 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, next_size, next_unit in _IN_TWO_UNITS:
        if whole >= size:
            count, rest = divmod(whole, size)
            more = rest // next_size
            return f"{count} {unit} {more} {next_unit}" if more else f"{count} {unit}"
    return f"{whole // 60} min" if whole >= 60 else f"{whole} s"


def milliseconds(seconds: float) -> str:
    """Return a short duration in milliseconds."""
    return f"{seconds * 1000:.1f} ms"
