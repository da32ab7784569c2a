"""What a caller waits for: the callback point that travels with its request, and how to read each reply. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from hopline.message import (
    EXCEPTION,
    RECEIPT,
    ActorError,
    ArgumentError,
    DeliveryError,
    ExceptionReport,
    HoplineError,
    Message,
    MessageIdentifier,
    answers_of,
    payload_type,
)

# One payload class or several; the first reply of any of them counts. An identifier stands for the message itself.
Callback: TypeAlias = "type | MessageIdentifier | Sequence[type | MessageIdentifier]"


CACHE_CAPACITY = 1024

# Converts a reply to the answer, or raises the error that it reports.
Read: TypeAlias = Callable[[Any], Any]


class Reader(msgspec.Struct, frozen=True):
    """How a reply is read from its message, and the class of the answer."""

    read: Read
    of: type | None = None


class ReplySpec(msgspec.Struct, frozen=True):
    """The kinds of messages that answer a request, and how each is read. An exception message is always one of them."""

    callback_point: tuple[MessageIdentifier, ...]
    readers: dict[MessageIdentifier, Reader]

    @classmethod
    def of(cls, callback: Callback | None) -> ReplySpec:
        """Return the specification for a callback; None asks for a receipt."""
        if callback is None:
            return _RECEIPT
        kinds: object = [callback] if isinstance(callback, (type, MessageIdentifier)) else callback
        if not (isinstance(kinds, Sequence) and kinds):
            raise ArgumentError("callback", "a payload class, a message identifier, or several of these", callback)
        return _spec_of(kinds)


def _reader(reply_kind: type | MessageIdentifier) -> tuple[MessageIdentifier, Reader]:
    if isinstance(reply_kind, MessageIdentifier):
        return reply_kind, _READERS.get(reply_kind, Reader(as_it_is))
    if not isinstance(reply_kind, type):
        raise ArgumentError("callback", "payload classes or message identifiers", reply_kind)
    kind = payload_type(reply_kind)
    read = kind.read

    def read_reply(reply: Message) -> Any:
        bodies = reply.bodies
        return read(bodies[0] if bodies else b"")

    return kind.identifier, Reader(read_reply, reply_kind)


def as_it_is(answer: Any) -> Any:
    """Return an answer that needs no conversion."""
    return answer


def _nothing(_: Message) -> None:
    return None


def _raise_error(reply: Message) -> None:
    raise error_of(reply)


FAILURE = Reader(_raise_error)  # of every exception message, whether an actor or a router sent it
_READERS = {EXCEPTION: FAILURE, RECEIPT: Reader(_nothing)}


def error_of(reply: Message) -> HoplineError:
    """Return the error that an exception message reports."""
    report = ExceptionReport.from_body(reply.body)
    if report.type_name.startswith(DeliveryError.REPORTED_AS):
        return DeliveryError(report.type_name.removeprefix(DeliveryError.REPORTED_AS), report.text)
    return ActorError(report.type_name, report.text, report.stack)


def _spec_of(kinds: Sequence[type | MessageIdentifier]) -> ReplySpec:
    readers: dict[MessageIdentifier, Reader] = {}
    for identifier, reader in map(_reader, (*kinds, EXCEPTION)):
        readers.setdefault(identifier, reader)
    return ReplySpec(tuple(readers), readers)


_RECEIPT = _spec_of([RECEIPT])

_cache: dict[Callback | None, ReplySpec] = {}


def reply_spec_of(callback: Callback | None) -> ReplySpec:
    """Return the specification for a callback, from a cache: applications use few different ones."""
    try:
        return _cache[callback]
    except KeyError:
        if len(_cache) >= CACHE_CAPACITY:
            _cache.clear()
        reply_spec = _cache[callback] = ReplySpec.of(callback)
        return reply_spec
    except TypeError:  # a list is not hashable
        return ReplySpec.of(callback)


def callback_of(content: object) -> Callback:
    """Return what answers a request, as its class says.

    Raises:
        ArgumentError: The class does not say it.
    """
    cls = content.__class__
    answers = answers_of(cls)
    if not answers:
        expected = f"the kind of the answer, because {cls.__qualname__} is no Request[...], which would name it"
        raise ArgumentError("callback", expected, None)
    return answers
