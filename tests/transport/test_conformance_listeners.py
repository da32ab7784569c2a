"""Listeners, and the addresses that they bind to, as every implementation has them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from hopline import ArgumentError, BindError
from hopline.transport import parse
from tests.node.running import turns, until

from .ends import NODE, World, hello, on_all, on_real

PEERS = 30


@on_real
async def test_messages_come_with_the_identity_of_their_sender(world: World) -> None:
    inbox = world.inbox().read()
    senders = [world.sender(inbox.uri, identity=b"sender-%d" % number) for number in range(PEERS)]
    for turn in range(10):
        for number, sender in enumerate(senders):
            assert sender.send([b"", b"%d of %d" % (turn, number)])
    await until(lambda: len(inbox.got) == 10 * PEERS)
    for number in range(PEERS):
        came = [frames[1:] for frames in inbox.got if frames[0] == b"sender-%d" % number]
        assert came == [[b"", b"%d of %d" % (turn, number)] for turn in range(10)]


@on_real
async def test_senders_without_an_identity_are_told_apart(world: World) -> None:
    inbox = world.inbox().read()
    for number in range(PEERS):
        sender = world.sender(inbox.uri)
        assert sender.send([b"%d" % number])
        assert sender.send([b"%d" % number])
    await until(lambda: len(inbox.got) == 2 * PEERS)
    by_identity: dict[bytes, list[bytes]] = {}
    for identity, content in inbox.got:
        assert (len(identity), identity[:1]) == (5, b"\0")
        by_identity.setdefault(identity, []).append(content)
    assert sorted(by_identity.values()) == sorted([b"%d" % number] * 2 for number in range(PEERS))


@on_real
async def test_an_identity_belongs_to_the_connection_that_holds_it(world: World) -> None:
    inbox = world.inbox().read()
    holder, stranger = world.sender(inbox.uri, identity=NODE), None
    assert holder.send([b"first"])
    await until(lambda: inbox.got)
    stranger = world.sender(inbox.uri, identity=NODE)
    assert stranger.send([b"stolen"])
    witness = world.sender(inbox.uri, identity=b"witness")
    for number in range(20):  # time in which a stranger would have been heard
        assert witness.send([b"%d" % number])
        await until(lambda number=number: [b"witness", b"%d" % number] in inbox.got)  # type: ignore[misc]
    assert holder.send([b"last"])
    await until(lambda: [NODE, b"last"] in inbox.got)
    assert [frames for frames in inbox.got if frames[0] == NODE] == [[NODE, b"first"], [NODE, b"last"]]


@on_real
async def test_what_comes_before_anybody_reads_waits(world: World) -> None:
    inbox = world.inbox()
    sender = world.sender(inbox.uri)
    assert all(sender.send([b"%d" % number]) for number in range(50))
    await turns(20)
    inbox.read()
    await until(lambda: len(inbox.got) == 50)
    assert [frames[1] for frames in inbox.got] == [b"%d" % number for number in range(50)]


@on_real
async def test_a_listener_that_pauses_and_resumes_loses_nothing(world: World) -> None:
    inbox = world.inbox()
    sender = world.sender(inbox.uri, capacity=1_000)

    def take_one(frames: list[bytes]) -> None:
        inbox.got.append(frames)
        inbox.listener.pause()  # in the middle of what came at once

    inbox.listener.read(take_one)
    assert all(sender.send([b"%d" % number]) for number in range(200))
    for count in range(1, 201):
        await until(lambda count=count: len(inbox.got) == count)  # type: ignore[misc]
        inbox.listener.resume()
    assert [frames[1] for frames in inbox.got] == [b"%d" % number for number in range(200)]


@on_real
async def test_a_paused_listener_holds_the_sender_up(world: World) -> None:
    settings: dict[str, Any] = {"send_high_water": 5, "receive_high_water": 5}
    inbox = world.inbox(**settings).read()
    sender = world.sender(inbox.uri, capacity=5, **settings)
    assert sender.send([b"0"])
    await until(lambda: inbox.got)
    inbox.listener.pause()
    count, refusals = 1, 0
    while refusals < 100:  # the system's own buffers are filled first
        if sender.send([b"%d" % count, bytes(100_000)]):
            count, refusals = count + 1, 0
        else:
            refusals += 1
            await asyncio.sleep(0.001)
        assert count < 1_000, "nothing held the sender up"
    taken = len(inbox.got)
    await turns(20)
    assert len(inbox.got) == taken
    inbox.listener.resume()
    await until(lambda: len(inbox.got) == count)
    assert [int(frames[1]) for frames in inbox.got] == list(range(count))


@on_real
async def test_a_message_that_cannot_be_taken_does_not_stop_the_ones_behind_it(world: World) -> None:
    inbox = world.inbox()

    def take(frames: list[bytes]) -> None:
        if frames[1] == b"1":
            raise LookupError("no such message")
        inbox.got.append(frames)

    inbox.listener.read(take)
    sender = world.sender(inbox.uri)
    assert all(sender.send([b"%d" % number]) for number in range(3))
    await until(lambda: len(inbox.got) == 2)
    assert [frames[1] for frames in inbox.got] == [b"0", b"2"]


@on_all
async def test_a_listener_that_was_closed_takes_nothing_more_and_may_be_closed_again(world: World) -> None:
    inbox = world.inbox()

    def take_one(frames: list[bytes]) -> None:
        inbox.got.append(frames)
        inbox.listener.close()

    inbox.listener.read(take_one)
    sender = world.sender(inbox.uri)
    assert all(sender.send([b"%d" % number]) for number in range(50))
    await until(lambda: inbox.got)
    await turns(20)
    assert len(inbox.got) == 1
    inbox.listener.close()


# -- addresses ---------------------------------------------------------------------------------------------------------


@on_real
async def test_a_range_of_ports_is_tried_until_one_is_free(world: World) -> None:
    first = world.inbox()
    port = parse(first.uri).first_port
    second = world.inbox(address=f"tcp://127.0.0.1:{port}-{port + 20}")
    assert parse(second.uri).first_port > port


@on_all
async def test_an_address_that_is_taken_is_named_with_its_field(world: World) -> None:
    inbox = world.inbox()
    with pytest.raises(BindError, match="cannot bind to") as refused:
        world.inbox(address=inbox.uri)
    assert refused.value.field == "address"
    with pytest.raises(BindError, match="cannot bind to"):
        world.publisher(address=inbox.uri)


@on_all
async def test_what_is_no_address_is_named_with_its_field(world: World) -> None:
    for nonsense in ("nowhere", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:20-10"):
        with pytest.raises(ArgumentError) as refused:
            world.inbox(address=nonsense)
        assert refused.value.field == "address"


@on_real
async def test_an_address_of_another_machine_cannot_be_bound_to(world: World) -> None:
    with pytest.raises(BindError, match="cannot bind to"):
        world.inbox(address="tcp://192.0.2.1:0")  # for documentation only (RFC 5737)


@on_real
async def test_a_listener_at_every_interface_is_reached_by_loopback(world: World) -> None:
    inbox = world.inbox(address="tcp://*:0").read()
    assert parse(inbox.uri).is_everywhere
    sender = world.sender(f"tcp://127.0.0.1:{parse(inbox.uri).first_port}")
    assert sender.send([b"hello"])
    await until(lambda: inbox.got)


@on_real
async def test_names_are_looked_up(world: World) -> None:
    inbox = world.inbox(address="tcp://localhost:0").read()
    assert parse(inbox.uri).is_numeric
    sender = world.sender(f"tcp://localhost:{parse(inbox.uri).first_port}")
    assert sender.send([b"hello"])
    await until(lambda: inbox.got)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@on_real
async def test_every_role_works_over_ipv6(world: World) -> None:
    peer = world.inbox(NODE, address="tcp://[::1]:0").read()
    assert peer.uri.startswith("tcp://[::1]:")
    assert world.outbox().link(NODE, peer.uri).offer(hello(1))
    assert world.sender(peer.uri).send([b"hello"])
    await until(lambda: len(peer.got) == 2)
    publisher, uri = world.publisher(address="tcp://[::1]:0")
    heard: list[list[bytes]] = []
    world.subscriber(heard.append).connect(uri)

    def is_heard() -> bool:
        publisher.send([b"news"])
        return bool(heard)

    await until(is_heard)
