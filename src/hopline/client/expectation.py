"""What a caller waits for: the callback point that travels, and how to read what comes home. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
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
    PayloadType,
    payload_type,
)

# One payload class, or several of which the first to come wins. An identifier stands for a message as it is.
Callback: TypeAlias = "type | MessageIdentifier | Sequence[type | MessageIdentifier]"


class Expectation(msgspec.Struct, frozen=True):
    """The kinds of messages that count as an answer. An exception always does."""

    callback_point: tuple[MessageIdentifier, ...]
    kinds: dict[MessageIdentifier, PayloadType | None]

    @classmethod
    def of(cls, callback: Callback | None) -> Expectation:
        """Read what the caller asked for; nothing means a receipt."""
        if isinstance(callback, type):
            return _of_type(callback)
        if callback is None:
            return _RECEIPT
        wanted: object = [callback] if isinstance(callback, MessageIdentifier) else callback
        if not (isinstance(wanted, Sequence) and wanted):
            raise LocalError("callback", "a payload class, a message identifier, or several of these", callback)
        return _expectation(wanted)

    def read(self, reply: Message | HoplineError) -> Any:
        """Give the answer as the caller wants it, or raise what the reply reports."""
        if isinstance(reply, HoplineError):
            raise reply
        identifier = reply.identifier
        kind = self.kinds[identifier]
        if kind is not None:
            return kind.serializer.decode(reply.body, kind.of)
        if identifier == EXCEPTION:
            raise error_of(reply)
        return None if identifier == RECEIPT else reply


def error_of(reply: Message) -> HoplineError:
    """Give the error that an exception message reports."""
    report = ExceptionReport.from_body(reply.body)
    if report.type_name.startswith(DeliveryError.REPORTED_AS):
        return DeliveryError(report.type_name.removeprefix(DeliveryError.REPORTED_AS), report.text)
    return ActorError(report.type_name, report.text, report.stack)


def _expectation(wanted: Sequence[type | MessageIdentifier]) -> Expectation:
    kinds: dict[MessageIdentifier, PayloadType | None] = {}
    for one in wanted:
        if isinstance(one, MessageIdentifier):
            kinds.setdefault(one, None)
        elif isinstance(one, type):
            kind = payload_type(one)
            kinds.setdefault(kind.identifier, kind)
        else:
            raise LocalError("callback", "payload classes or message identifiers", one)
    kinds.setdefault(EXCEPTION, None)
    return Expectation(tuple(kinds), kinds)


_RECEIPT = _expectation([RECEIPT])


@functools.lru_cache(maxsize=1024)
def _of_type(kind: type) -> Expectation:
    return _expectation([kind])
