"""Typed payloads: a class that says which message it is, and how it is written.

>>> import msgspec
>>> @payload("ORDER.PRICE")
... class PriceOrder(msgspec.Struct):
...     sku: int
>>> message = to_message(PriceOrder(4711))
>>> from_message(message, PriceOrder)
PriceOrder(sku=4711)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from hopline.message.errors import LocalError
from hopline.message.identifier import MessageIdentifier, Version
from hopline.message.message import Message
from hopline.message.serializers import MSGPACK, Serializer

Kind = TypeVar("Kind", bound=type)
Payload = TypeVar("Payload")

_MARK = "__hopline_payload__"


class PayloadType(msgspec.Struct, frozen=True):
    """What a payload class says of itself."""

    identifier: MessageIdentifier
    serializer: Serializer


def payload(
    identity: str | bytes,
    *,
    version: Version = 1,
    partition: bytes = b"",
    serializer: Serializer = MSGPACK,
) -> Callable[[Kind], Kind]:
    """Make a class a payload: any class that the serializer can write, of any library."""
    name = identity.encode() if isinstance(identity, str) else identity
    kind = PayloadType(MessageIdentifier(name, version, partition), serializer)

    def mark(cls: Kind) -> Kind:
        setattr(cls, _MARK, kind)
        return cls

    return mark


def payload_type(cls: type) -> PayloadType:
    """Give what a class says of itself; one that says nothing is the caller's mistake."""
    found = getattr(cls, _MARK, None)
    if not isinstance(found, PayloadType):
        raise LocalError("payload", "a class with the decorator @payload", cls)
    return found


def to_message(content: Any, *, ttl: timedelta = timedelta(0)) -> Message:
    """Make the message of a payload. It is written now: what happens to the object later does not matter."""
    kind = payload_type(type(content))
    named = kind.identifier
    body = kind.serializer.encode(content)
    return Message.create(named.identity, body, version=named.version, partition=named.partition, ttl=ttl)


def from_message(message: Message, cls: type[Payload]) -> Payload:
    """Read the payload of a message, or raise `PayloadError` when the body is not of that kind."""
    return payload_type(cls).serializer.decode(message.body, cls)
