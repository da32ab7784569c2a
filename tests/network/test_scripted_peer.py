"""A peer that shares no code with us registers, is found, asked, and answers, and asks us: frame by frame."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import zmq

from hopline import Actor, ActorError, MessageIdentifier, Node, NodeSettings, Outcome, RendezvousServer
from tests.node.running import on_loop, until

from .frames import (
    ANNOUNCEMENT,
    BOTH,
    V5,
    V6,
    address_of,
    discovery,
    every_live_message,
    exception_document,
    exception_fields,
    heartbeat,
    live,
    live_frames,
    read,
    registration,
    timespan,
    unregistration,
    without_declaration,
    write,
)
from .ours import (
    INTERVAL,
    Ehhlo,
    Hello,
    Listening,
    Reversing,
    attachment,
    handlers,
    knows,
    membership,
    our_node,
    rendezvous,
    tables,
    traced,
)
from .scripted import EHHLO, EXCEPTION, HELLO, RECEIPT, KinoNode, guid, receive
from .transports import each_transport as each_transport

GUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GREETING = b"\n\x06kino-2"
REVERSED = b"\n\x062-onik"

pytestmark = pytest.mark.usefixtures("each_transport")
in_both = pytest.mark.parametrize("wire", BOTH)


@asynccontextmanager
async def together(
    wire: str,
    *,
    ours: str | None = None,
    actors: tuple[Actor, ...] = (),
    joined: bool = True,
    settings: NodeSettings | None = None,
    **peer: Any,
) -> AsyncIterator[tuple[Node, KinoNode, RendezvousServer]]:
    """Start a server and a node of ours, and a scripted node that both have heard of each other."""
    async with (
        rendezvous(ours or wire) as server,
        our_node(ours or wire, server.address, actors=actors, settings=settings) as node,
        KinoNode(wire, server.address.broadcast_uri, server.address.unicast_uri, **peer) as kino,
    ):
        if joined:
            await kino.join()
            await until(lambda: knows(node, kino.identity))
        yield node, kino, server


def from_us(node: Node, wire: str, frames: list[bytes], expected: Any) -> None:
    """Check what a peer's ROUTER received from our node: the envelope, and every frame behind it."""
    assert len(frames[0]) == 5
    assert frames[0][0] == 0  # the id that libzmq gave to our nameless socket
    if expected.identity == ANNOUNCEMENT:
        frames = without_declaration(wire, frames)
    assert frames[1:] == [b"", *write(wire, expected)]


def our_hop(node: Node) -> tuple[bytes, bytes]:
    return node.uri.encode(), node.identity


# -- the script itself -------------------------------------------------------------------------------------------------


def test_the_script_writes_what_the_reference_wrote() -> None:
    for wire, frames in every_live_message():
        written = write(wire, read(wire, frames))
        assert frames[-len(written) :] == written
        assert all(len(frame) in (0, 5, 36) for frame in frames[: -len(written)])


@in_both
def test_the_script_makes_the_bodies_that_the_reference_made(wire: str) -> None:
    server = read(wire, live_frames(wire, "server", "send", "EHHLO")).routing[-1][1]
    uri, health_uri = "tcp://10.77.0.1:6100", "tcp://10.77.0.1:6110"
    announced = live(wire, "server", "send", "KINO.REGEXTROUTE").body
    actor = announced[announced.index(b"\n%\x01") + 2 :][:37]
    assert registration(uri, server, [(actor, [HELLO])], health_uri, 5000) == announced
    assert heartbeat(5000, server, health_uri) == live(wire, "server", "send", "KINO.HEARTBEAT").body
    assert heartbeat(2000) == live(wire, "rendezvous", "send", "KINO.HEARTBEAT").body
    assert address_of(uri, server) == live(wire, "server", "send", "KINO.REQCLUSTROUTES").body
    assert address_of(uri, server) == live(wire, "server", "send", "KINO.UNREGNODE").body
    searched = live(wire, "rendezvous", "recv", "KINO.DISCOVMSGROUTE").body
    assert discovery("tcp://10.77.0.1:6200", searched[2:38], HELLO) == searched
    assert timespan(500).hex() == "08e8071004"


# -- asking the peer ---------------------------------------------------------------------------------------------------


