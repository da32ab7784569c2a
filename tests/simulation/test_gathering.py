"""Calm networks in virtual time, in which one thing happens at a time: who hears of it, and how much is said."""

from __future__ import annotations

import asyncio
import functools
import itertools

import pytest

from hopline.cluster import Membership
from hopline.cluster.announcements import Announcements
from hopline.cluster.service import REGISTER_ROUTE
from hopline.message import Message, NotRunningError
from hopline.routing import Route
from hopline.simulation.actors import Listener
from hopline.simulation.gathering import CLUSTER, Gathering, gather
from hopline.simulation.network import Weather
from hopline.simulation.storm import changes_among

NETWORKS = (5, 10, 20, 40)
MOST_A_NODE = 8
MOST_BESIDES = 10

changes = functools.cache(changes_among)


@pytest.mark.parametrize("change", ["join", "leave", "crash"])
def test_a_change_makes_every_node_say_and_hear_a_few_messages_however_many_there_are(change: str) -> None:
    said = [getattr(changes(nodes), change).total for nodes in NETWORKS]
    for nodes, total in zip(NETWORKS, said, strict=True):
        assert total <= MOST_A_NODE * nodes + MOST_BESIDES
    slopes = [
        (more - less) / (large - small)
        for (small, large), (less, more) in zip(itertools.pairwise(NETWORKS), itertools.pairwise(said), strict=True)
    ]
    assert max(slopes) <= 1.1 * min(slopes)


def test_answers_to_everybody_would_be_a_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(member: Membership, request: Message, node: bytes, uri: str, routes: list[Route]) -> None:
        if node != member.me.identity and uri and routes:
            member._publish(REGISTER_ROUTE, member._registration(routes), request.domain)

    monkeypatch.setattr(Membership, "_answer", answer)
    assert changes_among(20).join.total > MOST_A_NODE * 20 + MOST_BESIDES


async def everybody_knows_what_came_while_nothing_got_through(gathering: Gathering) -> bool:
    """Let an actor come and another go while every message is lost, and look soon after that is over."""
    first, *others = gathering.attendees
    (leaving,) = first.node.actors
    gathering.network.weather = Weather(drop=1.0)
    first.node.add(Listener("new"))
    await first.node.remove(leaving)
    await asyncio.sleep(0.3)
    gathering.network.weather = Weather()
    await asyncio.sleep(CLUSTER.announce_period + 0.5)
    return all(other.knows(first) == set(first.node.router.directory.advertised()) for other in others)


def test_what_was_lost_is_said_again_until_it_was_heard() -> None:
    assert gather(3, everybody_knows_what_came_while_nothing_got_through)


def test_what_is_said_once_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    say = Membership._announce_again

    def say_once(member: Membership, now: float) -> None:
        say(member, now)
        member._unconfirmed = Announcements()

    monkeypatch.setattr(Membership, "_announce_again", say_once)
    assert not gather(3, everybody_knows_what_came_while_nothing_got_through)


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_crashed_node_is_unknown_after_two_heartbeats_and_a_second(is_noticed: bool) -> None:
    async def someone_crashes(gathering: Gathering) -> list[set[Route]]:
        first, *others = gathering.attendees
        first.transport.crash(is_noticed=is_noticed)
        await asyncio.sleep(CLUSTER.missing_heartbeats * CLUSTER.heartbeat_interval + 1.0)
        return [other.knows(first) for other in others]

    assert gather(4, someone_crashes) == [set()] * 3


def test_nodes_that_could_not_reach_each_other_know_each_other_again() -> None:
    async def the_network_is_cut(gathering: Gathering) -> None:
        one, other, _ = gathering.attendees
        for far in (other.transport.host, gathering.server.host):
            gathering.network.cut(one.transport.host, far)
        await asyncio.sleep(20.0)
        assert not one.knows(other) | other.knows(one)
        gathering.network.mend()
        await asyncio.sleep(20.0)
        assert one.knows(other) == set(other.node.router.directory.advertised())
        assert other.knows(one) == set(one.node.router.directory.advertised())

    gather(3, the_network_is_cut)


def test_a_node_that_is_stopped_while_it_starts_leaves_nothing_behind() -> None:
    async def someone_changes_his_mind(gathering: Gathering) -> None:
        newcomer = gathering.newcomer(len(gathering.attendees))
        starting = asyncio.create_task(newcomer.node.start())
        await asyncio.sleep(0)
        await newcomer.node.stop()
        with pytest.raises(NotRunningError):
            await starting
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert not any(one.knows(newcomer) for one in gathering.attendees)

    gather(2, someone_changes_his_mind)
