"""Handlers that are called directly: what they send is recorded, and what they ask is answered by the test."""

from __future__ import annotations

import doctest

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    Context,
    MessageIdentifier,
    from_message,
    handler,
    to_message,
)
from hopline.testing import clock, context, contexts, expect, expectations, networks, nodes, run
from tests.testing.shop import Noted, Price, Priced, Quote, Quoted, Quoting


def quoted(*answers: object) -> Quoted:
    handling = context(Quote("lamp"))
    handling.answer(Price, *answers)
    return run(Quoting().quote(Quote("lamp"), handling))


def test_a_handler_gets_the_answer_of_the_test() -> None:
    assert quoted(Priced("lamp", 100)) == Quoted("lamp: 1.00")


def test_an_answer_may_depend_on_the_request() -> None:
    assert quoted(lambda price: Priced(price.sku.upper(), 250)) == Quoted("LAMP: 2.50")


def test_an_answer_may_be_a_message() -> None:
    assert quoted(to_message(Priced("lamp", 300))) == Quoted("lamp: 3.00")


def test_an_exception_arrives_as_it_would_from_another_handler() -> None:
    with pytest.raises(ActorError, match="KeyError: 'lamp'"):
        quoted(KeyError("lamp"))


def test_an_error_of_hopline_is_raised_as_it_is() -> None:
    with pytest.raises(AnswerTimeoutError, match="within 5 s"):
        quoted(AnswerTimeoutError("Price/1", 5))


def test_several_answers_are_for_several_requests_and_the_last_one_for_all_others() -> None:
    handling = context()
    handling.answer(Price, Priced("first", 1), Priced("second", 2))

    async def ask() -> list[str]:
        return [(await handling.ask(Price("any"))).sku for _ in range(3)]

    assert run(ask()) == ["first", "second", "second"]


def test_a_list_is_several_answers_to_one_request() -> None:
    handling = context()
    handling.answer(Price, [Priced("first", 1), Priced("second", 2)])

    async def stream() -> list[str]:
        return [priced.sku async for priced in handling.hub.stream(Price("any"), callback=Priced, timeout=60)]

    assert run(stream()) == ["first", "second"]


def test_what_is_sent_is_recorded_in_its_order() -> None:
    handling = context(Quote("lamp"))
    handling.answer(Price, Priced("lamp", 100))
    run(Quoting().quote(Quote("lamp"), handling))
    expect(handling).sent_in_order(Noted("asked for lamp"), Price, Noted("answered"))


def test_a_request_without_an_answer_fails_and_says_what_to_write() -> None:
    handling = context(Quote("lamp"))
    with pytest.raises(AssertionError, match=r"asked Price, .* context\.answer\(Price, \.\.\.\)"):
        run(Quoting().quote(Quote("lamp"), handling))


def test_an_answer_that_the_handler_does_not_wait_for_is_refused() -> None:
    with pytest.raises(ArgumentError, match="what the handler waits for: Priced"):
        quoted(Quoted("a quote, and no price"))


def test_no_answer_at_all_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one"):
        context().answer(Price)


def test_a_receipt_comes_by_itself() -> None:
    handling = context()

    async def note() -> None:
        await handling.hub.send(Noted("it"))

    run(note())
    expect(handling).sent(Noted("it"), count=1)


def test_one_way_messages_and_broadcasts_are_recorded() -> None:
    handling = context()

    async def note() -> None:
        await handling.hub.send_one_way(Noted("one way"))
        await handling.hub.broadcast(Noted("to all"))
        handling.try_send(Noted("now"))

    run(note())
    assert expect(handling).sent(Noted) == [Noted("one way"), Noted("to all"), Noted("now")]


def test_a_handler_of_raw_messages_can_be_scripted_by_identifier() -> None:
    handling = context()
    handling.answer(MessageIdentifier(b"Price"), lambda message: Priced(from_message(message, Price).sku, 7))

    async def ask() -> Priced:
        return await handling.ask(Price("lamp"))

    assert run(ask()) == Priced("lamp", 7)


def test_a_request_in_another_partition_is_answered_too() -> None:
    handling = context()
    handling.answer(Price, Priced("lamp", 7))

    async def ask() -> Priced:
        return await handling.ask(Price("lamp"), partition="eu")

    assert run(ask()) == Priced("lamp", 7)
    expect(handling).sent(Price("lamp"))


def test_a_context_has_the_message_that_is_handled_and_its_flow() -> None:
    message = to_message(Quote("lamp"))
    handling = context(message)
    assert handling.message == message
    assert handling.correlation_id == message.correlation_id
    handling.try_send(Noted("it"))
    (sent,) = handling.record
    assert sent.message.correlation_id == message.correlation_id


def test_requests_inherit_the_time_that_is_left() -> None:
    async def ask() -> int:
        handling = context(timeout=5)
        handling.answer(Price, Priced("lamp", 7))
        await handling.ask(Price("lamp"))
        (sent,) = handling.record
        return sent.message.ttl_ticks

    assert run(ask()) == 50_000_000


def test_a_blocking_handler_can_wait_for_an_answer() -> None:
    class Reporting(Actor):
        @handler(Quote, blocking=True)
        def report(self, quote: Quote, context: Context) -> Quoted:
            return Quoted(str(context.wait(_price(context, quote)).cents))

    handling = context()
    handling.answer(Price, Priced("lamp", 7))
    assert Reporting().report(Quote("lamp"), handling) == Quoted("7")


async def _price(context: Context, quote: Quote) -> Priced:
    return await context.ask(Price(quote.sku))


@pytest.mark.parametrize("module", [clock, contexts, expectations, networks, nodes], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_run(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0
    assert results.failed == 0
