"""Links to peers, as every implementation has them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from hopline.errors import PeerGoneError
from hopline.zmtp import SocketType
from tests.node.running import soon, turns, until

from .ends import NODE, World, fill, hello, numbers, on_all, on_real
from .raw import RawPeer

NARROW: dict[str, Any] = {
    "send_high_water": 5,
    "link_capacity": 5,
    "receive_high_water": 5,
}  # libzmq has room of its own


@on_real
async def test_messages_arrive_in_order_and_the_first_ones_wait_for_the_handshake(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    link = outbox.link(NODE, peer.uri)
    assert link.is_silent
    assert all(link.offer(hello(number)) for number in range(500))
    assert outbox.sent == []
    await until(lambda: len(peer.got) == 500)
    assert numbers(peer.bodies) == list(range(500))
    assert numbers(outbox.sent) == list(range(500))
    assert (link.waiting, link.is_silent) == (0, False)
    assert outbox.link(NODE, peer.uri) is link


@on_all
async def test_what_waits_for_the_handshake_arrives(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    link = outbox.link(NODE, peer.uri)
    assert all(link.offer(hello(number)) for number in range(50))
    assert link.waiting == 50
    await until(lambda: len(peer.got) == 50)
    assert sorted(numbers(peer.bodies)) == list(range(50))
    assert outbox.gave_up == []


@on_real
async def test_a_full_link_returns_false_and_wakes_who_waits_for_room(world: World) -> None:
    peer = world.inbox(NODE, **NARROW)
    outbox = world.outbox(**NARROW)
    link = outbox.link(NODE, peer.uri)
    count = await fill(link)
    assert not link.offer(hello())
    assert link.waiting == NARROW["link_capacity"]
    room = asyncio.ensure_future(link.room())
    peer.read()
    await soon(room)
    assert link.offer(hello(count))
    await until(lambda: len(peer.got) == count + 1)
    assert numbers(peer.bodies) == list(range(count + 1))
    assert outbox.gave_up == []


@on_real
async def test_a_slow_peer_does_not_stall_another(world: World) -> None:
    slow, quick = world.inbox(b"slow", **NARROW), world.inbox(b"quick").read()
    outbox = world.outbox(**NARROW)
    to_slow, to_quick = outbox.link(b"slow", slow.uri), outbox.link(b"quick", quick.uri)
    await fill(to_slow, padding=1_000_000)
    for number in range(200):
        while not to_quick.offer(hello(number)):
            await soon(to_quick.room())
    await until(lambda: len(quick.got) == 200)
    assert slow.got == []


@on_all
async def test_a_peer_that_nobody_is_there_for_is_given_up_with_what_waited(world: World) -> None:
    outbox = world.outbox(refusal_timeout=0.2)
    link = outbox.link(NODE, world.nobody())
    began = world.clock()
    assert link.offer(hello(7))
    await until(lambda: outbox.gave_up)
    ((node, unsent),) = outbox.gave_up
    ((message, waited),) = unsent
    assert (node, message.body) == (NODE, b"7")
    assert 0.2 <= waited <= world.clock() - began
    assert outbox.sent == []
    assert list(outbox.peers.links) == []
    with pytest.raises(PeerGoneError):
        link.offer(hello())
    with pytest.raises(PeerGoneError):
        await link.room()


@on_all
async def test_who_waits_for_room_goes_on_when_the_peer_is_given_up(world: World) -> None:
    outbox = world.outbox(refusal_timeout=0.2, link_capacity=1)
    link = outbox.link(NODE, world.nobody())
    while link.offer(hello()):
        pass
    await soon(link.room())
    with pytest.raises(PeerGoneError):
        link.offer(hello())


@on_all
async def test_a_peer_that_was_there_and_died_is_given_up_though_nothing_waits(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox(refusal_timeout=0.2)
    outbox.link(NODE, peer.uri).offer(hello())
    await until(lambda: peer.got)
    peer.listener.close()
    await until(lambda: outbox.gave_up)
    assert outbox.gave_up == [(NODE, [])]


@on_all
async def test_a_connection_that_broke_is_reported(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox(refusal_timeout=30.0)
    outbox.link(NODE, peer.uri).offer(hello())
    await until(lambda: peer.got)
    assert outbox.broken == []
    peer.listener.close()
    await until(lambda: outbox.broken)
    assert outbox.broken == [NODE]


@on_real
async def test_a_peer_that_does_not_shake_hands_is_given_up(world: World) -> None:
    async with RawPeer(SocketType.ROUTER, NODE) as silent:
        outbox = world.outbox(handshake_timeout=0.3, refusal_timeout=60.0)
        assert outbox.link(NODE, silent.listen()).offer(hello(1))
        await until(lambda: outbox.gave_up)
        assert [message.body for message, _ in outbox.gave_up[0][1]] == [b"1"]


@on_all
async def test_a_peer_that_comes_back_in_time_gets_what_waited(world: World) -> None:
    peer = world.inbox(NODE, world.free_address()).read()
    outbox = world.outbox(refusal_timeout=30.0, handshake_timeout=60.0)
    link = outbox.link(NODE, peer.uri)
    link.offer(hello(1))
    await until(lambda: peer.got)
    peer.listener.close()
    await until(lambda: link.is_silent)
    assert link.offer(hello(2))
    again = (await world.inbox_at(peer.uri, NODE)).read()
    await until(lambda: again.got)
    assert again.bodies == [b"2"]
    assert outbox.gave_up == []


@on_all
async def test_nothing_goes_to_another_node_that_took_the_address(world: World) -> None:
    impostor = world.inbox(b"somebody else").read()
    outbox = world.outbox(refusal_timeout=0.2)
    outbox.link(NODE, impostor.uri).offer(hello(1))
    await until(lambda: outbox.gave_up)
    assert [message.body for message, _ in outbox.gave_up[0][1]] == [b"1"]
    assert impostor.got == []
    assert outbox.sent == []


@on_all
async def test_a_peer_that_presents_the_identity_of_another_gets_nothing_that_is_meant_for_it(world: World) -> None:
    peer, impostor = world.inbox(NODE).read(), world.inbox(NODE).read()
    outbox = world.outbox(refusal_timeout=0.2)
    link = outbox.link(NODE, peer.uri)
    link.offer(hello(0))
    await until(lambda: peer.got)
    outbox.link(b"stranger", impostor.uri).offer(hello(66))  # it presents the identity of the first
    await until(lambda: outbox.gave_up)  # and therefore does not get this either
    assert all(link.offer(hello(number)) for number in range(1, 30))
    await until(lambda: len(peer.got) == 30)
    assert impostor.got == []


@on_all
async def test_nor_does_it_when_it_was_there_first(world: World) -> None:
    peer, impostor = world.inbox(NODE).read(), world.inbox(NODE).read()
    outbox = world.outbox(refusal_timeout=0.5)
    outbox.link(b"stranger", impostor.uri).offer(hello(66))
    link = outbox.link(NODE, peer.uri)
    assert all(link.offer(hello(number)) for number in range(30))
    await until(lambda: len(peer.got) == 30)
    await until(lambda: outbox.gave_up)
    assert [node for node, _ in outbox.gave_up] == [b"stranger"]
    assert impostor.got == []


@on_all
async def test_what_waits_follows_a_peer_to_its_new_address(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox(refusal_timeout=30.0)
    first = outbox.link(NODE, world.nobody())
    first.offer(hello(1))
    link = outbox.link(NODE, peer.uri)
    link.offer(hello(2))
    await until(lambda: len(peer.got) == 2)
    assert sorted(peer.bodies) == [b"1", b"2"]
    assert outbox.gave_up == []
    assert list(outbox.peers.links) == [link]
    with pytest.raises(PeerGoneError):
        first.offer(hello(3))


@on_real
async def test_what_waits_is_given_up_when_its_peer_moves_where_nobody_can_be(world: World) -> None:
    outbox = world.outbox(refusal_timeout=30.0)
    outbox.link(NODE, world.nobody()).offer(hello(1))
    with pytest.raises(PeerGoneError):
        outbox.link(NODE, "nowhere")
    assert [message.body for _, unsent in outbox.gave_up for message, _ in unsent] == [b"1"]


@on_real
async def test_an_address_that_the_system_cannot_use_ends_in_a_peer_that_is_gone(world: World) -> None:
    outbox = world.outbox(refusal_timeout=0.1)
    with suppress(PeerGoneError):  # at once, or soon
        outbox.link(NODE, "tcp://[fe80::1%ab]:5000")
    await until(lambda: outbox.gave_up)
    assert list(outbox.peers.links) == []


@on_all
async def test_disconnect_returns_what_never_left(world: World) -> None:
    outbox = world.outbox(refusal_timeout=30.0)
    link = outbox.link(NODE, world.nobody())
    link.offer(hello(1))
    ((message, _),) = outbox.peers.disconnect(NODE)
    assert message.body == b"1"
    assert outbox.peers.disconnect(NODE) == []
    assert (outbox.gave_up, outbox.sent) == ([], [])
    with pytest.raises(PeerGoneError):
        link.offer(hello(2))


@on_real
async def test_disconnect_returns_nothing_that_on_sent_reported(world: World) -> None:
    peer = world.inbox(NODE, **NARROW)
    outbox = world.outbox(**NARROW)
    count = await fill(outbox.link(NODE, peer.uri))
    unsent = outbox.peers.disconnect(NODE)
    returned = numbers([message.body for message, _ in unsent])
    assert numbers(outbox.sent) + returned == list(range(count))
    assert returned


@on_real
async def test_disconnect_lets_what_left_arrive(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    link = outbox.link(NODE, peer.uri)
    link.offer(hello(0))
    await until(lambda: peer.got)
    assert all(link.offer(hello(number)) for number in range(1, 100))
    assert outbox.peers.disconnect(NODE, linger=30.0) == []
    await until(lambda: len(peer.got) == 100)


@on_all
async def test_to_leave_one_of_two_nodes_at_an_address_does_not_leave_the_other(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    outbox.link(NODE, peer.uri).offer(hello(1))
    await until(lambda: peer.got)
    outbox.link(b"another", peer.uri)
    outbox.peers.disconnect(b"another")
    outbox.link(NODE, peer.uri).offer(hello(2))
    await until(lambda: len(peer.got) == 2)


@on_all
async def test_the_writer_is_told_how_long_a_message_waited(world: World) -> None:
    outbox = world.outbox(refusal_timeout=30.0, handshake_timeout=60.0)
    uri = world.free_address()
    began = world.clock()
    link = outbox.link(NODE, uri)
    link.offer(hello(1))
    link.offer(hello(2))
    outbox.expired = {b"2"}
    await turns(5)
    again = (await world.inbox_at(uri, NODE)).read()
    link.offer(hello(3))
    await until(lambda: len(again.got) == 2)
    assert sorted(again.bodies) == [b"1", b"3"]
    assert sorted(outbox.sent) == [b"1", b"3"]
    waited = dict(outbox.waited)  # when it was written last
    assert 0 < waited[b"1"] <= world.clock() - began
    assert link.waiting == 0


@on_all
async def test_all_who_wait_until_nothing_waits_are_told_when_everything_left(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    outbox.link(NODE, peer.uri).offer(hello())
    waiting = [asyncio.ensure_future(outbox.peers.nothing_waits()) for _ in range(2)]
    await soon(asyncio.gather(*waiting))
    assert len(outbox.sent) == 1


@on_all
async def test_all_who_wait_until_nothing_waits_are_told_when_everything_was_given_up(world: World) -> None:
    outbox = world.outbox(refusal_timeout=0.1)
    outbox.link(NODE, world.nobody()).offer(hello())
    await soon(outbox.peers.nothing_waits())
    await until(lambda: outbox.gave_up)
    await soon(outbox.peers.nothing_waits())


@on_all
async def test_peers_that_are_closed_give_back_what_never_left(world: World) -> None:
    outbox = world.outbox(refusal_timeout=30.0)
    outbox.link(NODE, world.nobody()).offer(hello(1))
    outbox.peers.close(0.0)
    assert [(node, [message.body for message, _ in unsent]) for node, unsent in outbox.gave_up] == [(NODE, [b"1"])]
