"""Networks without faults in virtual time, in which one thing changes at a time: who learns of it, at what cost."""

from __future__ import annotations

import asyncio
import functools
import itertools

import pytest

from hopline.cluster.membership.advertiser import RouteAdvertiser
from hopline.cluster.membership.announcements import Announcements
from hopline.cluster.membership.responder import RouteResponder
from hopline.cluster.messages.service import REGISTER_ROUTE
from hopline.message import Message, NotRunningError
from hopline.routing import Route
from hopline.simulation.actors import Listener
from hopline.simulation.network import NetworkConditions
from hopline.simulation.quiet_network import CLUSTER, QuietNetwork, run_quiet_network
from hopline.simulation.storm import changes_among

NETWORKS = (5, 10, 20, 40)
MOST_A_NODE = 8
MOST_BESIDES = 10

changes = functools.cache(changes_among)


@pytest.mark.parametrize("change", ["join", "leave", "crash"])
def test_the_messages_of_a_change_grow_linearly_with_the_nodes(change: str) -> None:
    totals = [getattr(changes(nodes), change).total for nodes in NETWORKS]
    for nodes, total in zip(NETWORKS, totals, strict=True):
        assert total <= MOST_A_NODE * nodes + MOST_BESIDES
    slopes = [
        (more - less) / (large - small)
        for (small, large), (less, more) in zip(itertools.pairwise(NETWORKS), itertools.pairwise(totals), strict=True)
    ]
    assert max(slopes) <= 1.1 * min(slopes)


def test_broadcast_answers_would_be_a_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(responder: RouteResponder, request: Message, node: bytes, uri: str, routes: list[Route]) -> None:
        if node != responder._me.identity and uri and routes:
            content = responder._advertiser.registration(routes)
            responder._sender.publish(REGISTER_ROUTE, content, request.domain)

    monkeypatch.setattr(RouteResponder, "_answer", answer)
    assert changes_among(20).join.total > MOST_A_NODE * 20 + MOST_BESIDES


async def changes_are_known_after_an_outage(quiet: QuietNetwork) -> bool:
    """Let an actor come and another go while every message is lost, and look soon after that is over."""
    first, *others = quiet.nodes
    (leaving,) = first.node.actors
    quiet.network.conditions = NetworkConditions(drop=1.0)
    first.node.add(Listener("new"))
    await first.node.remove(leaving)
    await asyncio.sleep(0.3)
    quiet.network.conditions = NetworkConditions()
    await asyncio.sleep(CLUSTER.announce_period + 0.5)
    return all(other.knows(first) == set(first.node.router.directory.advertised()) for other in others)


def test_lost_announcements_are_repeated_until_confirmed() -> None:
    assert run_quiet_network(3, changes_are_known_after_an_outage)


def test_announcements_that_are_published_once_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = RouteAdvertiser.publish_unconfirmed

    def publish_once(advertiser: RouteAdvertiser, now: float) -> None:
        publish(advertiser, now)
        advertiser._unconfirmed = Announcements()

    monkeypatch.setattr(RouteAdvertiser, "publish_unconfirmed", publish_once)
    assert not run_quiet_network(3, changes_are_known_after_an_outage)


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_crashed_node_is_unknown_after_two_heartbeats_and_a_second(is_noticed: bool) -> None:
    async def a_node_crashes(quiet: QuietNetwork) -> list[set[Route]]:
        first, *others = quiet.nodes
        first.transport.crash(is_noticed=is_noticed)
        await asyncio.sleep(CLUSTER.missing_heartbeats * CLUSTER.heartbeat_interval + 1.0)
        return [other.knows(first) for other in others]

    assert run_quiet_network(4, a_node_crashes) == [set()] * 3


def test_nodes_find_each_other_again_after_a_partition() -> None:
    async def the_network_is_cut(quiet: QuietNetwork) -> None:
        one, other, _ = quiet.nodes
        for far in (other.transport.host, quiet.server.host):
            quiet.network.cut(one.transport.host, far)
        await asyncio.sleep(20.0)
        assert not one.knows(other) | other.knows(one)
        quiet.network.mend()
        await asyncio.sleep(20.0)
        assert one.knows(other) == set(other.node.router.directory.advertised())
        assert other.knows(one) == set(one.node.router.directory.advertised())

    run_quiet_network(3, the_network_is_cut)


def test_a_node_that_is_stopped_while_it_starts_leaves_nothing_behind() -> None:
    async def a_node_is_stopped_while_it_starts(quiet: QuietNetwork) -> None:
        newcomer = quiet.new_node(len(quiet.nodes))
        starting = asyncio.create_task(newcomer.node.start())
        await asyncio.sleep(0)
        await newcomer.node.stop()
        with pytest.raises(NotRunningError):
            await starting
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert not any(one.knows(newcomer) for one in quiet.nodes)

    run_quiet_network(2, a_node_is_stopped_while_it_starts)
