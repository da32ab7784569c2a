"""The names of the wire formats. `hopline.wire` defines what they look like."""

from __future__ import annotations

from enum import StrEnum


class WireFormat(StrEnum):
    """A generation of the protocol."""

    FIRST = "first"
    V4 = "v4"
    V5_INT32 = "v5_int32"  # V5 with the number of the format in four bytes, as nodes of 2018 write and need it
    V5 = "v5"
    V6 = "v6"
