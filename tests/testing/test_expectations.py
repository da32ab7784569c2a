"""Expectations: what they accept, what they return, and what they show when they do not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hopline import Actor, ArgumentError, Node, Payload, handler, to_message
from hopline.testing import FakeContext, context, expect, node, run
from tests.testing.shop import Noted, Price, Priced, Pricing

LAMP = Priced("lamp", 2990)
CHAIR = Priced("chair", 8900)


@pytest.fixture
def handling() -> FakeContext:
    handling = context()
    for content in (Noted("begin"), LAMP, CHAIR, Noted("end")):
        handling.try_send(content)
    return handling


def test_a_class_finds_every_payload_of_it(handling: FakeContext) -> None:
    assert expect(handling).sent(Priced) == [LAMP, CHAIR]


def test_a_payload_finds_its_equals(handling: FakeContext) -> None:
    assert expect(handling).sent(LAMP) == [LAMP]


def test_a_condition_chooses(handling: FakeContext) -> None:
    assert expect(handling).sent(Priced, lambda priced: priced.cents > 5000) == [CHAIR]


def test_a_payload_in_another_partition_is_found() -> None:
    handling = context()
    handling.try_send(to_message(LAMP, partition=b"eu"))
    assert expect(handling).sent(LAMP, count=1) == [LAMP]


FAILURES: list[tuple[Callable[[FakeContext], object], str]] = [
    (lambda sent: expect(sent).sent(Price), "expected at least one Price, found 0"),
    (lambda sent: expect(sent).sent(Priced, count=3), "expected 3 Priced, found 2"),
    (lambda sent: expect(sent).sent(Priced("lamp", 1)), "expected at least one Priced(sku='lamp', cents=1), found 0"),
    (
        lambda sent: expect(sent).sent(Priced, lambda priced: priced.cents < 0),
        "expected at least one Priced that the condition holds for, found 0",
    ),
    (lambda sent: expect(sent).not_sent(LAMP), "expected no Priced(sku='lamp', cents=2990), found 1"),
    (lambda sent: expect(sent).not_sent(Priced), "expected no Priced, found 2"),
    (lambda sent: expect(sent).nothing_sent(), "expected nothing"),
    (
        lambda sent: expect(sent).sent_in_order(CHAIR, LAMP),
        "expected Priced(sku='chair', cents=8900), then Priced(sku='lamp', cents=2990), "
        "but no Priced(sku='lamp', cents=2990) as number 2",
    ),
    (
        lambda sent: expect(sent).sent_in_order(LAMP, LAMP),
        "expected Priced(sku='lamp', cents=2990), then Priced(sku='lamp', cents=2990), "
        "but no Priced(sku='lamp', cents=2990) as number 2",
    ),
]
SHOWN = """; what was sent:
  1. Noted(text='begin')
  2. Priced(sku='lamp', cents=2990)
  3. Priced(sku='chair', cents=8900)
  4. Noted(text='end')"""


@pytest.mark.parametrize(("fails", "problem"), FAILURES)
def test_a_failure_shows_what_was_sent_instead(
    handling: FakeContext, fails: Callable[[FakeContext], object], problem: str
) -> None:
    with pytest.raises(AssertionError) as failure:
        fails(handling)
    assert str(failure.value) == problem + SHOWN


def test_the_order_may_have_gaps(handling: FakeContext) -> None:
    expect(handling).sent_in_order(Noted, CHAIR, Noted("end"))


def test_what_was_not_sent_is_accepted(handling: FakeContext) -> None:
    expect(handling).not_sent(Price)
    expect(handling).not_sent(Priced, lambda priced: priced.cents == 1)


def test_after_clearing_nothing_was_sent(handling: FakeContext) -> None:
    handling.record.clear()
    expect(handling).nothing_sent()
    with pytest.raises(AssertionError, match=r"what was sent:\n  nothing"):
        expect(handling).sent(Priced)


def test_a_node_records_requests_answers_and_failures() -> None:
    async def ask() -> None:
        async with node(Pricing()) as pricing:
            assert await pricing.hub.ask(Price("lamp"), timeout=100) == LAMP
            expect(pricing).sent_in_order(Price("lamp"), LAMP)
            await pricing.hub.send_one_way(Price("sofa"))
            with pytest.raises(AssertionError) as failure:
                expect(pricing).nothing_sent()
            assert str(failure.value).splitlines()[1:] == [
                "  1. Price(sku='lamp')",
                "  2. Priced(sku='lamp', cents=2990)",
                "  3. Price(sku='sofa')",
            ]

    run(ask())


def test_a_failed_handler_is_shown_as_an_error() -> None:
    class Failing(Actor):
        @handler(Price)
        def price(self, price: Price) -> Priced:
            raise KeyError(price.sku)

    async def ask() -> None:
        async with node(Failing()) as failing:
            with pytest.raises(Exception, match="KeyError"):
                await failing.hub.ask(Price("sofa"))
            with pytest.raises(AssertionError, match=r"2\. an error: KeyError: 'sofa'"):
                expect(failing).sent(Priced)

    run(ask())


def test_actors_that_are_added_later_are_known_too() -> None:
    async def ask() -> None:
        async with node() as pricing:
            pricing.add(Pricing())
            await pricing.hub.ask(Price("lamp"), timeout=100)
            with pytest.raises(AssertionError, match=r"2\. Priced\(sku='lamp', cents=2990\)"):
                expect(pricing).sent(Noted)

    run(ask())


def test_a_message_of_an_unknown_class_is_shown_by_its_content() -> None:
    handling = context()
    message = to_message(LAMP)
    handling.try_send(message)
    with pytest.raises(AssertionError, match=r'1\. Priced/1 \{ "sku": "lamp", "cents": 2990 \}'):
        expect(handling).sent(Noted)


def test_long_messages_are_cut() -> None:
    handling = context()
    handling.try_send(Noted("x" * 1000))
    with pytest.raises(AssertionError) as failure:
        expect(handling).sent(Price)
    assert len(str(failure.value).splitlines()[1]) < 250


def test_a_node_that_records_nothing_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"hopline\.testing\.node"):
        expect(Node())


def test_only_payloads_can_be_expected() -> None:
    class NoPayload: ...

    with pytest.raises(ArgumentError, match="payload"):
        expect(context()).sent(NoPayload)


def test_the_types_of_payloads_are_kept(handling: FakeContext) -> None:
    cents: int = expect(handling).sent(Priced)[0].cents
    text: str = expect(handling).sent(Noted("end"))[0].text
    assert (cents, text) == (2990, "end")


class Unrelated(Payload):
    """A payload that nobody sends."""


def test_the_first_missing_one_is_named(handling: FakeContext) -> None:
    with pytest.raises(AssertionError, match="but no Unrelated as number 2"):
        expect(handling).sent_in_order(LAMP, Unrelated, CHAIR)
