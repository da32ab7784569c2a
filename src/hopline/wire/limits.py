"""How much of anything a message may have, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, field

from hopline.checks import COUNT, require_numbers


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one message. Beyond them reading raises `RemoteError` and writing `LocalError`."""

    frames: int = 8_192
    """Frames of a message, envelope included."""
    entries: int = 1_024
    """Entries of the routing list, and as many of the callback list."""
    frame_size: int = 64 * 1024 * 1024
    """Bytes of one frame."""
    message_size: int = 128 * 1024 * 1024
    """Bytes of all frames together."""
    usual_frames: int = field(init=False, repr=False)
    """With no more frames than this, a message can break neither of the first two limits."""
    usual_size: int = field(init=False, repr=False)
    """With no more bytes than this, a message can break neither of the other two."""

    def __post_init__(self) -> None:
        require_numbers(self, dict.fromkeys(("frames", "entries", "frame_size", "message_size"), COUNT))
        object.__setattr__(self, "usual_frames", min(self.frames, self.entries))
        object.__setattr__(self, "usual_size", min(self.frame_size, self.message_size))


DEFAULT_LIMITS = Limits()
