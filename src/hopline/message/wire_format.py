"""The names of the formats that a message may travel in. What they look like is the business of `hopline.wire`."""

from __future__ import annotations

from enum import StrEnum


class WireFormat(StrEnum):
    """A generation of the protocol."""

    FIRST = "first"
    V4 = "v4"
    V5 = "v5"
    V6 = "v6"
