"""Typed payloads: classes with the identity of their message and a serializer.

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
from typing import Any, TypeVar, dataclass_transform, overload

import msgspec

from hopline.errors import ArgumentTypeError
from hopline.message.answers import AnsweredBy, AnswerType
from hopline.message.flow_ids import new_flow_id
from hopline.message.identifier import MessageIdentifier, Version, as_bytes
from hopline.message.message import Distribution, Message
from hopline.message.serializers import MSGPACK, Serializer, default_serializer, reader_of, writer_of
from hopline.message.values import value_check

Kind = TypeVar("Kind", bound=type)
Content = TypeVar("Content")

PAYLOAD_MARK = "__hopline_payload__"  # where a class keeps its `PayloadType`


class PayloadType(msgspec.Struct, frozen=True):
    """The identity, serializer and codecs of a payload class."""

    identifier: MessageIdentifier
    serializer: Serializer
    of: type  # the class itself: classes derived from it do not inherit this
    read: Callable[[bytes], Any]  # from a body to an instance
    write: Callable[[Any], bytes]  # from an instance to a body; if it fails, the serializer reports why
    is_value: Callable[[Any], bool] | None  # whether an instance can be handed over without a copy; None: none can
    is_plain: bool  # neither an awaitable nor an iterator


@overload
def payload(identity: Kind) -> Kind: ...
@overload
def payload(
    identity: str | bytes,
    *,
    version: Version = 1,
    partition: str | bytes = b"",
    serializer: Serializer | None = None,
) -> Callable[[Kind], Kind]: ...
def payload(
    identity: Any,
    *,
    version: Version = 1,
    partition: str | bytes = b"",
    serializer: Serializer | None = None,
) -> Any:
    """Make a class a payload class. It may be any class that the serializer can encode.

    `MSGPACK` and `JSON` encode msgspec structs, dataclasses, attrs classes and pydantic models.

    Without arguments, as ``@payload``, the identity is the name of the class.

    Args:
        identity: The identity of the message.
        version: The version of the message.
        partition: The partition that messages go to unless another one is given.
        serializer: Encodes and decodes the payload: `MSGPACK`, `JSON`, `PROTOBUF`, `RAW`, or one of your own. Default:
            `PROTOBUF` for generated protobuf classes, `RAW` for classes derived from bytes, else `MSGPACK`.

    Raises:
        ArgumentTypeError: An argument has the wrong type.
    """
    if isinstance(identity, type):
        return payload(identity.__name__)(identity)
    if not isinstance(version, (int, bytes)):
        raise ArgumentTypeError("payload version", "a number", version)
    is_serializer = hasattr(serializer, "encode") and hasattr(serializer, "decode") and not isinstance(serializer, str)
    if not (serializer is None or is_serializer):
        raise ArgumentTypeError("payload serializer", "an object with encode and decode", serializer)
    identifier = MessageIdentifier(
        as_bytes(identity, "payload identity"), version, as_bytes(partition, "payload partition")
    )

    def mark(cls: Kind) -> Kind:
        chosen = default_serializer(cls) if serializer is None else serializer
        is_plain = not issubclass(cls, (Awaitable, Iterator, AsyncIterator))
        read: Callable[[bytes], Any] = reader_of(chosen, cls)
        write = writer_of(chosen)
        is_value = value_check(cls) if chosen is MSGPACK else None
        setattr(cls, PAYLOAD_MARK, PayloadType(identifier, chosen, cls, read, write, is_value, is_plain))
        return cls

    return mark


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Payload(msgspec.Struct, frozen=True):
    """Base class of payloads: the identity of the message is the name of the class, its version is 1.

    Instances are frozen, so that a node can hand them over to its own actors without a copy (`hopline.message.values`).
    Two classes of the same name are the same message: give one of them another name with `payload`.

    >>> class Greet(Payload):
    ...     name: str
    >>> to_message(Greet("Ada")).identity
    b'Greet'
    """


class Request(Payload, AnsweredBy[AnswerType], frozen=True):
    """Base class of payloads that ask for an answer, and say of which class it is: `ask` waits for it and returns it.

    The class may be a union of several; the first answer of any of them counts. A handler of the request whose return
    annotation has none of them is refused when its actor is added to a node. Classes that cannot derive from this, such
    as dataclasses and pydantic models, use the mix-in `AnsweredBy`.

    >>> class Greeting(Payload):
    ...     text: str
    >>> class Greet(Request[Greeting]):
    ...     name: str
    >>> Greet("Ada")
    Greet(name='Ada')
    """


def payload_type(cls: type) -> PayloadType:
    """Return the payload type of a class.

    A class derived from a decorated payload class does not inherit its identity: it needs a decorator of its own.

    Raises:
        ArgumentTypeError: The class is no payload class.
    """
    payload_type_of_class: PayloadType | None = getattr(cls, PAYLOAD_MARK, None)
    if payload_type_of_class is not None and payload_type_of_class.of is cls:
        return payload_type_of_class
    if issubclass(cls, type):
        raise ArgumentTypeError("payload", "an instance of a payload class, not the class itself", cls)
    if cls in (Payload, Request) or not issubclass(cls, Payload):
        expected = "a class derived from Payload or Request, or with the decorator @payload"
        raise ArgumentTypeError("payload", expected, cls)
    return payload_type(payload(cls.__name__)(cls))


def as_value(content: object) -> object | None:
    """Return the payload if it is a value that can be handed over without a copy, else None."""
    kind: PayloadType | None = getattr(content.__class__, PAYLOAD_MARK, None)
    if kind is None or kind.of is not content.__class__ or kind.is_value is None:
        return None
    return content if kind.is_value(content) else None


def to_message(
    content: Any,
    *,
    partition: str | bytes | None = None,
    version: Version | None = None,
    distribution: Distribution = Distribution.UNICAST,
    correlation_id: bytes | None = None,
    ttl: timedelta = timedelta(0),
) -> Message:
    """Return the message of a payload. The payload is encoded at once.

    Args:
        content: The payload.
        partition: The partition, if it is not the one of the payload class.
        version: The version, if it is not the one of the payload class.
        distribution: To one receiver, or to all of them.
        correlation_id: The flow that the message belongs to; None starts a new one.
        ttl: The lifetime of the message; zero is unlimited.

    Raises:
        ArgumentTypeError: The content is no payload.
        LocalError: The serializer cannot encode it.
    """
    kind = payload_type(type(content))
    named = kind.identifier.redirected(partition, version)
    return Message.create(
        named.identity,
        kind.serializer.encode(content),
        version=named.version,
        partition=named.partition,
        distribution=distribution,
        correlation_id=new_flow_id() if correlation_id is None else correlation_id,
        ttl=ttl,
    )


def from_message(message: Message, cls: type[Content]) -> Content:
    """Return the payload of a message, or raise `PayloadError` if the body does not fit the class."""
    read: Content = payload_type(cls).read(message.body)
    return read
