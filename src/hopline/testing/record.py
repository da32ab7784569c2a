"""What was sent, in its order: by a node, by a whole network, or by a handler that has a fake context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeGuard, get_type_hints

import msgspec

from hopline.actors import Actor, handler_map
from hopline.display.bodies import body_text
from hopline.message import (
    EXCEPTION,
    RECEIPT,
    ArgumentError,
    ExceptionReport,
    Message,
    PayloadError,
    Version,
    payload_type,
)
from hopline.observers.observer import NodeObserver
from hopline.routing import Delivery

_LONGEST = 200  # characters of a message in a list


class SentMessage(msgspec.Struct, frozen=True):
    """One message that was sent."""

    message: Message
    of: type | None = None  # the payload class that it was made of, if that is known
    by: str = ""  # the name of the node, in a network

    def is_a(self, kind: type) -> bool:
        """Return whether this is a message of a payload class, in any partition."""
        identifier = payload_type(kind).identifier
        return (self.message.identity, self.message.version) == (identifier.identity, identifier.version)

    def payload(self, kind: type) -> Any:
        """Return the payload."""
        return payload_type(kind).read(self.message.body)

    def __str__(self) -> str:
        message = self.message
        if message.identity == EXCEPTION.identity:
            report = ExceptionReport.from_body(message.body)
            text = f"an error: {report.type_name}: {report.text}"
        else:
            text = self._content()
        shown = f"{self.by}: {text}" if self.by else text
        return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."

    def _content(self) -> str:
        if self.of is not None:
            with suppress(PayloadError):  # another class of that name
                return repr(self.payload(self.of))
        body = " ".join(body_text(self.message.body).split())
        return f"{self.message.identifier} {body}"


class SentMessages(NodeObserver):
    """Records what is sent. Receipts are left out, because they say nothing that a test could expect.

    Args:
        by: The name of what sends.
        also: Another record, which gets everything as well.
    """

    def __init__(self, by: str = "", also: SentMessages | None = None) -> None:
        self._by = by
        self._sent: list[SentMessage] = []
        self._kinds: dict[tuple[bytes, Version], type] = {} if also is None else also._kinds
        self._also = also

    def __iter__(self) -> Iterator[SentMessage]:
        for sent in self._sent:
            kind = self._kinds.get((sent.message.identity, sent.message.version))
            yield SentMessage(sent.message, kind, sent.by)

    def know(self, kind: type) -> None:
        """Show messages of a payload class as its instances."""
        identifier = payload_type(kind).identifier
        self._kinds[identifier.identity, identifier.version] = kind

    def know_content(self, content: object) -> None:
        """Show messages of a payload's class as its instances, unless it is a message already."""
        if _is_payload(type(content)):
            self.know(type(content))

    def know_actor(self, actor: Actor) -> None:
        """Show the messages that an actor handles, and those that its handlers say they return."""
        for definition in handler_map(actor).values():
            returned = _hints(definition.function).get("return")
            for kind in (definition.content, returned):
                if _is_payload(kind):
                    self.know(kind)

    def add(self, message: Message) -> None:
        """Record a message."""
        if message.identity != RECEIPT.identity:
            self._append(SentMessage(message, by=self._by))

    def _append(self, sent: SentMessage) -> None:
        self._sent.append(sent)
        if self._also is not None:
            self._also._append(sent)

    def clear(self) -> None:
        """Forget what was sent so far."""
        self._sent.clear()

    # -- as the observer of a node -------------------------------------------------------------------------------------

    def submitting(self, delivery: Delivery) -> Delivery:
        """Keep the node from shortcuts, on which a message would not be observed."""
        return delivery

    def submitted(self, delivery: Delivery) -> None:
        """Record a message that the node has taken from one of its actors or hubs."""
        self.know_content(delivery.content)
        self.add(delivery.message)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # of a class that is defined within a function
        return {}


def _is_payload(kind: Any) -> TypeGuard[type]:
    if not isinstance(kind, type):
        return False
    try:
        payload_type(kind)
    except ArgumentError:
        return False
    return True
