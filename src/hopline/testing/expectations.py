"""`expect`: what a test says about the messages that were sent, with errors that show what was sent instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from hopline.message import ArgumentError
from hopline.node import Node
from hopline.testing.contexts import FakeContext
from hopline.testing.networks import InProcessNetwork
from hopline.testing.record import SentMessage, SentMessages

Content = TypeVar("Content")


def expect(source: Node | FakeContext | InProcessNetwork) -> Expectation:
    """Return the expectations of a test about what was sent.

    Args:
        source: What sent it: a node of `hopline.testing.node`, a whole network, or the fake context of a handler.

    Raises:
        ArgumentError: The source records nothing, such as a `Node` that the test has made itself.

    >>> from hopline import Payload
    >>> from hopline.testing import context
    >>> class Shipped(Payload):
    ...     sku: str
    >>> handling = context()
    >>> handling.try_send(Shipped("lamp"))
    >>> expect(handling).sent(Shipped)
    [Shipped(sku='lamp')]
    """
    return Expectation(_record_of(source))


def _record_of(source: object) -> SentMessages:
    if isinstance(source, FakeContext):
        return source.record
    if isinstance(source, InProcessNetwork):
        return _with_kinds_of(source.nodes, source.record)
    if isinstance(source, Node):
        for observer in source.observers:
            if isinstance(observer, SentMessages):
                return _with_kinds_of([source], observer)
    raise ArgumentError("expect", "a node of hopline.testing.node, a network or a context of this package", source)


def _with_kinds_of(nodes: Iterable[Node], record: SentMessages) -> SentMessages:
    """Return a record that knows the messages of all actors, also of those that were added later."""
    for actor in (actor for node in nodes for actor in node.actors):
        record.know_actor(actor)
    return record


class Expectation:
    """Checks on what was sent. Each raises `AssertionError`, with a list of what was sent, if it does not hold."""

    def __init__(self, record: SentMessages) -> None:
        self._record = record

    @overload
    def sent(
        self, wanted: type[Content], where: Callable[[Content], object] | None = None, *, count: int | None = None
    ) -> list[Content]: ...
    @overload
    def sent(self, wanted: Content, *, count: int | None = None) -> list[Content]: ...
    def sent(self, wanted: Any, where: Callable[[Any], object] | None = None, *, count: int | None = None) -> list[Any]:
        """Check that something was sent, and return it.

        Args:
            wanted: A payload class, or a payload that is equal to what was sent.
            where: Whether a payload of the class counts. Default: every one does.
            count: How often it was sent. Default: at least once.

        Returns:
            The payloads that count, in their order.
        """
        __tracebackhide__ = True
        found = self._found(wanted, where)
        is_met = bool(found) if count is None else len(found) == count
        if not is_met:
            raise AssertionError(self._failure(f"expected {_count(count)} {_name(wanted, where)}, found {len(found)}"))
        return found

    @overload
    def not_sent(self, unwanted: type[Content], where: Callable[[Content], object] | None = None) -> None: ...
    @overload
    def not_sent(self, unwanted: object) -> None: ...
    def not_sent(self, unwanted: Any, where: Callable[[Any], object] | None = None) -> None:
        """Check that something was not sent. The arguments are those of `sent`."""
        __tracebackhide__ = True
        self.sent(unwanted, where, count=0)

    def nothing_sent(self) -> None:
        """Check that nothing at all was sent."""
        __tracebackhide__ = True
        if list(self._record):
            raise AssertionError(self._failure("expected nothing"))

    def sent_in_order(self, *wanted: object) -> None:
        """Check that payloads, or some of these classes, were sent in this order. Others may have come in between."""
        __tracebackhide__ = True
        sent = iter(list(self._record))
        for number, one in enumerate(wanted, 1):
            if not any(_matches(message, one) for message in sent):  # goes on where the one before was found
                names = ", then ".join(_name(each) for each in wanted)
                raise AssertionError(self._failure(f"expected {names}, but no {_name(one)} as number {number}"))

    def _found(self, wanted: Any, where: Callable[[Any], object] | None) -> list[Any]:
        kind = wanted if isinstance(wanted, type) else type(wanted)
        self._record.know(kind)
        matching = [message for message in self._record if _matches(message, wanted)]
        payloads = [message.payload(kind) for message in matching]
        return payloads if where is None else [payload for payload in payloads if where(payload)]

    def _failure(self, problem: str) -> str:
        lines = [f"  {number}. {message}" for number, message in enumerate(self._record, 1)]
        return "\n".join([f"{problem}; what was sent:", *(lines or ["  nothing"])])


def _matches(message: SentMessage, wanted: Any) -> bool:
    if isinstance(wanted, type):
        return message.is_a(wanted)
    kind = type(wanted)
    return message.is_a(kind) and message.payload(kind) == wanted


def _count(count: int | None) -> str:
    if count is None:
        return "at least one"
    return "no" if count == 0 else str(count)


def _name(wanted: Any, where: object = None) -> str:
    name = wanted.__name__ if isinstance(wanted, type) else repr(wanted)
    return name if where is None else f"{name} that the condition holds for"
