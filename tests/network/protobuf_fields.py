"""Protobuf taken apart by hand, to look at bodies without the code that wrote them."""

from __future__ import annotations

from collections.abc import Iterator


def protobuf_fields(body: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield each field's number with its value: a number, or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(body):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        assert key & 7 == 2
        size = varint()
        value = body[at : at + size]
        assert len(value) == size
        yield key >> 3, value
        at += size
