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

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar, overload

import msgspec

from hopline.message.errors import LocalError
from hopline.message.flow_ids import new_flow_id
from hopline.message.identifier import MessageIdentifier, Version
from hopline.message.message import Distribution, Message
from hopline.message.serializers import MSGPACK, Serializer, reader_of, writer_of
from hopline.message.values import value_check

Kind = TypeVar("Kind", bound=type)
Content = TypeVar("Content")

PAYLOAD_MARK = "__hopline_payload__"  # where a class keeps its `PayloadType`


class PayloadType(msgspec.Struct, frozen=True):
    """What a payload class says of itself."""

    identifier: MessageIdentifier
    serializer: Serializer
    of: type  # the class that says it, for what is derived from it does not
    read: Callable[[bytes], Any]  # makes an instance of a body
    write: Callable[[Any], bytes]  # makes a body of an instance; if it fails, the serializer says why
    is_value: Callable[[Any], bool] | None  # tells which instances can be handed over as they are; None: none can
    is_plain: bool  # neither something to wait for nor something that gives others


@overload
def payload(identity: Kind) -> Kind: ...
@overload
def payload(
    identity: str | bytes,
    *,
    version: Version = 1,
    partition: bytes = b"",
    serializer: Serializer = MSGPACK,
) -> Callable[[Kind], Kind]: ...
def payload(
    identity: Any,
    *,
    version: Version = 1,
    partition: bytes = b"",
    serializer: Serializer = MSGPACK,
) -> Any:
    """Make a class a payload: any class that the serializer can write, of any library.

    Bare, ``@payload`` takes the name of the class for its identity.
    """
    if isinstance(identity, type):
        return payload(identity.__name__)(identity)
    name = identity.encode() if isinstance(identity, str) else identity
    for field, value, kinds, expected in (
        ("identity", name, bytes, "text or bytes"),
        ("version", version, (int, bytes), "a number"),
        ("partition", partition, bytes, "bytes"),
    ):
        if not isinstance(value, kinds):
            raise LocalError(f"payload {field}", expected, value)
    if not (hasattr(serializer, "encode") and hasattr(serializer, "decode")) or isinstance(serializer, str):
        raise LocalError("payload serializer", "an object with encode and decode", serializer)
    identifier = MessageIdentifier(name, version, partition)

    def mark(cls: Kind) -> Kind:
        is_plain = not issubclass(cls, (Awaitable, Iterator, AsyncIterator))
        read: Callable[[bytes], Any] = reader_of(serializer, cls)
        write = writer_of(serializer)
        is_value = value_check(cls) if serializer is MSGPACK else None
        setattr(cls, PAYLOAD_MARK, PayloadType(identifier, serializer, cls, read, write, is_value, is_plain))
        return cls

    return mark


class Payload(msgspec.Struct):
    """A payload that needs no decorator: its identity is the name of its class, its version 1.

    Two classes of one name are one message: give one of them another name with the decorator.
    """


def payload_type(cls: type) -> PayloadType:
    """Give what a class says of itself; one that says nothing is the caller's mistake.

    A class speaks for itself only: what is derived from a payload is another kind, and needs a name of its own.
    """
    found: PayloadType | None = getattr(cls, PAYLOAD_MARK, None)
    if found is not None and found.of is cls:
        return found
    if issubclass(cls, type):
        raise LocalError("payload", "an instance of a payload class, not the class itself", cls)
    if cls is Payload or not issubclass(cls, Payload):
        raise LocalError("payload", "a class derived from Payload, or with the decorator @payload", cls)
    return payload_type(payload(cls.__name__)(cls))


def as_value(content: object) -> object | None:
    """Give a payload that can be handed over as it is, and None for any other."""
    kind: PayloadType | None = getattr(content.__class__, PAYLOAD_MARK, None)
    if kind is None or kind.of is not content.__class__ or kind.is_value is None:
        return None
    return content if kind.is_value(content) else None


def to_message(
    content: Any,
    *,
    partition: bytes | None = None,
    distribution: Distribution = Distribution.UNICAST,
    correlation_id: bytes | None = None,
    ttl: timedelta = timedelta(0),
) -> Message:
    """Make the message of a payload, which starts a flow unless a correlation id is given.

    The payload is written now: what happens to the object later does not matter.
    """
    kind = payload_type(type(content))
    named = kind.identifier
    return Message.create(
        named.identity,
        kind.serializer.encode(content),
        version=named.version,
        partition=named.partition if partition is None else partition,
        distribution=distribution,
        correlation_id=new_flow_id() if correlation_id is None else correlation_id,
        ttl=ttl,
    )


def from_message(message: Message, cls: type[Content]) -> Content:
    """Read the payload of a message, or raise `PayloadError` when the body is not of that kind."""
    read: Content = payload_type(cls).read(message.body)
    return read
