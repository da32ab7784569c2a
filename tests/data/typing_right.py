"""Programs that are right: type checkers accept them, and find the types that are asserted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

import msgspec
import pydantic
from google.protobuf.wrappers_pb2 import StringValue

from hopline import (
    PROTOBUF,
    RAW,
    Actor,
    ActorError,
    AnsweredBy,
    Context,
    DeadLetter,
    Message,
    MessageIdentifier,
    Node,
    Payload,
    Request,
    Retry,
    connect,
    handler,
    payload,
    to_message,
)
from hopline.node import CallNext, MiddlewareContext


class Greeting(Payload):
    text: str


class Farewell(Payload):
    text: str


class Greet(Request[Greeting]):
    name: str


class Meet(Request[Greeting | Farewell]):
    name: str


@payload
@dataclass(frozen=True)
class Priced:
    cents: int


@payload("PRICE", version=2, partition="eu")
@dataclass(frozen=True)
class Price(AnsweredBy[Priced]):
    sku: int


@payload
class Stock(pydantic.BaseModel):
    pieces: int


@payload
class Count(pydantic.BaseModel, AnsweredBy[Stock]):
    sku: int


@payload
class Note(msgspec.Struct):
    text: str


@payload("BLOB", serializer=RAW)
class Blob(bytes):
    pass


Text = payload("TEXT", serializer=PROTOBUF)(StringValue)


class Service(Actor):
    @handler
    def greet(self, greet: Greet) -> Greeting:
        return Greeting(greet.name)

    @handler
    async def meet(self, meet: Meet, context: Context) -> Greeting | Farewell:
        assert_type(await context.ask(Greet(meet.name), retry=Retry(on=(ActorError,))), Greeting)
        assert_type(await context.ask(Price(1), partition="us", version=3), Priced)
        assert_type(context.attempt, int)
        await context.send(Note("on the way"), partition="eu")
        return Farewell(meet.name)

    @handler(Price, partition="us")
    async def price(self, price: Price) -> AsyncIterator[Priced]:
        yield Priced(price.sku)


def keep(letter: DeadLetter) -> None:
    assert_type(letter.message, Message)


async def main() -> None:
    async with Node(Service(), identity="greeter", on_dead_letter=keep) as node:
        hub = node.hub
        assert_type(await hub.ask(Greet("Ada")), Greeting)
        assert_type(await hub.ask(Meet("Ada"), timeout=timedelta(seconds=3)), Greeting | Farewell)
        assert_type(await hub.ask(Price(1)), Priced)
        assert_type(await hub.ask(Count(sku=1)), Stock)
        assert_type(await hub.ask(Meet("Ada"), Greeting), Greeting)
        assert_type(await hub.ask(Note("Ada"), callback=Greeting), Greeting)
        assert_type(await hub.ask(Note("Ada"), (Greeting, Farewell)), Greeting | Farewell)
        assert_type(await hub.ask(to_message(Greet("Ada")), MessageIdentifier.of("Greeting")), Message)
        assert_type(await hub.send(Greet("Ada"), callback=Greeting, partition=b"eu"), Greeting)
        assert_type(await hub.send(StringValue(value="Ada"), callback=StringValue), StringValue)
        assert_type(await hub.send(Blob(b"raw"), callback=Blob), Blob)
        assert_type(await hub.try_send(Greet("Ada"), callback=Greeting), Greeting)
        async for greeting in hub.stream(Greet("Ada"), limit=1):
            assert_type(greeting, Greeting)
        await hub.send(Note("Ada"))
        await hub.send_one_way(Count(sku=1), partition="eu")
        await hub.broadcast(Price(1), version=1)


def script() -> None:
    with connect(node=Node(Service())) as client:
        assert_type(client.ask(Greet("Ada")), Greeting)
        assert_type(client.ask(Meet("Ada"), timeout=3), Greeting | Farewell)
        assert_type(client.ask(Note("Ada"), callback=Greeting), Greeting)
        assert_type(client.ask(to_message(Greet("Ada")), MessageIdentifier.of("Greeting")), Message)
        client.send(Note("Ada"), partition="eu")
        for greeting in client.stream(Greet("Ada"), limit=1):
            assert_type(greeting, Greeting)


class Timing:
    async def __call__(self, context: MiddlewareContext, call_next: CallNext) -> object:
        assert_type(context.actor, Actor)
        return await call_next()


async def refuse(context: MiddlewareContext, call_next: CallNext) -> None:
    raise PermissionError(context.handler)


class Lively(Actor):
    async def on_start(self, node: Node) -> None:
        assert_type(await node.hub.ask(Greet("Ada")), Greeting)

    async def on_stop(self, node: Node) -> None:
        await node.add(Service())


class OwnNode(Node):
    pass


@asynccontextmanager
async def lifespan(node: Node) -> AsyncIterator[int]:
    yield 1


assert_type(OwnNode.from_config("hopline.toml", actors=[Lively()], middleware=[Timing()]), OwnNode)
Node(Lively(), middleware=[Timing(), refuse], lifespan=lifespan)
