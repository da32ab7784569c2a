"""What an actor handles, and what its handlers return, by their annotations."""

from __future__ import annotations

import types
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from hopline.actors import Actor, HandlerDefinition, handler_map
from hopline.message import ArgumentError, MessageIdentifier, payload_type

_CACHED_FUNCTIONS = 4_096
_UNIONS = (typing.Union, types.UnionType)
_SEVERAL = (list, tuple)
_LATER = (Awaitable, Iterator, AsyncIterator)


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """One message that an actor handles, and the payloads that may answer it."""

    actor: str
    method: str
    description: str
    identifier: MessageIdentifier
    content: type | None  # None: the handler takes the message itself
    answers: tuple[type, ...]
    keep_local: bool


def contracts_of(actor: Actor) -> list[Contract]:
    """Return the contracts of an actor, one for each message that it handles."""
    return [_contract(actor, definition) for definition in handler_map(actor).values()]


def payloads_of(actor: Actor) -> list[type]:
    """Return the payload classes that an actor handles or returns."""
    classes: dict[type, None] = {}
    for definition in handler_map(actor).values():
        if definition.content is not None:
            classes[definition.content] = None
        classes |= dict.fromkeys(returned_payloads(definition.function))
    return list(classes)


def _contract(actor: Actor, definition: HandlerDefinition) -> Contract:
    return Contract(
        actor=type(actor).__qualname__.rpartition(".")[2],
        method=definition.method,
        description=_first_line(definition.function.__doc__),
        identifier=definition.identifier,
        content=definition.content,
        answers=returned_payloads(definition.function),
        keep_local=definition.keep_local,
    )


def _first_line(documentation: str | None) -> str:
    return (documentation or "").strip().partition("\n")[0]


@lru_cache(_CACHED_FUNCTIONS)
def returned_payloads(function: Callable[..., Any]) -> tuple[type, ...]:
    """Return the payload classes in the return annotation of a handler, those of a list or an iterator included."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # an annotation that only type checkers can read
        return ()
    found: dict[type, None] = {}
    for annotation in _alternatives(hints.get("return")):
        try:
            found[payload_type(annotation).of] = None
        except (ArgumentError, TypeError):  # a message, nothing, or anything
            continue
    return tuple(found)


def _alternatives(annotation: Any) -> Iterator[Any]:
    """Return the classes of the single results that an annotation allows."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        yield annotation
    elif origin in _UNIONS or origin in _SEVERAL:
        for argument in arguments:
            yield from _alternatives(argument)
    elif issubclass(origin, Coroutine):
        yield from _alternatives(arguments[-1])
    elif issubclass(origin, (*_LATER, AsyncGenerator)):
        yield from _alternatives(arguments[0])
    else:
        yield annotation  # `Annotated`, which has its own origin, and generic payloads
