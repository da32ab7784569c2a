"""Publishers and subscribers, as every implementation has them."""

from __future__ import annotations

import itertools
from typing import Any

from hopline.transport import Sender
from hopline.zmtp import SocketType
from tests.node.running import turns, until

from .ends import World, on_all, on_real
from .raw import RawPeer

HELLO = b"are you there"
_numbers = itertools.count()


class Audience:
    """A subscriber, what it heard, and how often a connection broke."""

    def __init__(self, world: World, **settings: float) -> None:
        self.heard: list[bytes] = []
        self.broken = 0
        self.subscriber = world.subscriber(self._hear, self._broke, **settings)

    def _hear(self, frames: list[bytes]) -> None:
        self.heard.append(frames[0])

    def _broke(self) -> None:
        self.broken += 1


async def subscribed(publisher: Sender, uri: str, *audience: Audience) -> None:
    """Connect subscribers, and wait until the publisher has taken note of all."""
    for each in audience:
        each.subscriber.connect(uri)
    greeting = b"%d %s" % (next(_numbers), HELLO)

    def are_there() -> bool:
        publisher.send([greeting])
        return all(greeting in each.heard for each in audience)

    await until(are_there)


def news(audience: Audience) -> list[bytes]:
    return [each for each in audience.heard if not each.endswith(HELLO)]


@on_real
async def test_everything_is_heard_by_everybody_in_order(world: World) -> None:
    publisher, uri = world.publisher(capacity=1_000)
    audience = [Audience(world) for _ in range(5)]
    await subscribed(publisher, uri, *audience)
    for number in range(500):
        assert publisher.send([b"%d" % number, b"more"])
        if not number % 50:
            await turns(2)
    for each in audience:
        await until(lambda each=each: len(news(each)) == 500)  # type: ignore[misc]
        assert news(each) == [b"%d" % number for number in range(500)]


@on_all
async def test_who_subscribes_late_hears_what_is_published_from_then_on(world: World) -> None:
    publisher, uri = world.publisher()
    first, late = Audience(world), Audience(world)
    await subscribed(publisher, uri, first)
    publisher.send([b"before"])
    await until(lambda: news(first) == [b"before"])
    await subscribed(publisher, uri, late)
    publisher.send([b"after"])
    await until(lambda: news(first) == [b"before", b"after"])
    await until(lambda: news(late) == [b"after"])


@on_all
async def test_a_subscriber_that_is_there_before_its_publisher_hears_it(world: World) -> None:
    uri = world.free_address()
    early = Audience(world)
    early.subscriber.connect(uri)
    await turns(5)
    again = await world.publisher_at(uri)
    await subscribed(again, uri, early)


@on_all
async def test_one_subscriber_hears_several_publishers(world: World) -> None:
    audience = Audience(world)
    for number in range(3):
        publisher, uri = world.publisher()
        audience.subscriber.connect(uri)
        audience.subscriber.connect(uri)  # twice is once

        def is_heard(publisher: Sender = publisher, number: int = number) -> bool:
            publisher.send([b"%d" % number])
            return b"%d" % number in audience.heard

        await until(is_heard)


@on_real
async def test_a_slow_subscriber_misses_something_and_stalls_nobody(world: World) -> None:
    settings: dict[str, Any] = {"send_high_water": 10, "receive_high_water": 10}
    publisher, uri = world.publisher(capacity=10, **settings)
    quick = Audience(world)
    await subscribed(publisher, uri, quick)
    async with RawPeer(SocketType.SUB) as slow:
        await slow.connect(uri)
        await slow.write(slow.protocol.subscription(b""))
        for number in range(300):  # more than the buffers on the way to the one that reads nothing can hold
            publisher.send([b"%d" % number, bytes(100_000)])
            await until(lambda number=number: b"%d" % number in quick.heard)  # type: ignore[misc]
    assert news(quick) == [b"%d" % number for number in range(300)]


@on_all
async def test_a_publisher_that_comes_back_is_heard_again(world: World) -> None:
    publisher, uri = world.publisher(address=world.free_address())
    audience = Audience(world)
    await subscribed(publisher, uri, audience)
    publisher.close()
    await until(lambda: audience.broken)
    again = await world.publisher_at(uri)
    await subscribed(again, uri, audience)
    again.send([b"news"])
    await until(lambda: news(audience) == [b"news"])


@on_all
async def test_a_subscriber_that_disconnects_hears_nothing_more(world: World) -> None:
    (left, left_uri), (kept, kept_uri) = world.publisher(), world.publisher()
    audience, witness = Audience(world), Audience(world)
    await subscribed(left, left_uri, audience, witness)
    await subscribed(kept, kept_uri, audience)
    audience.subscriber.disconnect(left_uri)
    audience.subscriber.disconnect(left_uri)  # twice is once
    broken = audience.broken
    left.send([b"from the one that was left"])
    await until(lambda: news(witness) == [b"from the one that was left"])
    kept.send([b"from the other"])
    await until(lambda: b"from the other" in audience.heard)
    assert b"from the one that was left" not in audience.heard
    assert audience.broken == broken


@on_real
async def test_the_last_words_of_a_publisher_are_heard(world: World) -> None:
    publisher, uri = world.publisher()
    audience = Audience(world)
    await subscribed(publisher, uri, audience)
    for number in range(50):
        publisher.send([b"%d" % number])
    publisher.close(linger=30.0)
    await until(lambda: news(audience) == [b"%d" % number for number in range(50)])
