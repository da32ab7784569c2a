"""Senders, and what is left when every end was closed, as every implementation has them."""

from __future__ import annotations

import asyncio
import gc
import threading

from tests.node.running import turns, until

from .ends import NODE, World, descriptors, hello, on_all, on_real


@on_real
async def test_what_is_sent_before_the_handshake_waits_for_it(world: World) -> None:
    inbox = world.inbox().read()
    sender = world.sender(inbox.uri)
    assert all(sender.send([b"%d" % number]) for number in range(50))
    await until(lambda: len(inbox.got) == 50)
    assert [frames[1] for frames in inbox.got] == [b"%d" % number for number in range(50)]


@on_all
async def test_what_is_sent_before_anybody_listens_waits_too(world: World) -> None:
    uri = world.free_address()
    sender = world.sender(uri)
    assert sender.send([b"early"])
    await turns(5)
    again = (await world.inbox_at(uri)).read()
    await until(lambda: [frames[1:] for frames in again.got] == [[b"early"]])


@on_all
async def test_a_sender_goes_on_with_the_next_listener_at_the_address(world: World) -> None:
    inbox = world.inbox(address=world.free_address()).read()
    sender = world.sender(inbox.uri)
    assert sender.send([b"first"])
    await until(lambda: inbox.got)
    inbox.listener.close()
    again = (await world.inbox_at(inbox.uri)).read()

    def is_heard() -> bool:  # what is sent before it notices that the first one is gone is lost
        sender.send([b"second"])
        return bool(again.got)

    await until(is_heard)


@on_real
async def test_a_sender_holds_only_so_much(world: World) -> None:
    sender = world.sender(world.nobody(), capacity=10, send_high_water=10)
    taken = 0
    while sender.send([b"%d" % taken]):
        taken += 1
        assert taken <= 20  # libzmq has as much room of its own
    assert taken >= 10
    assert not sender.send([b"one too many"])


@on_real
async def test_a_sender_that_lingers_delivers_its_last_words(world: World) -> None:
    inbox = world.inbox().read()
    sender = world.sender(inbox.uri)
    assert sender.send([b"0"])
    await until(lambda: inbox.got)
    assert all(sender.send([b"%d" % number, bytes(50_000)]) for number in range(1, 100))
    sender.close(linger=30.0)
    await until(lambda: len(inbox.got) == 100)
    assert [int(frames[1]) for frames in inbox.got] == list(range(100))


@on_real
async def test_a_sender_that_lingers_delivers_them_also_if_it_was_not_connected_yet(world: World) -> None:
    inbox = world.inbox().read()
    sender = world.sender(inbox.uri)
    assert all(sender.send([b"%d" % number]) for number in range(20))
    sender.close(linger=30.0)
    await until(lambda: len(inbox.got) == 20)


async def use_everything(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    sender = world.sender(peer.uri)
    publisher, uri = world.publisher()
    heard: list[list[bytes]] = []
    subscriber = world.subscriber(heard.append, lambda: None)
    subscriber.connect(uri)
    outbox.link(NODE, peer.uri).offer(hello())
    outbox.link(b"gone", world.nobody()).offer(hello())
    world.sender(world.nobody()).send([b"for nobody"])
    sender.send([b"hello"])

    def is_everything_heard() -> bool:
        publisher.send([b"news"])
        return len(peer.got) == 2 and bool(heard)

    await until(is_everything_heard)
    sender.close(linger=30.0)
    publisher.close(linger=30.0)
    outbox.peers.close(30.0)


@on_real
async def test_nothing_is_left_when_every_end_was_closed(world: World) -> None:
    first = World(world.kind)  # opens what is kept as long as the process is there: libzmq's threads
    await use_everything(first)
    first.close()
    gc.collect()
    threads = threading.active_count()
    tasks = asyncio.all_tasks()

    before = [descriptors()]

    def are_settled() -> bool:  # libzmq closes in a thread of its own
        before.append(descriptors())
        return len(before) > 50 and before[-1] == before[-50]

    await until(are_settled)
    second = World(world.kind)
    await use_everything(second)
    second.close()
    await until(lambda: len(descriptors()) <= len(before[-1]))
    assert threading.active_count() == threads
    assert asyncio.all_tasks() == tasks