@in_both
@on_loop
async def test_the_peer_is_found_gets_a_request_and_answers(wire: str) -> None:
    async with together(wire) as (node, kino, _):
        asking = asyncio.create_task(node.hub.send(traced(GREETING), callback=MessageIdentifier(EHHLO)))
        frames = await kino.received()
        request = read(wire, frames)
        assert GUID.fullmatch(request.correlation)
        assert request.key > 0
        expected = live(wire, "server", "recv", "HELLO").but(
            routing=(our_hop(node),),
            callback_node=node.identity,
            callback_receiver=node.hub.identity,
            correlation=request.correlation,
            key=request.key,
        )
        from_us(node, wire, frames, expected)
        assert expected.hops == 1
        assert expected.callbacks == ((b"", 1, EHHLO), (b"", 1, EXCEPTION))
        assert (expected.domain, expected.signature, expected.receiver, expected.receiver_node) == (b"",) * 4

        await kino.tell(node.identity, node.uri, kino.reply(frames, EHHLO, REVERSED))
        answer = await asking
        assert (answer.body, answer.correlation_id, answer.hops) == (REVERSED, request.correlation, 1)
        assert [(hop.uri.encode(), hop.identity) for hop in answer.routing] == [
            our_hop(node),
            (kino.uri.encode(), kino.identity),
        ]


@in_both
@on_loop
async def test_a_typed_request_says_its_lifetime_and_no_trace(wire: str) -> None:
    async with together(wire) as (node, kino, _):
        asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo, timeout=4.0))
        frames = await kino.received()
        request = read(wire, frames)
        assert (request.trace, request.hops, request.callbacks) == (0, 1, ((b"", 1, EHHLO), (b"", 1, EXCEPTION)))
        assert 0 < request.ttl <= 4 * 10_000_000
        await kino.tell(node.identity, node.uri, kino.reply(frames, EHHLO, REVERSED))
        assert await asking == REVERSED


@in_both
@on_loop
async def test_the_peer_confirms_a_receipt(wire: str) -> None:
    async with together(wire) as (node, kino, _):
        asking = asyncio.create_task(node.hub.send(Hello(GREETING)))
        frames = await kino.received()
        assert (b"", 1, RECEIPT) in read(wire, frames).callbacks
        await kino.tell(node.identity, node.uri, kino.receipt(frames))
        await asking


@in_both
@on_loop
async def test_the_peers_exception_is_raised_whatever_zeros_stand_behind_it(wire: str) -> None:
    async with together(wire) as (node, kino, _):
        asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
        body = exception_document(
            padding=173, StackTrace="   at Kino", Message="Ünheard of", ExceptionType="System.InvalidOperationException"
        )
        await kino.tell(node.identity, node.uri, kino.reply(await kino.received(), EXCEPTION, body))
        with pytest.raises(ActorError, match=r"System\.InvalidOperationException: Ünheard of"):
            await asking


@in_both
@on_loop
async def test_a_broadcast_reaches_the_peer_once(wire: str) -> None:
    actor = Listening()
    async with together(wire, actors=(actor,)) as (node, kino, _):
        await node.hub.broadcast(Hello(GREETING))
        frames = await kino.received()
        message = read(wire, frames)
        expected = live(wire, "server", "recv", "HELLO").but(
            distribution=1,
            trace=0,
            routing=(our_hop(node),),
            callback_node=b"",
            callback_receiver=b"",
            callbacks=(),
            key=0,
            correlation=message.correlation,
        )
        from_us(node, wire, frames, expected)
        await until(lambda: len(actor.seen) == 1)


@in_both
@on_loop
async def test_one_who_is_not_known_yet_is_looked_for_and_found(wire: str) -> None:
    async with together(wire, joined=False) as (node, kino, _):
        await kino.join(routes=[(kino.hub, [])])
        await until(lambda: knows(node, kino.identity))
        asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
        search = await kino.hear(b"KINO.DISCOVMSGROUTE")
        expected = live(wire, "rendezvous", "recv", "KINO.DISCOVMSGROUTE").but(
            body=discovery(node.uri, node.identity, HELLO)
        )
        assert search == [b"", b"", *write(wire, expected)]
        await kino.announce()
        await kino.tell(node.identity, node.uri, kino.reply(await kino.received(), EHHLO, REVERSED))
        assert await asking == REVERSED


