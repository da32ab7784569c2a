"""What is wrong with bytes that a peer sent."""

from __future__ import annotations

from enum import StrEnum

from hopline.message import HoplineError, LocalError, printable

__all__ = ["LocalError", "Reason", "RemoteError"]

_SHOWN_BYTES = 24
_SHOWN_CHARACTERS = 256


class Reason(StrEnum):
    """Why a message could not be read. The codes are part of the interface: tables and metrics use them."""

    UNKNOWN_FORMAT = "unknown_format"
    UNKNOWN_VERSION = "unknown_version"
    TOO_FEW_FRAMES = "too_few_frames"
    TOO_SHORT = "too_short"
    OFFSET_OUT_OF_RANGE = "offset_out_of_range"
    LENGTH_OUT_OF_RANGE = "length_out_of_range"
    BAD_VALUE = "bad_value"
    BAD_URI = "bad_uri"
    TOO_MANY_FRAMES = "too_many_frames"
    TOO_MANY_ENTRIES = "too_many_entries"
    FRAME_TOO_LARGE = "frame_too_large"
    MESSAGE_TOO_LARGE = "message_too_large"


class RemoteError(HoplineError):
    """The peer sent garbage.

    `position` is the k of frame n-k, counted from the end as the documents do, or None when no frame is to blame.
    `offset` is the byte inside the meta frame of V6.
    """

    def __init__(
        self,
        reason: Reason,
        field: str,
        expected: str,
        found: bytes | int | str,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason, field, expected, found, position, offset)
        self.reason = reason
        self.field = field
        self.expected = expected
        self.found = found
        self.position = position
        self.offset = offset

    @property
    def place(self) -> str:
        """Where the fault is, such as ``n-3`` or ``n-1, byte 12``."""
        if self.position is None:
            return "the message"
        return f"n-{self.position}" if self.offset is None else f"n-{self.position}, byte {self.offset}"

    @property
    def shown_found(self) -> str:
        """What was found, short enough to print."""
        if not isinstance(self.found, bytes):
            return printable(str(self.found), _SHOWN_CHARACTERS)
        if not self.found:
            return "an empty frame"
        more = "..." if len(self.found) > _SHOWN_BYTES else ""
        return f"{len(self.found)} byte{'s'[: len(self.found) > 1]} {self.found[:_SHOWN_BYTES].hex()}{more}"

    def __str__(self) -> str:
        where = self.field if self.position is None else f"{self.field} at {self.place}"
        return f"{self.reason}: {where}: expected {self.expected}, found {self.shown_found}"
