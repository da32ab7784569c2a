"""A request says what answers it: `ask` waits for that, and returns it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pydantic
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from hopline import (
    JSON,
    Actor,
    ActorError,
    AnsweredBy,
    AnswerTimeoutError,
    ArgumentError,
    Context,
    DeliveryError,
    Message,
    MessageIdentifier,
    Payload,
    Request,
    handler,
    payload,
    to_message,
)

from .running import Clock, on_loop, started


class Greeting(Payload):
    text: str


class Farewell(Payload):
    text: str


class Greet(Request[Greeting]):
    name: str


class Leave(Request[Greeting | Farewell]):
    name: str


class Relay(Request[Greeting]):
    name: str


@payload
@dataclass(frozen=True)
class Priced:
    cents: int


@payload("Price")
@dataclass(frozen=True)
class Price(AnsweredBy[Priced]):
    sku: int


@payload
class Stock(pydantic.BaseModel):
    pieces: int
    where: bytes


@payload(serializer=JSON, identity="Count")
class Count(pydantic.BaseModel, AnsweredBy[Stock]):
    sku: int
    codes: list[int] = []


@payload
class Blob(bytes):
    pass


@payload
class Load(bytes, AnsweredBy[Blob]):
    pass


Text = payload("TEXT")(StringValue)


class Service(Actor):
    @handler
    def greet(self, greet: Greet) -> Greeting:
        if not greet.name:
            raise ValueError("nobody to greet")
        return Greeting(f"Hello, {greet.name}!")

    @handler
    def leave(self, leave: Leave) -> Iterator[Greeting | Farewell]:
        yield Farewell(f"Goodbye, {leave.name}!")
        yield Greeting(f"Hello again, {leave.name}!")

    @handler
    async def relay(self, relay: Relay, context: Context) -> Greeting:
        greeting = await context.ask(Greet(relay.name))
        return Greeting(f"{greeting.text} {context.message.ttl_ticks > 0}")

    @handler
    def price(self, price: Price) -> Priced:
        return Priced(price.sku * 100)

    @handler
    def count(self, count: Count) -> Stock:
        return Stock(pieces=sum(count.codes), where=b"\xff")

    @handler
    def load(self, load: Load) -> Blob:
        return Blob(load[::-1])

    @handler
    def text(self, text: StringValue) -> Greeting:
        return Greeting(text.value)


class European(Actor):
    @handler(Greet, partition="eu")
    def greet(self, greet: Greet) -> Greeting:
        return Greeting(f"Bonjour, {greet.name} !")

    @handler(MessageIdentifier.of("Greet", version=2))
    def new_greet(self, message: Message) -> Greeting:
        return Greeting("version 2")


@on_loop
async def test_the_answer_is_of_the_class_that_the_request_names() -> None:
    async with started(Service()) as node:
        assert await node.hub.ask(Greet("Ada")) == Greeting("Hello, Ada!")
        assert await node.hub.ask(Price(3)) == Priced(300)
        assert await node.hub.ask(Count(sku=1, codes=[2, 3])) == Stock(pieces=5, where=b"\xff")
        assert await node.hub.ask(Load(b"abc")) == Blob(b"cba")


@on_loop
async def test_of_several_answers_the_first_counts() -> None:
    async with started(Service()) as node:
        assert await node.hub.ask(Leave("Ada")) == Farewell("Goodbye, Ada!")


@on_loop
async def test_a_callback_asks_for_something_else() -> None:
    async with started(Service()) as node:
        assert await node.hub.ask(Leave("Ada"), [Greeting, Farewell]) == Farewell("Goodbye, Ada!")
        answer = await node.hub.ask(to_message(Greet("Ada")), callback=MessageIdentifier.of("Greeting"))
        assert answer.identity == b"Greeting"
        assert await node.hub.ask(Text(value="protobuf"), callback=Greeting) == Greeting("protobuf")


@on_loop
async def test_errors_are_raised_as_with_a_callback() -> None:
    async with started(Service()) as node:
        with pytest.raises(ActorError, match="nobody to greet"):
            await node.hub.ask(Greet(""))
        with pytest.raises(AnswerTimeoutError):
            await node.hub.ask(Greet("Ada"), timeout=0)
        with pytest.raises(DeliveryError, match="unroutable"):
            await node.hub.ask(Greet("Ada"), partition="mars")


@on_loop
async def test_a_handler_asks_within_the_time_of_its_caller() -> None:
    clock = Clock()
    async with started(Service(), clock=clock) as node:
        assert await node.hub.ask(Relay("Ada"), timeout=30) == Greeting("Hello, Ada! True")


@on_loop
async def test_partition_and_version_are_arguments() -> None:
    async with started(Service(), European()) as node:
        assert await node.hub.ask(Greet("Ada"), partition="eu") == Greeting("Bonjour, Ada !")
        assert await node.hub.ask(Greet("Ada"), partition=b"eu") == Greeting("Bonjour, Ada !")
        assert await node.hub.ask(Greet("Ada"), version=2) == Greeting("version 2")
        assert await node.hub.send(Greet("Ada"), callback=Greeting, version=2) == Greeting("version 2")
        assert await node.hub.try_send(Greet("Ada"), callback=Greeting, version=2) == Greeting("version 2")
        message = to_message(Greet("Ada"), partition="eu")
        assert await node.hub.ask(message, Greeting, partition="", version=2) == Greeting("version 2")


@on_loop
async def test_a_stream_knows_the_answers_too() -> None:
    async with started(Service(), Service()) as node:
        texts = [greeting.text async for greeting in node.hub.stream(Greet("Ada"), limit=2, timeout=30)]
        assert texts == ["Hello, Ada!"] * 2


@on_loop
async def test_what_is_no_request_cannot_be_asked_without_a_callback() -> None:
    async with started(Service()) as node:
        with pytest.raises(
            ArgumentError, match=r"callback: expected the kind of the answer, because Greeting is no Request"
        ):
            await node.hub.ask(Greeting("not a request"))  # type: ignore[call-overload]
