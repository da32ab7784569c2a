"""A peer in a domain of the reference, which signs as the reference does: frame by frame."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hopline import Domain, DomainSecurity, MessageIdentifier, Node, Outcome
from tests.node.running import on_loop, until

from .frames import (
    BOTH,
    V6,
    Fields,
    address_of,
    live,
    read,
    registration,
    signature,
    without_declaration,
    write,
)
from .ours import INTERVAL, Reversing, attachment, handlers, knows, membership, our_node, rendezvous, traced
from .scripted import EHHLO, EXCEPTION, HELLO, NOTHING, RECEIPT, KinoNode

NAME, KEY = "A" * 30, b"A" * 16  # the sample of the documents
GREETING = b"\n\x06kino-2"
REVERSED = b"\n\x062-onik"

in_both = pytest.mark.parametrize("wire", BOTH)


def secured() -> DomainSecurity:
    domain = Domain(NAME, KEY, ["HELLO", "EHHLO"], algorithm="md5", profile="reference")
    return DomainSecurity([domain], clock=time.time)


def signed(message: Fields) -> Fields:
    return message.but(domain=NAME.encode(), signature=signature(message, KEY))


@asynccontextmanager
async def together(wire: str, *actors: Any) -> AsyncIterator[tuple[Node, KinoNode]]:
    """Start a server and a node of ours in the domain, and a scripted node in it."""
    async with (
        rendezvous(wire) as server,
        our_node(wire, server.address, actors=actors, security=secured()) as node,
        KinoNode(wire, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        kino.domain, kino.key = NAME.encode(), KEY
        await kino.join()
        await until(lambda: handlers(node, HELLO) == [kino.identity])
        yield node, kino


def test_the_script_signs_and_writes_the_sample_of_the_documents() -> None:
    sample = Fields(
        identity=HELLO,
        body=bytes.fromhex("0a026869"),
        trace=1,
        callback_node=b"NODE-A",
        key=7,
        hops=1,
        routing=((b"tcp://10.0.0.1:5101", b"NODE-A"),),
        callbacks=((b"", 1, EHHLO), (b"", 1, EXCEPTION)),
        callback_receiver=b"\0H",
        correlation=b"corr",
        ttl=300_000_000,
    )
    assert signed(sample).signature.hex() == "d0635428a2cd1edb470042f08ba70acb"
    meta = (
        "06000000000001000500000048454c4c4f00000000000000000100000000000000060000004e4f44452d4107000000000000001e000000"
        "41414141414141414141414141414141414141414141414141414141414110000000d0635428a2cd1edb470042f08ba70acb"
        "010001000000000021000000130000007463703a2f2f31302e302e302e313a35313031060000004e4f44452d41"
        "02000f000000000000000100050000004548484c4f180000000000000001000e0000004b494e4f2e455843455054494f4e"
        "02000000004804000000636f727200a3e111000000000200010000000000"
    )
    assert write(V6, signed(sample))[-1].hex() == meta


@in_both
@on_loop
async def test_a_signed_request_and_its_signed_answer(wire: str) -> None:
    async with together(wire) as (node, kino):
        asking = asyncio.create_task(node.hub.send(traced(GREETING), callback=MessageIdentifier(EHHLO)))
        frames = await kino.received()
        request = read(wire, frames)
        expected = live(wire, "server", "recv", "HELLO").but(
            routing=((node.uri.encode(), node.identity),),
            callback_node=node.identity,
            callback_receiver=node.hub.identity,
            correlation=request.correlation,
            key=request.key,
        )
        assert frames[1:] == [b"", *write(wire, signed(expected))]
        await kino.tell(node.identity, node.uri, kino.reply(frames, EHHLO, REVERSED))
        answer = await asking
        assert (answer.body, answer.domain) == (REVERSED, NAME)


@in_both
@pytest.mark.parametrize("is_broken", [False, True])
@on_loop
async def test_our_receipts_answers_and_exceptions_are_signed(wire: str, is_broken: bool) -> None:
    async with together(wire, Reversing(is_broken=is_broken)) as (node, kino):
        request = kino.request(callbacks=(RECEIPT, EHHLO, EXCEPTION))
        await kino.tell(node.identity, node.uri, request)
        receipt = kino.expected(node, request, RECEIPT, b"").but(callbacks=((b"", 1, RECEIPT),))
        assert (await kino.received())[1:] == [b"", *write(wire, signed(receipt))]
        frames = await kino.received()
        answer = receipt.but(
            identity=EXCEPTION if is_broken else EHHLO, body=read(wire, frames).body, callbacks=request.callbacks[1:]
        )
        assert frames[1:] == [b"", *write(wire, signed(answer))]
        assert is_broken or answer.body == REVERSED


@in_both
@on_loop
async def test_what_we_say_of_our_routes_is_signed_in_their_domain(wire: str) -> None:
    actor = Reversing()
    async with together(wire, actor) as (node, kino):
        await kino.say_plainly(b"KINO.REQCLUSTROUTES", address_of(kino.uri, kino.identity))
        routes: Any = [(node.hub.identity, []), (actor.identity, [HELLO])]
        body = registration(node.uri, node.identity, routes, attachment(node).health_uri, INTERVAL)
        announced = live(wire, "server", "send", "KINO.REGEXTROUTE").but(body=body)
        assert without_declaration(wire, await kino.registered())[1:] == [b"", *write(wire, signed(announced))]
        await node.stop()
        goodbye = live(wire, "server", "send", "KINO.UNREGNODE").but(body=address_of(node.uri, node.identity))
        assert await kino.hear(b"KINO.UNREGNODE") == NOTHING + write(wire, signed(goodbye))


@in_both
@on_loop
async def test_who_has_not_the_key_is_neither_heard_nor_answered(wire: str) -> None:
    async with together(wire, Reversing()) as (node, kino):
        refused = membership(node).traffic.refused
        for key, reason in ((b"B" * 16, "wrong_signature"), (b"", "unknown_domain")):
            kino.key = key
            await kino.say_plainly(b"KINO.UNREGNODE", kino.goodbye())
            await until(lambda: refused[reason] == 1)  # noqa: B023
        kino.key = b"B" * 16
        for count in range(2):
            await kino.tell(node.identity, node.uri, kino.request())
            await until(lambda: node.stats().outcomes[Outcome.REJECTED] == count + 1)  # noqa: B023
            kino.key = b""
        assert knows(node, kino.identity)
        kino.key = KEY
        await kino.tell(node.identity, node.uri, kino.request())
        assert read(wire, await kino.received()).identity == EHHLO