# -- being asked by the peer -------------------------------------------------------------------------------------------


@in_both
@on_loop
async def test_the_peer_asks_our_actor_and_gets_the_answer(wire: str) -> None:
    actor = Reversing()
    async with together(wire, actors=(actor,)) as (node, kino, _):
        request = kino.request()
        await kino.tell(node.identity, node.uri, request)
        frames = await kino.received()
        expected = live(wire, "server", "send", "EHHLO").but(
            body=REVERSED,
            receiver=kino.hub,
            receiver_node=kino.identity,
            callback_node=kino.identity,
            callback_receiver=kino.hub,
            key=request.key,
            correlation=request.correlation,
            callbacks=request.callbacks,  # in their own order: we turn nothing round
            routing=(*request.routing, our_hop(node)),
        )
        from_us(node, wire, frames, expected)
        assert expected.hops == 1
        assert actor.seen[0].hops == 1


@in_both
@on_loop
async def test_a_request_for_this_node_or_this_actor_is_answered_too(wire: str) -> None:
    actor = Reversing()
    async with together(wire, actors=(actor,)) as (node, kino, _):
        for receiver in (b"", actor.identity):
            request = kino.request().but(receiver_node=node.identity, receiver=receiver)
            await kino.tell(node.identity, node.uri, request)
            reply = read(wire, await kino.received())
            assert (reply.identity, reply.body, reply.correlation) == (EHHLO, REVERSED, request.correlation)


@in_both
@on_loop
async def test_the_peer_gets_a_receipt_before_the_answer_and_the_actor_sees_nothing_of_it(wire: str) -> None:
    actor = Reversing()
    async with together(wire, actors=(actor,)) as (node, kino, _):
        request = kino.request(callbacks=(EHHLO, RECEIPT, EXCEPTION))
        await kino.tell(node.identity, node.uri, request)
        receipt = live(wire, "server", "send", "EHHLO").but(
            identity=RECEIPT,
            body=b"",
            receiver=kino.hub,
            receiver_node=kino.identity,
            callback_node=kino.identity,
            callback_receiver=kino.hub,
            key=request.key,
            correlation=request.correlation,
            callbacks=((b"", 1, RECEIPT),),
            routing=(*request.routing, our_hop(node)),
        )
        from_us(node, wire, await kino.received(), receipt)
        answer = receipt.but(identity=EHHLO, body=REVERSED, callbacks=((b"", 1, EHHLO), (b"", 1, EXCEPTION)))
        from_us(node, wire, await kino.received(), answer)
        assert [one.identity for one in actor.seen[0].callback_point] == [EHHLO, EXCEPTION]


@in_both
@on_loop
async def test_the_peer_is_told_what_our_actor_raised(wire: str) -> None:
    async with together(wire, actors=(Reversing(is_broken=True),)) as (node, kino, _):
        request = kino.request()
        await kino.tell(node.identity, node.uri, request)
        frames = await kino.received()
        report = read(wire, frames)
        expected = live(wire, "server", "send", "EHHLO").but(
            identity=EXCEPTION,
            body=report.body,
            receiver=kino.hub,
            receiver_node=kino.identity,
            callback_node=kino.identity,
            callback_receiver=kino.hub,
            key=request.key,
            correlation=request.correlation,
            callbacks=request.callbacks,
            routing=(*request.routing, our_hop(node)),
        )
        from_us(node, wire, frames, expected)
        fields = exception_fields(report.body)
        inner = fields.pop("Exception")  # all that a reader of 2018 looks at
        assert fields == {"Message": "no such greeting", "ExceptionType": "LookupError", "StackTrace": ""}
        assert {key: value for key, value in inner.items() if value is not None} == {
            "ClassName": "System.Exception",
            "Message": "no such greeting [LookupError]",
            "RemoteStackIndex": 0,
            "HResult": -2146233088,
        }
        assert len(inner) == 12


