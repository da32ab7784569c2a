"""The number of the attempt that a message belongs to, where a request was asked again.

From the second attempt on, a message carries its number in Hopline's extension, which is how captures, spans and
handlers see it. The reference ignores it, and the format FIRST has no place for it.
"""

from __future__ import annotations

from hopline.errors import LocalError
from hopline.message.extension import read_extension, write_extension
from hopline.message.message import Message

ATTEMPT = "attempt"
"""The name of the number in a message's extension."""

LARGEST_ATTEMPT = (1 << 31) - 1
"""No higher number counts as one: extensions are untrusted, and tables keep the number in 32 bits."""


def numbered(message: Message, attempt: int) -> Message:
    """Return the message of an attempt. The first one carries no number."""
    if attempt == 1:
        return message
    entries = read_extension(message.extension)
    entries[ATTEMPT] = attempt
    try:
        extension = write_extension(entries)
    except LocalError:  # the number does not fit beside what is there
        return message
    return message.clone(extension=extension)


def attempt_of(message: Message) -> int:
    """Return the number of the attempt that a message belongs to, counted from 1."""
    return attempt_in(message.extension)


def attempt_in(extension: bytes) -> int:
    """Return the number of the attempt that stands in an extension; 1 if none does."""
    if not extension:
        return 1
    attempt = read_extension(extension).get(ATTEMPT)
    if not isinstance(attempt, int) or isinstance(attempt, bool):
        return 1
    return attempt if 1 <= attempt <= LARGEST_ATTEMPT else 1
