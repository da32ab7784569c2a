"""How much of anything a peer may send before its connection is closed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one connection accepts. What breaks one of them is a violation of the protocol."""

    frame_size: int = 64 * 1024 * 1024
    """Bytes of one long frame. Short ones have at most 255, and are not held to this."""
    message_size: int = 128 * 1024 * 1024
    """Bytes of all frames of a message together that are not small. Small ones are bounded by their number."""
    frames: int = 65_536
    """Frames of one message."""
    command_size: int = 8 * 1024
    """Bytes of one command, and of the identity in the greeting of ZMTP 2.0."""

    @property
    def small_frame(self) -> int:
        """Bytes of a frame that can break no limit, so that nobody has to look."""
        return min(self.frame_size, self.message_size // self.frames)


DEFAULT_LIMITS = Limits()