@in_both
@on_loop
async def test_a_broadcast_of_the_peer_is_heard_once_and_never_sent_on(wire: str) -> None:
    actors = Listening(), Listening(), Reversing()
    async with together(wire, actors=actors, settings=NodeSettings(discovery_timeout=0.1)) as (node, kino, _):
        broadcast = kino.request(callbacks=()).but(distribution=1, callback_node=b"", callback_receiver=b"", key=0)
        await kino.tell(node.identity, node.uri, broadcast)
        await kino.tell(
            node.identity, node.uri, kino.request().but(receiver_node=node.identity, receiver=actors[2].identity)
        )
        assert read(wire, await kino.received()).identity == EHHLO
        await until(lambda: all(len(actor.seen) == 1 for actor in actors[:2]))
        assert [message.distribution for message in actors[2].seen] == [1, 0]
        assert node.stats().outcomes[Outcome.SENT] == 1


@in_both
@on_loop
async def test_a_message_that_nobody_here_handles_is_disowned_and_looked_for(wire: str) -> None:
    async with together(wire, joined=False, settings=NodeSettings(discovery_timeout=0.1)) as (node, kino, _):
        await kino.join(routes=[(kino.hub, [])])
        await until(lambda: knows(node, kino.identity))
        await kino.tell(node.identity, node.uri, kino.request())
        searched = await kino.hear(b"KINO.DISCOVMSGROUTE")
        plain = live(wire, "server", "send", "KINO.UNREGNODE")
        body = discovery(node.uri, node.identity, HELLO)
        assert searched == [b"", b"", *write(wire, plain.but(identity=b"KINO.DISCOVMSGROUTE", body=body))]
        disowned = await kino.hear(b"KINO.UNREGMSGROUTE")
        body = unregistration(node.uri, node.identity, [(b"", [HELLO])])
        assert disowned == [b"", b"", *write(wire, plain.but(identity=b"KINO.UNREGMSGROUTE", body=body))]


@in_both
@on_loop
async def test_a_message_for_a_hub_that_is_not_here_is_disowned_with_a_contract_that_means_nothing(wire: str) -> None:
    async with together(wire, settings=NodeSettings(discovery_timeout=0.1)) as (node, kino, _):
        hub = b"\x00" + guid()
        await kino.tell(
            node.identity, node.uri, kino.request(callbacks=()).but(receiver_node=node.identity, receiver=hub)
        )
        plain = live(wire, "server", "send", "KINO.UNREGNODE")
        searched = plain.but(identity=b"KINO.DISCOVMSGROUTE", body=discovery(node.uri, node.identity, receiver=hub))
        assert await kino.hear(b"KINO.DISCOVMSGROUTE") == [b"", b"", *write(wire, searched)]
        # The reference gives up on the whole message at a hub without any.
        body = unregistration(node.uri, node.identity, [(hub, [b"KINO.UNREGMSGROUTE"])])
        disowned = plain.but(identity=b"KINO.UNREGMSGROUTE", body=body)
        assert await kino.hear(b"KINO.UNREGMSGROUTE") == [b"", b"", *write(wire, disowned)]


# -- routes ------------------------------------------------------------------------------------------------------------


def our_registration(node: Node, *routes: tuple[bytes, list[bytes]]) -> bytes:
    return registration(node.uri, node.identity, routes, attachment(node).health_uri, INTERVAL)


@in_both
@on_loop
async def test_who_asks_for_routes_gets_ours_and_nobody_else_does(wire: str) -> None:
    actor = Reversing()
    async with together(wire, actors=(actor,)) as (node, kino, _):
        await kino.say_plainly(b"KINO.REQCLUSTROUTES", address_of(kino.uri, kino.identity))
        body = our_registration(node, (node.hub.identity, []), (actor.identity, [HELLO]))
        expected = live(wire, "server", "send", "KINO.REGEXTROUTE").but(body=body)
        from_us(node, wire, await kino.registered(), expected)  # it was told before it could ask
        at = time.monotonic()
        await until(lambda: time.monotonic() > at + 0.5)  # not again within a moment
        await kino.say_plainly(b"KINO.REQCLUSTROUTES", address_of(kino.uri, kino.identity))
        from_us(node, wire, await kino.registered(), expected)


@in_both
@on_loop
async def test_who_looks_for_a_message_or_a_hub_of_ours_is_told(wire: str) -> None:
    actor = Reversing()
    async with together(wire, actors=(actor,)) as (node, kino, _):
        plain = live(wire, "server", "send", "KINO.REGEXTROUTE")
        await kino.registered()  # everything, since it is new
        await kino.say_plainly(b"KINO.DISCOVMSGROUTE", kino.search(identity=HELLO))
        from_us(node, wire, await kino.registered(), plain.but(body=our_registration(node, (actor.identity, [HELLO]))))
        await kino.say_plainly(b"KINO.DISCOVMSGROUTE", kino.search(receiver=node.hub.identity))
        from_us(node, wire, await kino.registered(), plain.but(body=our_registration(node, (node.hub.identity, []))))


