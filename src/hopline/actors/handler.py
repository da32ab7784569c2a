"""`@handler`: makes a method the handler of a message, by its annotation or by the decorator's argument."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

from hopline.actors.answering import require_answer
from hopline.actors.context import HandlerContext
from hopline.message import (
    ArgumentError,
    Message,
    MessageIdentifier,
    PayloadType,
    Serializer,
    as_bytes,
    payload_type,
    reader_of,
)

Method = TypeVar("Method", bound=Callable[..., Any])
Handled = type | MessageIdentifier

_MARKS = "__hopline_handles__"


class HandlerDefinition(msgspec.Struct, frozen=True):
    """One message that an actor handles, and how."""

    identifier: MessageIdentifier
    function: Callable[..., Any]  # called with the actor, the content, and the context if `wants_context`
    content: type | None = None  # the payload that the function takes; None when it takes the message itself
    serializer: Serializer | None = None
    wants_context: bool = False
    keep_local: bool = False  # never advertised to other nodes
    blocking: bool = False  # run in a thread
    # Derived from the above: decodes a body, for functions on the event loop that take a payload and nothing else.
    read: Callable[[bytes], Any] | None = None

    def __post_init__(self) -> None:
        if self.content is None or self.serializer is None:
            return
        if self.wants_context or self.blocking:
            return
        read: Callable[[bytes], Any] | None = reader_of(self.serializer, self.content)
        msgspec.structs.force_setattr(self, "read", read)

    def bound_to(self, partition: str | bytes) -> HandlerDefinition:
        """Return the same handler for another partition of the message."""
        identifier = self.identifier.redirected(partition, None)
        return msgspec.structs.replace(self, identifier=identifier)

    @property
    def name(self) -> str:
        """The function by its qualified name."""
        return getattr(self.function, "__qualname__", repr(self.function))

    @property
    def method(self) -> str:
        """The function by its own name, whichever class defines it."""
        function = self.function  # used for every record of a full capture, and repr is slow
        return function.__name__ if hasattr(function, "__name__") else repr(function)


class _Mark(msgspec.Struct, frozen=True):
    """The arguments of a decorator. Annotations are read later, when the first actor of the class is created."""

    handled: Handled | None
    partition: bytes | None
    keep_local: bool
    blocking: bool


@overload
def handler(
    handled: Handled | None = None,
    *,
    partition: str | bytes | None = None,
    keep_local: bool = False,
    blocking: bool = False,
) -> Callable[[Method], Method]: ...
@overload
def handler(handled: Method) -> Method: ...
def handler(
    handled: Any = None,
    *,
    partition: str | bytes | None = None,
    keep_local: bool = False,
    blocking: bool = False,
) -> Any:
    """Make a method of an actor the handler of a message.

    Bare, it handles the payload that its first parameter is annotated with. ``@handler(Kind)`` names the payload class
    or a `MessageIdentifier`; the method then gets the payload, or the `Message` itself if its parameter says so. A
    second parameter, when there is one, gets the handler's context. Used several times it handles several messages.

    The return annotation of the handler of a `Request` must have the request's answer in it, alone or among others.
    """
    is_bare = inspect.isfunction(handled)
    if not (is_bare or handled is None or isinstance(handled, (type, MessageIdentifier))):
        raise ArgumentError("handler", "a method, a payload class or a MessageIdentifier", handled)
    bound_to = None if partition is None else as_bytes(partition, "handler partition")
    mark = _Mark(None if is_bare else handled, bound_to, keep_local, blocking)

    def decorate(method: Method) -> Method:
        if not inspect.isfunction(method):
            raise ArgumentError("handler", "a method of an actor", method)
        earlier_marks = getattr(method, _MARKS, ())
        setattr(method, _MARKS, (mark, *earlier_marks))
        return method

    return decorate(handled) if is_bare else decorate


def definitions_of(cls: type) -> tuple[HandlerDefinition, ...]:
    """Return the handlers of a class, including inherited ones.

    An overriding method inherits the registration of the method it overrides.
    """
    definitions: tuple[HandlerDefinition, ...] | None = cls.__dict__.get("__hopline_handlers__")
    if definitions is None:
        defined: list[HandlerDefinition] = []
        for name, marks in _marked_methods(cls).items():
            function = getattr(cls, name)
            defined += [_define(function, mark) for mark in marks]
        definitions = tuple(defined)
        cls.__hopline_handlers__ = definitions  # type: ignore[attr-defined]
    return definitions


def _marked_methods(cls: type) -> dict[str, tuple[_Mark, ...]]:
    marked: dict[str, tuple[_Mark, ...]] = {}
    for base in cls.__mro__:
        for name, member in vars(base).items():
            marks = getattr(member, _MARKS, ()) if inspect.isfunction(member) else ()
            if marks:
                marked.setdefault(name, marks)
    return marked


def _define(function: Callable[..., Any], mark: _Mark) -> HandlerDefinition:
    hints = _hints(function)
    parameters = _parameters(function, hints)
    annotation = parameters[0]
    handled = annotation if mark.handled is None else mark.handled
    if isinstance(handled, MessageIdentifier):
        identifier, content, serializer = handled, None, None
    else:
        kind = _payload_type(function, handled)
        identifier, content, serializer = kind.identifier, kind.of, kind.serializer
        require_answer(function, kind.of, hints, has_context=len(parameters) > 1)
    if annotation is Message:
        content = None
    elif content is None:
        kind = _payload_type(function, annotation)
        content, serializer = kind.of, kind.serializer
    elif annotation not in (None, Any, content):
        raise ArgumentError(
            function.__qualname__, f"a parameter annotated with {content.__name__} or Message", annotation
        )
    if mark.blocking and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise ArgumentError(function.__qualname__, "a plain function for blocking=True", "async def")
    definition = HandlerDefinition(
        identifier=identifier,
        function=function,
        content=content,
        serializer=serializer,
        wants_context=len(parameters) > 1,
        keep_local=mark.keep_local,
        blocking=mark.blocking,
    )
    return definition if mark.partition is None else definition.bound_to(mark.partition)


def _payload_type(function: Callable[..., Any], cls: Any) -> PayloadType:
    try:
        return payload_type(cls)
    except (ArgumentError, TypeError):
        expected = "a parameter annotated with one payload class, or @handler(Kind) for each kind"
        raise ArgumentError(function.__qualname__, expected, cls) from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a method; none if they cannot be read and the decorator names the payload."""
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        if any(isinstance(mark.handled, type) for mark in getattr(function, _MARKS, ())):
            return {}
        advice = "annotations that can be read from the module; else name the payload: @handler(Kind)"
        raise ArgumentError(function.__qualname__, advice, str(error)) from None


def _parameters(function: Callable[..., Any], hints: dict[str, Any]) -> list[Any]:
    """Return the annotations of a method's parameters after self: the content's, and the context's if there is one."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    if not 1 <= len(names) <= 2 or len(names) < len(parameters):
        raise ArgumentError(function.__qualname__, "parameters (self, content) or (self, content, context)", names)
    context = hints.get(names[1], HandlerContext) if len(names) > 1 else HandlerContext
    if not (isinstance(context, type) and issubclass(context, HandlerContext)):
        raise ArgumentError(function.__qualname__, "a second parameter annotated with Context", context)
    return [hints.get(name) for name in names]
