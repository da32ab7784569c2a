"""What the fast paths share: how they decline, and what they take for granted."""

from __future__ import annotations

import struct

# A URI that starts so is one; others are looked at carefully.
USUAL_SCHEMES = ("tcp://", "ipc://", "inproc://")
USUAL_URI_STARTS = tuple(scheme.encode() for scheme in USUAL_SCHEMES)

# The routers and callback points of a network are few, and stand in every message: a list of them once read or written
# is remembered by its content. Larger ones are not, so that no peer decides how much is kept.
REMEMBERED_LISTS = 1_024
LARGEST_USUAL_LIST = 2_048  # bytes
LARGEST_USUAL_URI = 256
MOST_USUAL_ENTRIES = 32  # as many as a message may have hops


class FastPathMiss(Exception):  # noqa: N818  no error: it says nothing about whether the message is valid
    """The fast path does not handle this message; the careful one must look at it."""


class Uris(dict[bytes, str]):
    """The URIs of routers, by their bytes; at so many as lists are remembered, all are forgotten."""

    def __missing__(self, raw: bytes) -> str:
        if len(raw) > LARGEST_USUAL_URI or not raw.startswith(USUAL_URI_STARTS):
            raise FastPathMiss
        if len(self) >= REMEMBERED_LISTS:
            self.clear()
        uri = self[raw] = raw.decode("utf-8", "replace")
        return uri


# Whatever a fast path stumbles over means the same as its saying so.
STUMBLES = (FastPathMiss, struct.error, LookupError, TypeError, ValueError, AttributeError)
