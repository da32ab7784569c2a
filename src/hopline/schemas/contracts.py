"""What an actor handles, and what its handlers return, by their annotations."""

from __future__ import annotations

import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from hopline.actors import Actor, HandlerDefinition, handler_map
from hopline.actors.answering import results_of
from hopline.message import ArgumentError, MessageIdentifier, answers_of, payload_type

_CACHED_FUNCTIONS = 4_096


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
        classes |= dict.fromkeys(_answers(definition.function, definition.content))
    return list(classes)


def _contract(actor: Actor, definition: HandlerDefinition) -> Contract:
    return Contract(
        actor=type(actor).__qualname__.rpartition(".")[2],
        method=definition.method,
        description=_first_line(definition.function.__doc__),
        identifier=definition.identifier,
        content=definition.content,
        answers=_answers(definition.function, definition.content),
        keep_local=definition.keep_local,
    )


def _first_line(documentation: str | None) -> str:
    return (documentation or "").strip().partition("\n")[0]


@lru_cache(_CACHED_FUNCTIONS)
def _answers(function: Callable[..., Any], content: type | None) -> tuple[type, ...]:
    """Return the payload classes in the return annotation of a handler, and those that its request names."""
    try:
        returned = typing.get_type_hints(function).get("return")
    except NameError:  # an annotation that only type checkers can read
        returned = None
    found: dict[type, None] = {}
    for annotation in results_of(returned):
        try:
            found[payload_type(annotation).of] = None
        except (ArgumentError, TypeError):  # a message, nothing, or anything
            continue
    named = () if content is None else answers_of(content)
    return (*found, *(cls for cls in named if cls not in found))
