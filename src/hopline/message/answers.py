"""What answers a request: a request class names the payload class of its answer as a type argument.

`Request[Greeting]` (`hopline.message.payload`) is the usual base class. A dataclass or a pydantic model says the same
with the mix-in `AnsweredBy[Greeting]`. Type checkers read the argument to know what `ask` returns; `answers_of` reads
it at run time, to know what to wait for.
"""

from __future__ import annotations

import sys
import typing
from types import SimpleNamespace, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

from hopline.errors import ArgumentTypeError
from hopline.message.payload_classes import AnyPayload

AnswerType = TypeVar("AnswerType", bound=AnyPayload, covariant=True)

_ANSWERS = "__hopline_answers__"  # where a class keeps what `answers_of` returned
_UNIONS = (Union, UnionType)


class AnsweredBy(Generic[AnswerType]):
    """Mix-in of payload classes that are requests: names the class of the answer, or a union of several.

    >>> from dataclasses import dataclass
    >>> from hopline import Payload, payload
    >>> class Price(Payload):
    ...     cents: int
    >>> @payload
    ... @dataclass(frozen=True)
    ... class PriceOrder(AnsweredBy[Price]):
    ...     sku: int
    >>> answers_of(PriceOrder) == (Price,)
    True
    """

    __slots__ = ()


def answers_of(cls: type) -> tuple[type, ...]:
    """Return the classes that answer a request; none if the class is no request.

    Raises:
        ArgumentTypeError: What the class names as its answer is no class, or cannot be found.
    """
    answers: tuple[type, ...] | None = cls.__dict__.get(_ANSWERS)
    if answers is not None:
        return answers
    if not issubclass(cls, AnsweredBy):
        return ()
    answers = _read_answers(cls)
    setattr(cls, _ANSWERS, answers)
    return answers


def _read_answers(cls: type) -> tuple[type, ...]:
    named, defined_in = _type_argument(cls)
    answer = _evaluated(cls, named, defined_in)
    answers = get_args(answer) if get_origin(answer) in _UNIONS else (answer,)
    for each in answers:
        if not isinstance(each, type) or each is type(None):
            raise ArgumentTypeError(f"the answer of {cls.__qualname__}", "a payload class: Request[Answer]", each)
    return answers


def _type_argument(cls: type) -> tuple[Any, type]:
    """Return what stands for the answer among the bases of a class, and the class that says so.

    It is a `TypeVar` where a generic class of requests leaves it open.
    """
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, AnsweredBy)):
            continue
        arguments = get_args(base)
        if origin is AnsweredBy:
            return (arguments[0] if arguments else None), cls
        named, defined_in = _type_argument(origin)
        if not isinstance(named, TypeVar):
            return named, defined_in
        parameters: tuple[Any, ...] = getattr(origin, "__parameters__", ())
        if arguments and named in parameters:
            return arguments[parameters.index(named)], cls
        return named, cls
    return None, cls


def _evaluated(cls: type, named: object, defined_in: type) -> Any:
    """Return a type argument with the names in it replaced by what they stand for, in the module of their class."""
    module = sys.modules.get(defined_in.__module__)  # none, where a program is run without being imported
    namespace = {} if module is None else vars(module)
    try:
        return typing.get_type_hints(SimpleNamespace(__annotations__={"answer": named}), namespace)["answer"]
    except NameError as error:
        advice = "a class that can be found from its module"
        raise ArgumentTypeError(f"the answer of {cls.__qualname__}", advice, str(error)) from None