@in_both
@on_loop
async def test_a_search_for_what_we_do_not_have_is_not_answered(wire: str) -> None:
    async with together(wire, actors=(Reversing(),)) as (node, kino, _):
        await kino.say_plainly(b"KINO.DISCOVMSGROUTE", kino.search(identity=b"UNHEARD"))
        await kino.say_plainly(b"KINO.DISCOVMSGROUTE", kino.search(receiver=kino.hub))
        await kino.tell(node.identity, node.uri, kino.request())
        assert read(wire, await kino.received()).identity == EHHLO


@in_both
@on_loop
async def test_routes_that_come_straight_to_our_frontend_count_as_broadcast_ones(wire: str) -> None:
    async with together(wire, joined=False) as (node, kino, _):
        kino.beat()
        body = registration(kino.uri, kino.identity, kino.routes(), kino.health_uri, kino.interval)
        await kino.tell(node.identity, node.uri, live(wire, "server", "send", "KINO.REGEXTROUTE").but(body=body))
        await until(lambda: handlers(node, HELLO) == [kino.identity])
        await kino.tell(
            node.identity, node.uri, live(wire, "server", "send", "KINO.UNREGNODE").but(body=kino.goodbye())
        )
        await until(lambda: not knows(node, kino.identity))


@in_both
@on_loop
async def test_a_peer_that_says_goodbye_is_forgotten(wire: str) -> None:
    async with together(wire) as (node, kino, _):
        await kino.say_plainly(b"KINO.UNREGNODE", kino.goodbye())
        await until(lambda: not knows(node, kino.identity))
        assert kino.identity not in membership(node).health
        await kino.announce()
        await until(lambda: handlers(node, HELLO) == [kino.identity])


@in_both
@on_loop
async def test_a_route_that_is_taken_back_is_forgotten_and_the_others_stay(wire: str) -> None:
    async with together(wire, joined=False) as (node, kino, _):
        await kino.join(routes=[(kino.actor, [HELLO, b"OTHER"]), (kino.hub, [])])
        await until(lambda: handlers(node, b"OTHER"))
        body = unregistration(kino.uri, kino.identity, [(kino.actor, [HELLO])])
        await kino.say_plainly(b"KINO.UNREGMSGROUTE", body)
        await until(lambda: not handlers(node, HELLO))
        assert handlers(node, b"OTHER") == [kino.identity]
        # Without a receiver the message is gone from the whole node; a hub comes with a contract that means nothing.
        await kino.say_plainly(b"KINO.UNREGMSGROUTE", unregistration(kino.uri, kino.identity, [(b"", [b"OTHER"])]))
        await until(lambda: not handlers(node, b"OTHER"))
        assert knows(node, kino.identity)
        await kino.say_plainly(b"KINO.UNREGMSGROUTE", unregistration(kino.uri, kino.identity, [(kino.hub, [HELLO])]))
        await until(lambda: not knows(node, kino.identity))


@in_both
@on_loop
async def test_what_we_announce_comes_back_to_us_and_is_not_learned(wire: str) -> None:
    actor = Reversing()
    async with together(wire, joined=False, actors=(actor,)) as (node, kino, _):
        await until(lambda: membership(node).is_confirmed)
        await kino.join()
        body = our_registration(node, (node.hub.identity, []), (actor.identity, [HELLO]))
        await kino.say_plainly(b"KINO.REGEXTROUTE", body)
        await kino.say_plainly(b"KINO.UNREGNODE", address_of(node.uri, node.identity))
        await until(lambda: knows(node, kino.identity))
        await kino.tell(node.identity, node.uri, kino.request())
        assert read(wire, await kino.received()).identity == EHHLO
        assert not knows(node, node.identity)
        assert not membership(node).traffic.refused


# -- health ------------------------------------------------------------------------------------------------------------


