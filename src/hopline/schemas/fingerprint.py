"""The fingerprint of a payload class: a number by which nodes find out that they expect different bodies.

It is the first 32 bits of the SHA-256 hash of the content type, a zero byte, and the shape of the payload as JSON
without spaces and with sorted names (see `hopline.schemas.shape`). It is written as 8 hex digits. Two different shapes
have the same fingerprint once in four billion times, which is rare enough to find mistakes; nothing else relies on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hopline.message import JSON, MSGPACK, PROTOBUF, RAW, PayloadType, payload_type
from hopline.schemas.shape import Shape, shape_of, sort_key

FINGERPRINT_BITS = 32
_BYTES = FINGERPRINT_BITS // 8
_CACHED_CLASSES = 4_096

OPAQUE = "application/octet-stream"
_CONTENT_TYPES = (
    (MSGPACK, "application/msgpack"),
    (JSON, "application/json"),
    (PROTOBUF, "application/protobuf"),
    (RAW, OPAQUE),
)


def content_type(kind: PayloadType) -> str:
    """Return the media type of a payload's bodies. A serializer of your own may have an attribute `content_type`."""
    for serializer, name in _CONTENT_TYPES:
        if kind.serializer is serializer:
            return name
    return str(getattr(kind.serializer, "content_type", OPAQUE))


@lru_cache(_CACHED_CLASSES)
def payload_shape(cls: type) -> Shape | None:
    """Return the shape of a payload class; None for raw bytes, and for classes that cannot be described."""
    kind = payload_type(cls)
    return None if kind.serializer is RAW else shape_of(cls)


@lru_cache(_CACHED_CLASSES)
def fingerprint(cls: type) -> int | None:
    """Return the fingerprint of a payload class; None if it has no shape.

    >>> from hopline import Payload
    >>> class Greet(Payload):
    ...     name: str
    >>> fingerprint_text(fingerprint(Greet))
    'd7a66a23'
    """
    shape = payload_shape(cls)
    if shape is None:
        return None
    described = content_type(payload_type(cls)).encode() + b"\0" + sort_key(shape)
    digest = hashlib.sha256(described).digest()
    return int.from_bytes(digest[:_BYTES], "big")


def fingerprint_text(value: int) -> str:
    """Return a fingerprint as 8 hex digits."""
    return f"{value:0{2 * _BYTES}x}"


# -- what differs ------------------------------------------------------------------------------------------------------


def differences(first: type, second: type) -> list[str]:
    """Return in what the bodies of two payload classes differ, in words; nothing if they do not, or nobody knows."""
    one, other = payload_shape(first), payload_shape(second)
    if one is None or other is None:
        return []
    types = content_type(payload_type(first)), content_type(payload_type(second))
    found = [] if types[0] == types[1] else [f"the body is {types[0]} in the first, {types[1]} in the second"]
    return [*found, *_differences(one, other, "")]


def _differences(one: Any, other: Any, path: str) -> Iterator[str]:
    if sort_key(one) == sort_key(other):
        return
    if not (_is_object(one) and _is_object(other)):
        name = path or "the payload"
        yield f"{name} is {_in_words(one)} in the first, {_in_words(other)} in the second"
        return
    fields, others = one["object"], other["object"]
    for name in dict.fromkeys([*fields, *others]):
        place = f"{path}.{name}" if path else name
        if name not in others:
            yield f"{place} is in the first only"
        elif name not in fields:
            yield f"{place} is in the second only"
        else:
            yield from _differences(fields[name]["type"], others[name]["type"], place)
            defaults = _default_in_words(fields[name]), _default_in_words(others[name])
            if defaults[0] != defaults[1]:
                yield f"{place} {defaults[0]} in the first, {defaults[1]} in the second"


def _is_object(shape: Any) -> bool:
    return isinstance(shape, dict) and "object" in shape


def _default_in_words(field: dict[str, Any]) -> str:
    if "default" in field:
        return f"has the default {_json(field['default'])}"
    return "is required" if field.get("required", True) else "may be missing"


def _in_words(shape: Any) -> str:
    if isinstance(shape, str):
        return shape
    match shape:
        case {"array": item}:
            return f"array of {_in_words(item)}"
        case {"map": [_, value]}:
            return f"map of {_in_words(value)}"
        case {"union": members}:
            return " or ".join(map(_in_words, members))
        case {"enum": values}:
            return f"one of {', '.join(_json(value) for value in values)}"
        case {"object": fields}:
            return f"object with {', '.join(fields) or 'no fields'}"
        case {"tuple": items}:
            return f"tuple of {len(items)}"
    return "an object around it"


def _json(value: object) -> str:
    return sort_key(value).decode()
