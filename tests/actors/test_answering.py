"""A handler of a request has to be able to return its answer, as far as its return annotation says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, Generic

import pytest

from hopline import Actor, AnsweredBy, ArgumentError, Context, Message, Node, Payload, Request, handler, payload
from hopline.actors import handler_map
from hopline.errors import ArgumentTypeError
from hopline.message import AnswerType, answers_of


class Greeting(Payload):
    text: str


class Farewell(Payload):
    text: str


class LongGreeting(Greeting):
    more: str


class Greet(Request[Greeting]):
    name: str


class Meet(Request[Greeting | Farewell]):
    name: str


def actor_that_returns(annotation: Any, request: type = Greet) -> type[Actor]:
    def handle(self: Any, content: Any) -> Any: ...

    handle.__annotations__ = {"content": request, "return": annotation}
    return type("Handling", (Actor,), {"handle": handler(handle)})


@pytest.mark.parametrize(
    "annotation",
    [
        Greeting,
        "Greeting",
        Greeting | None,
        list[Greeting],
        tuple[Farewell, Greeting],
        tuple[Greeting, ...],
        Iterator[Greeting],
        Generator[Greeting | Farewell, None, None],
        AsyncIterator[Greeting],
        Awaitable[Greeting],
        Coroutine[Any, Any, Greeting],
        Message,
        Greeting | Message,
        Payload,
        list,
        object,
        Any,
    ],
)
def test_what_may_be_the_answer_is_accepted(annotation: Any) -> None:
    assert len(handler_map(actor_that_returns(annotation)())) == 1


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (Farewell, "Farewell"),
        (LongGreeting, "LongGreeting"),  # another message: identities are not inherited
        (None, "None"),
        (str, "str"),
        (list[Farewell], "Farewell"),
        (Iterator[Farewell], "Farewell"),
        (Coroutine[Greeting, Greeting, Farewell], "Farewell"),
        (Farewell | None, "Farewell"),
    ],
)
def test_what_is_never_the_answer_is_refused_and_the_error_names_both(annotation: Any, named: str) -> None:
    actor = actor_that_returns(annotation)()
    with pytest.raises(ArgumentError, match=rf"expected a handler of Greet to return its answer Greeting.*{named}"):
        Node(actor)


def test_one_of_several_answers_is_enough() -> None:
    assert len(handler_map(actor_that_returns(Farewell, Meet)())) == 1
    with pytest.raises(ArgumentError, match="its answer Greeting or Farewell"):
        handler_map(actor_that_returns(LongGreeting, Meet)())


def test_nothing_is_refused_unless_the_handler_has_a_context_to_send_the_answer_through() -> None:
    class Sends(Actor):
        @handler
        async def greet(self, greet: Greet, context: Context) -> None:
            await context.send(Greeting(greet.name))

    class Forgets(Actor):
        @handler
        async def greet(self, greet: Greet) -> None: ...

    assert len(handler_map(Sends())) == 1
    with pytest.raises(ArgumentError, match=r"Forgets\.greet: expected a handler of Greet to return its answer"):
        handler_map(Forgets())


def test_without_a_return_annotation_nothing_is_checked() -> None:
    class Silent(Actor):
        @handler
        def greet(self, greet: Greet):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return Greeting(greet.name)

    assert len(handler_map(Silent())) == 1


class Page(Request[AnswerType], Generic[AnswerType]):
    number: int


class NamesPage(Page[Greeting]):
    pass


class Later(Request["Late"]):
    pass


class Late(Payload):
    pass


class Derived(Greet):
    pass


@payload
class Own(AnsweredBy[Greeting]):
    pass


@pytest.mark.parametrize(
    ("request_class", "answers"),
    [
        (Greet, (Greeting,)),
        (Meet, (Greeting, Farewell)),
        (NamesPage, (Greeting,)),
        (Later, (Late,)),
        (Derived, (Greeting,)),
        (Own, (Greeting,)),
        (Greeting, ()),
        (str, ()),
    ],
)
def test_the_answers_are_read_from_the_bases_of_a_class(request_class: type, answers: tuple[type, ...]) -> None:
    assert answers_of(request_class) == answers


def open_request() -> type:
    class Unknown(Request["Nowhere"]):  # type: ignore[name-defined]
        pass

    return Unknown


def request_for_nothing() -> type:
    class Nothing(Request[None]):  # type: ignore[type-var]
        pass

    return Nothing


def request_for_anything() -> type:
    class Anything(Request):  # type: ignore[type-arg]
        pass

    return Anything


@pytest.mark.parametrize("make", [open_request, request_for_nothing, request_for_anything])
def test_an_answer_that_is_no_class_is_refused(make: Callable[[], type]) -> None:
    with pytest.raises(ArgumentTypeError, match="the answer of"):
        answers_of(make())
