"""Two classes of one name: an error on one node, a warning between nodes."""

from __future__ import annotations

import logging

import msgspec
import pytest

from hopline import Actor, ArgumentError, Message, Node, Payload, Request, handler, payload
from hopline.errors import SchemaConflictError
from hopline.message import MessageIdentifier, to_message
from hopline.schemas.book import MOST_ANNOUNCED, SchemaBook
from hopline.schemas.fingerprint import fingerprint
from tests.node.running import on_loop, until

PEER, OTHER_PEER = b"peer", b"other-peer"


@payload("Order", version=2)
class Order(msgspec.Struct):
    sku: int


@payload("Order", version=2)
class SameOrder(msgspec.Struct):
    sku: int


@payload("Order", version=2)
class TextOrder(msgspec.Struct):
    sku: str
    note: str = ""


@payload("Order", version=3)
class NextOrder(msgspec.Struct):
    sku: str


class Priced(Payload):
    cents: int


@payload("Priced")
class PricedInText(msgspec.Struct):
    cents: str


class Shop(Actor):
    @handler
    def price(self, order: Order) -> Priced:
        return Priced(1)


class SecondShop(Actor):
    @handler
    def price(self, order: SameOrder) -> Priced:
        return Priced(2)


class NextShop(Actor):
    @handler
    def price(self, order: NextOrder) -> Priced:
        return Priced(3)


class OddShop(Actor):
    @handler
    def price(self, order: TextOrder) -> Priced:
        return Priced(4)


class OddAnswers(Actor):
    @handler
    def price(self, order: NextOrder) -> list[PricedInText]:
        return [PricedInText("1")]


class OddPair(Actor):
    @handler
    def price(self, order: Order) -> Priced:
        return Priced(5)

    @handler(partition=b"eu")
    def price_there(self, order: TextOrder) -> Priced:
        return Priced(6)


# -- on one node -------------------------------------------------------------------------------------------------------


def test_classes_of_one_name_and_schema_can_be_used_together() -> None:
    Node(Shop(), SecondShop(), NextShop(), Shop())


def test_a_handled_class_with_another_schema_is_refused_and_both_are_named() -> None:
    with pytest.raises(SchemaConflictError) as caught:
        Node(Shop(), OddShop())
    assert str(caught.value) == (
        "payload Order/2: tests.schemas.test_book.Order and tests.schemas.test_book.TextOrder have different schemas: "
        "sku is integer in the first, text in the second; note is in the second only. Use one class, or give one of "
        "them another name or version with @payload"
    )
    assert isinstance(caught.value, ArgumentError)
    assert (caught.value.first, caught.value.second) == (Order, TextOrder)


@pytest.mark.parametrize("odd", [OddAnswers, OddShop])
def test_so_is_a_returned_one_and_the_node_stays_as_it_was(odd: type[Actor]) -> None:
    node = Node(Shop())
    with pytest.raises(SchemaConflictError):
        node.add(odd())
    assert [type(actor) for actor in node._actors.values()] == [Shop]
    node.add(SecondShop())


def test_one_actor_cannot_use_two_either_whatever_their_partitions_are() -> None:
    with pytest.raises(SchemaConflictError):
        Node(OddPair())


class Ask(Request[Priced]):
    sku: int


class Relay(Actor):
    @handler
    def ask(self, request: Ask) -> Message:  # which is the answer that the request names
        return to_message(Priced(request.sku))


def test_what_a_request_names_as_its_answer_counts_too() -> None:
    with pytest.raises(SchemaConflictError, match="Priced/1"):
        Node(OddAnswers(), Relay())


@on_loop
async def test_when_the_actors_of_a_class_are_gone_another_may_take_the_name() -> None:
    first, second = Shop(), Shop()
    async with Node(first, second) as node:
        await node.remove(first)
        with pytest.raises(SchemaConflictError):
            node.add(OddShop())
        await node.remove(second)
        node.add(OddShop())


# -- between nodes -----------------------------------------------------------------------------------------------------


def value_of(cls: type) -> int:
    value = fingerprint(cls)
    assert value is not None
    return value


def announced(cls: type, partition: bytes = b"") -> dict[MessageIdentifier, int]:
    return {MessageIdentifier(b"Order", 2, partition): value_of(cls)}


@pytest.fixture
def book() -> SchemaBook:
    book = SchemaBook()
    book.add(b"shop", [Order, Priced])
    return book


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


def test_a_peer_with_another_schema_is_reported_once_with_both_fingerprints(
    book: SchemaBook, caplog: pytest.LogCaptureFixture
) -> None:
    book.compare(PEER, announced(TextOrder))
    book.compare(PEER, announced(TextOrder, b"eu"))  # the same message in another partition
    book.compare(PEER, announced(NextOrder))  # and changed since
    (warning,) = warnings(caplog)
    assert warning.startswith(
        f"node peer has another schema of Order/2: its fingerprint is {value_of(TextOrder):08x}, "
        f"here it is {value_of(Order):08x}."
    )
    book.compare(OTHER_PEER, announced(TextOrder))
    assert len(warnings(caplog)) == 2
    book.forget(PEER)
    book.compare(PEER, announced(TextOrder))
    assert len(warnings(caplog)) == 3


def test_a_peer_with_the_same_schema_or_another_message_is_not(
    book: SchemaBook, caplog: pytest.LogCaptureFixture
) -> None:
    book.compare(PEER, announced(SameOrder))
    book.compare(PEER, {MessageIdentifier(b"Order", 3): value_of(TextOrder)})
    book.compare(PEER, {MessageIdentifier(b"Unknown"): 7})
    assert warnings(caplog) == []


@pytest.mark.parametrize("is_sent_first", [True, False])
def test_what_a_node_only_sends_is_compared_whichever_comes_first(
    is_sent_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    book = SchemaBook()
    if is_sent_first:
        assert book.sent[Order]
    book.compare(PEER, announced(TextOrder))
    assert book.sent[Order]
    assert len(warnings(caplog)) == 1


def test_what_a_peer_has_announced_is_bounded_though_it_announces_ever_new_messages(book: SchemaBook) -> None:
    for number in range(2 * MOST_ANNOUNCED):
        book.compare(PEER, {MessageIdentifier(b"%d" % number): 7})
        assert 0 < len(book._announced[PEER]) <= MOST_ANNOUNCED


def test_the_fingerprint_of_a_message_is_the_same_in_all_its_partitions(book: SchemaBook) -> None:
    assert book.fingerprint(MessageIdentifier(b"Order", 2, b"eu")) == value_of(Order)
    assert book.fingerprint(MessageIdentifier(b"Order", 3)) is None


@on_loop
async def test_a_hub_tells_its_node_once_which_classes_it_sends() -> None:
    async with Node(Shop()) as node:
        for _ in range(2):
            assert await node.hub.ask(Order(1), Priced) == Priced(1)
            await node.hub.send_one_way(Order(1))
        assert list(node.schemas.sent) == [Order]
        await until(lambda: not node.stats().waiting)
