"""What a caller waits for: the callback point that travels, and how to read what comes home. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from hopline.message import (
    EXCEPTION,
    RECEIPT,
    ActorError,
    DeliveryError,
    ExceptionReport,
    HoplineError,
    LocalError,
    Message,
    MessageIdentifier,
    payload_type,
)

# One payload class, or several of which the first to come wins. An identifier stands for a message as it is.
Callback: TypeAlias = "type | MessageIdentifier | Sequence[type | MessageIdentifier]"


MOST_REMEMBERED = 1024

# Makes the answer as the caller wants it, or raises what the reply reports.
Read: TypeAlias = Callable[[Any], Any]


class Reader(msgspec.Struct, frozen=True):
    """How a reply is read from its message, and of which class the answer is then."""

    read: Read
    of: type | None = None


class Expectation(msgspec.Struct, frozen=True):
    """The kinds of messages that count as an answer, and how each is read. An exception always counts."""

    callback_point: tuple[MessageIdentifier, ...]
    readers: dict[MessageIdentifier, Reader]

    @classmethod
    def of(cls, callback: Callback | None) -> Expectation:
        """Read what the caller asked for; nothing means a receipt."""
        if callback is None:
            return _RECEIPT
        wanted: object = [callback] if isinstance(callback, (type, MessageIdentifier)) else callback
        if not (isinstance(wanted, Sequence) and wanted):
            raise LocalError("callback", "a payload class, a message identifier, or several of these", callback)
        return _expectation(wanted)


def _reader(wanted: type | MessageIdentifier) -> tuple[MessageIdentifier, Reader]:
    if isinstance(wanted, MessageIdentifier):
        return wanted, _READERS.get(wanted, Reader(as_it_is))
    if not isinstance(wanted, type):
        raise LocalError("callback", "payload classes or message identifiers", wanted)
    kind = payload_type(wanted)
    read = kind.read

    def read_reply(reply: Message) -> Any:
        bodies = reply.bodies
        return read(bodies[0] if bodies else b"")

    return kind.identifier, Reader(read_reply, wanted)


def as_it_is(answer: Any) -> Any:
    """Read what needs no reading."""
    return answer


def _nothing(_: Message) -> None:
    return None


def _raise_error(reply: Message) -> None:
    raise error_of(reply)


FAILURE = Reader(_raise_error)  # of every exception message, whether an actor or a router sent it
_READERS = {EXCEPTION: FAILURE, RECEIPT: Reader(_nothing)}


def error_of(reply: Message) -> HoplineError:
    """Give the error that an exception message reports."""
    report = ExceptionReport.from_body(reply.body)
    if report.type_name.startswith(DeliveryError.REPORTED_AS):
        return DeliveryError(report.type_name.removeprefix(DeliveryError.REPORTED_AS), report.text)
    return ActorError(report.type_name, report.text, report.stack)


def _expectation(wanted: Sequence[type | MessageIdentifier]) -> Expectation:
    readers: dict[MessageIdentifier, Reader] = {}
    for identifier, reader in map(_reader, (*wanted, EXCEPTION)):
        readers.setdefault(identifier, reader)
    return Expectation(tuple(readers), readers)


_RECEIPT = _expectation([RECEIPT])


_remembered: dict[Callback | None, Expectation] = {}


def expectation_of(callback: Callback | None) -> Expectation:
    """Read what the caller asked for, and remember it: most ask for the same again."""
    try:
        return _remembered[callback]
    except KeyError:
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        expectation = _remembered[callback] = Expectation.of(callback)
        return expectation
    except TypeError:  # a list cannot be looked up
        return Expectation.of(callback)
