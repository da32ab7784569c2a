"""Payloads that are values are handed over as they are; nobody can tell, except by asking for the very object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hopline import (
    JSON,
    Actor,
    ActorError,
    ArgumentError,
    Context,
    Message,
    MessageIdentifier,
    MessageOutcome,
    Outcome,
    Payload,
    handler,
    payload,
    to_message,
)
from hopline.message import payload_type

from .running import on_loop, soon, started, until


@payload
class Ask(msgspec.Struct, frozen=True):
    number: int
    weight: float = 0.0


class Told(Payload):  # frozen, as all that derive from Payload
    number: int
    text: str | None = None


@payload
class Draft(msgspec.Struct):  # may be changed, and is therefore nobody's but its owner's
    text: str


@payload
class Basket(msgspec.Struct, frozen=True):  # frozen, but what it holds is not
    items: list[str]


class Keeper(Actor):
    """Keeps what it gets, and gives an answer that it keeps as well."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.gave: list[Any] = []

    def _answer(self, got: Any, answer: Any) -> Any:
        self.got.append(got)
        self.gave.append(answer)
        return answer

    @handler
    def ask(self, ask: Ask) -> Told:
        return self._answer(ask, Told(ask.number + 1))  # type: ignore[no-any-return]

    @handler
    def draft(self, draft: Draft) -> Draft | Told:
        draft.text += "!"
        return self._answer(draft, Told(1, draft.text))  # type: ignore[no-any-return]

    @handler
    def basket(self, basket: Basket) -> Told:
        basket.items.append("more")
        return self._answer(basket, Told(len(basket.items)))  # type: ignore[no-any-return]


@on_loop
async def test_a_value_is_handed_over_there_and_back() -> None:
    keeper, ask = Keeper(), Ask(1)
    async with started(keeper) as node:
        sent = await soon(node.hub.send(ask, callback=Told))
        promise = node.hub.try_send(ask, callback=Told)
        assert "Ask/1" in repr(promise)
        promised = await soon(promise)
        assert [keeper.got[0] is ask, keeper.got[1] is ask] == [True, True]
        assert [sent is keeper.gave[0], promised is keeper.gave[1]] == [True, True]


@on_loop
async def test_a_value_is_handed_over_to_everyone_of_a_broadcast() -> None:
    keepers, ask = [Keeper(), Keeper()], Ask(1)
    async with started(*keepers) as node:
        answers = [told async for told in node.hub.stream(ask, callback=Told, limit=2)]
        assert answers == [Told(2), Told(2)]
        assert all(keeper.got[0] is ask for keeper in keepers)
        await node.hub.broadcast(ask)
        await node.hub.send_one_way(ask)
        await until(lambda: sum(len(keeper.got) for keeper in keepers) == 5)
        assert all(got is ask for keeper in keepers for got in keeper.got)


@on_loop
async def test_what_can_be_changed_is_never_shared() -> None:
    keeper, draft, basket = Keeper(), Draft("hello"), Basket(["bread"])
    async with started(keeper) as node:
        assert await soon(node.hub.send(draft, callback=Told)) == Told(1, "hello!")
        assert await soon(node.hub.send(basket, callback=Told)) == Told(2)
    assert (draft, basket) == (Draft("hello"), Basket(["bread"]))
    assert keeper.got == [Draft("hello!"), Basket(["bread", "more"])]


@on_loop
async def test_a_field_that_does_not_hold_what_it_says_is_read_as_ever() -> None:
    keeper = Keeper()
    wrong: Any = [1]
    async with started(keeper) as node:
        await soon(node.hub.send(Ask(1, weight=2), callback=Told))
        assert type(keeper.got[0].weight) is float
        with pytest.raises(ActorError, match="Expected `int`, got `array`"):
            await soon(node.hub.send(Ask(wrong), callback=Told))


class Wrong(Actor):
    """Answers with what cannot be written, or read."""

    @handler
    def ask(self, ask: Ask) -> Told:
        text: Any = 7
        return Told(1 << 70) if ask.number else Told(1, text)


