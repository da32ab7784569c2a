"""Whether a handler answers the request that it handles, by its return annotation. Pure.

The class of a `Request` names the classes of its answer, and a caller that asks waits for one of them. A handler whose
results never are one would let it wait until its time has passed, so such a handler is refused beforehand.

What the annotation leaves open is accepted: no annotation, `Message`, a bare `list`, a class that an answer could be an
instance of, and nothing (`None`) from a handler with a context, which may send the answer through that.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from hopline.message import ArgumentError, Message, answers_of

_ITERATORS = (collections.abc.Iterator, collections.abc.AsyncIterator, collections.abc.Awaitable)
_COLLECTIONS = (list, tuple)
_UNIONS = (Union, UnionType)
_NOTHING = type(None)


def require_answer(function: Callable[..., Any], request: type, hints: dict[str, Any], *, has_context: bool) -> None:
    """Raise `ArgumentError` if a handler of this request cannot return its answer.

    Args:
        function: The handler.
        request: The payload class that it handles.
        hints: Its annotations.
        has_context: Whether it can send results while it runs.
    """
    answers = answers_of(request)
    if not answers or "return" not in hints:
        return
    results = list(results_of(hints["return"]))
    if any(_may_be(result, answers) for result in results):
        return
    if has_context and results == [_NOTHING]:
        return
    answer = " or ".join(each.__qualname__ for each in answers)
    expected = f"a handler of {request.__qualname__} to return its answer {answer}, or a Message"
    found = " or ".join(map(_named, results))
    raise ArgumentError(function.__qualname__, expected, found)


def results_of(annotation: Any) -> Iterator[Any]:
    """Yield what a handler with this return annotation sends: the kinds in unions, lists, iterators and awaitables."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin in _UNIONS or origin in _COLLECTIONS:
        for argument in arguments:
            yield from results_of(argument)
    elif isinstance(origin, type) and issubclass(origin, _ITERATORS) and arguments:
        # Of a generator the first argument is what it yields, of a coroutine the last one is what it returns.
        is_coroutine = issubclass(origin, collections.abc.Coroutine)
        yield from results_of(arguments[-1] if is_coroutine else arguments[0])
    elif annotation is not Ellipsis:  # of tuple[Kind, ...]
        yield annotation


def _may_be(result: Any, answers: tuple[type, ...]) -> bool:
    if result is Any or isinstance(result, TypeVar):
        return True
    if not isinstance(result, type):  # something that only type checkers know
        return False
    is_open = result is Message or result in _COLLECTIONS or issubclass(result, _ITERATORS)
    return is_open or any(issubclass(answer, result) for answer in answers)


def _named(result: Any) -> str:
    if result is _NOTHING:
        return "None"
    return result.__qualname__ if isinstance(result, type) else str(result)