@in_both
@on_loop
async def test_a_ping_is_swallowed(wire: str) -> None:
    async with together(wire, actors=(Reversing(),)) as (node, kino, _):
        before = node.stats()
        await kino.tell(node.identity, node.uri, kino.request().but(identity=b"KINO.PING", body=b"", callbacks=()))
        await until(lambda: attachment(node).inbound.pings == 1)
        assert node.stats() == before
        await kino.tell(node.identity, node.uri, kino.request())
        assert read(wire, await kino.received()).identity == EHHLO


@in_both
@on_loop
async def test_a_peer_whose_heart_stops_is_forgotten_within_two_beats_and_a_second(wire: str) -> None:
    async with together(wire, interval=300, actors=(Reversing(),)) as (node, kino, _):
        await answered(node, kino)
        await until(lambda: membership(node).health._peers[kino.identity].heard_at > 0)
        kino.fall_silent()
        since = time.monotonic()
        await until(lambda: not knows(node, kino.identity))
        assert time.monotonic() - since < 2 * 0.3 + 1
        assert kino.identity not in membership(node).health


@in_both
@on_loop
async def test_a_peer_that_was_lost_and_is_heard_again_is_sent_our_routes_and_asked_for_its_own(wire: str) -> None:
    async with together(wire, interval=300, actors=(Reversing(),)) as (node, kino, _):
        await answered(node, kino)
        kino.fall_silent()
        await until(lambda: not knows(node, kino.identity))
        kino.beat()
        sent = [read(wire, await receive(kino.frontend)) for _ in range(2)]
        while sent[-1].identity != b"KINO.REQCLUSTROUTES":
            sent.append(read(wire, await receive(kino.frontend)))
        assert sent[-2].identity == b"KINO.REGEXTROUTE"
        assert HELLO in sent[-2].body
        assert sent[-1].body == address_of(node.uri, node.identity)


@in_both
@on_loop
async def test_a_peer_that_we_send_nothing_is_not_listened_to(wire: str) -> None:
    async with together(wire, interval=100) as (node, kino, _):
        known_at = time.monotonic()
        kino.fall_silent()
        await until(lambda: time.monotonic() > known_at + 1)
        assert knows(node, kino.identity)
        assert membership(node).health.watched == 0


async def answered(node: Node, kino: KinoNode) -> None:
    """Let our node answer a peer, so that it sends to it, and listens for its heart from then on."""
    await kino.tell(node.identity, node.uri, kino.request())
    await kino.received()
    assert membership(node).health.is_watched(kino.identity)


@in_both
@on_loop
async def test_a_peer_whose_heart_beats_stays_however_long_it_says_nothing(wire: str) -> None:
    async with together(wire, interval=400, actors=(Reversing(),)) as (node, kino, _):
        await answered(node, kino)
        known_at = time.monotonic()
        await until(lambda: time.monotonic() > known_at + 3 * 0.4)
        assert knows(node, kino.identity)
        assert not membership(node).traffic.refused


@in_both
@on_loop
async def test_our_heart_beats_as_the_reference_expects_it(wire: str) -> None:
    async with together(wire) as (node, kino, _):
        uri = attachment(node).health_uri
        pulse = kino.socket(zmq.SUB, connect=uri)
        expected = live(wire, "server", "send", "KINO.HEARTBEAT").but(body=heartbeat(INTERVAL, node.identity, uri))
        for _ in range(2):
            assert await receive(pulse) == [b"", b"", *write(wire, expected)]


# -- in kind -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("theirs", "ours"), [(V6, V5), (V5, V6)])
@on_loop
async def test_a_peer_that_speaks_another_format_is_answered_in_kind(theirs: str, ours: str) -> None:
    actor = Reversing()
    async with together(theirs, ours=ours, actors=(actor,)) as (node, kino, _):
        await kino.say_plainly(b"KINO.REQCLUSTROUTES", address_of(kino.uri, kino.identity))
        assert read(theirs, await kino.registered()).identity == b"KINO.REGEXTROUTE"
        await kino.tell(node.identity, node.uri, kino.request())
        assert read(theirs, await kino.received()).identity == EHHLO
        await node.remove(actor)
        asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
        await kino.tell(node.identity, node.uri, kino.reply(await kino.received(), EHHLO, REVERSED))
        assert await asking == REVERSED
        assert node.stats().outcomes[Outcome.REJECTED] == 0
        assert tables(node).external.handlers(MessageIdentifier(HELLO))