@on_loop
async def test_what_cannot_be_written_fails_although_nobody_would_read_it() -> None:
    async with started(Wrong()) as node:
        with pytest.raises(ArgumentError, match="payload"):
            node.hub.try_send(Ask(1 << 70), callback=Told)
        with pytest.raises(ActorError, match="LocalError"):
            await soon(node.hub.send(Ask(1), callback=Told))
        with pytest.raises(Exception, match=r"Expected `str \| null`, got `int`"):
            await soon(node.hub.send(Ask(0), callback=Told))
        assert node.hub.waiting == 0


@payload("Ask")
class Question(msgspec.Struct, frozen=True):
    number: int


@payload("Told")
class Reply(msgspec.Struct, frozen=True):
    number: int


class Other(Actor):
    @handler
    def ask(self, question: Question) -> Reply:
        assert type(question) is Question
        return Reply(question.number)


@on_loop
async def test_another_class_of_the_same_name_gets_its_own() -> None:
    async with started(Other()) as node:
        assert await soon(node.hub.send(Ask(3), callback=Told)) == Told(3)


@on_loop
async def test_who_asks_for_the_message_gets_the_message() -> None:
    class Looking(Actor):
        @handler(Ask)
        def ask(self, message: Message, context: Context) -> Told:
            assert message.body == to_message(Ask(4)).body
            return Told(len(context.message.body))

    async with started(Looking()) as node:
        reply = await soon(node.hub.send(Ask(4), callback=MessageIdentifier(b"Told")))
        assert reply.body == to_message(Told(len(to_message(Ask(4)).body))).body
        assert reply.callback_key == 1


@on_loop
async def test_the_books_are_the_same_whether_somebody_looks_or_not() -> None:
    seen: list[MessageOutcome] = []
    books = []
    for hook in (None, seen.append):
        async with started(Keeper(), on_outcome=hook) as node:
            assert await soon(node.hub.send(Ask(5), callback=Told)) == Told(6)
            node.hub.try_send(Ask(6), callback=Told).cancel()
            stats = node.stats
            await until(lambda stats=stats: stats().unexpected == 1)  # type: ignore[misc]
            books.append(node.stats())
    assert books[0] == books[1]
    assert [(one.outcome, one.message.identity) for one in seen] == [
        (Outcome.DELIVERED, b"Ask"),
        (Outcome.DELIVERED, b"Told"),
    ] * 2
    assert [one.message.body for one in seen[:2]] == [to_message(Ask(5)).body, to_message(Told(6)).body]
    assert seen[1].message.correlation_id == seen[0].message.correlation_id
    assert seen[1].receiver == seen[0].message.callback_receiver_identity


@payload
class Eager(msgspec.Struct, frozen=True):
    number: int

    def __post_init__(self) -> None: ...


@payload
class Roomy(msgspec.Struct, frozen=True, dict=True):
    number: int


@payload
class Nested(msgspec.Struct, frozen=True):
    ask: Ask


@payload
class Nothing(msgspec.Struct, frozen=True): ...


@payload("LATER")
class Later(msgspec.Struct, frozen=True):
    what: NotYet


class NotYet(msgspec.Struct, frozen=True): ...


@payload("AS.JSON", serializer=JSON)  # which writes what is no number as nothing
class AsJson(msgspec.Struct, frozen=True):
    number: float


@pytest.mark.parametrize(
    ("content", "is_value"),
    [
        (Ask(1), True),
        (Ask(True), False),
        (Told(1, None), True),
        (Told(1, "text"), True),
        (Nothing(), True),
        (Draft("text"), False),
        (Basket([]), False),
        (Eager(1), False),
        (Roomy(1), False),
        (Nested(Ask(1)), False),
        (Later(NotYet()), False),
        (AsJson(1.0), False),
    ],
    ids=repr,
)
def test_a_value_is_a_frozen_struct_of_plain_fields_that_hold_what_they_say(content: object, is_value: bool) -> None:
    check = payload_type(type(content)).is_value
    assert (check is not None and check(content)) is is_value
