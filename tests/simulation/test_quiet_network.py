"""Networks without faults in virtual time, in which one thing changes at a time: who learns of it, at what cost."""

from __future__ import annotations

import asyncio
import functools
import itertools

import msgspec
import pytest

from hopline.cluster.membership.advertiser import RouteAdvertiser
from hopline.cluster.membership.announcements import Announcements
from hopline.cluster.membership.responder import RouteResponder
from hopline.cluster.membership.route_freshness import SILENT_ROUNDS
from hopline.cluster.messages.service import REGISTER_ROUTE
from hopline.message import DeliveryError, Message, NotRunningError
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
    def answer(
        responder: RouteResponder, request: Message, node: bytes, uri: str, routes: list[Route] | None = None
    ) -> None:
        if node != responder._me.identity and uri:
            content = responder._advertiser.registration(routes or responder._advertiser.advertised())
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
        advertiser._unconfirmed = Announcements(repeat_after=1e6)

    monkeypatch.setattr(RouteAdvertiser, "publish_unconfirmed", publish_once)
    assert not run_quiet_network(3, changes_are_known_after_an_outage)


UNTIL_SILENT = CLUSTER.missing_heartbeats * CLUSTER.heartbeat_interval + 1.0


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_crashed_node_is_unknown_after_two_heartbeats_and_a_second_where_it_was_sent_to(is_noticed: bool) -> None:
    async def a_node_crashes(quiet: QuietNetwork) -> tuple[set[Route], set[Route]]:
        crashing, asking, stranger = quiet.nodes
        await asking.ask(crashing)
        crashing.transport.crash(is_noticed=is_noticed)
        await asyncio.sleep(UNTIL_SILENT)
        return asking.knows(crashing), stranger.knows(crashing)

    known, known_to_stranger = run_quiet_network(3, a_node_crashes)
    assert not known
    assert known_to_stranger


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_crashed_node_is_noticed_by_the_first_one_that_sends_to_it(is_noticed: bool) -> None:
    async def a_node_crashes(quiet: QuietNetwork) -> None:
        crashing, stranger = quiet.nodes
        crashing.transport.crash(is_noticed=is_noticed)
        await asyncio.sleep(10 * UNTIL_SILENT)
        asking = asyncio.create_task(stranger.ask(crashing))
        await asyncio.sleep(UNTIL_SILENT)
        assert not stranger.knows(crashing)
        with pytest.raises(DeliveryError):
            await asking

    run_quiet_network(2, a_node_crashes)


def test_a_crashed_node_that_nobody_sends_to_expires_with_its_routes() -> None:
    cluster = msgspec.structs.replace(CLUSTER, routes_period=20.0)

    async def a_node_crashes(quiet: QuietNetwork) -> tuple[bool, bool]:
        crashing, *strangers = quiet.nodes
        await asyncio.sleep(10.0)  # until links that only told routes are closed, whose ends would be noticed
        crashing.transport.crash(is_noticed=True)
        await asyncio.sleep(2.0)
        at_first = all(node.knows(crashing) for node in strangers)
        await asyncio.sleep((SILENT_ROUNDS + 1) * 1.1 * cluster.routes_period)
        return at_first, any(node.knows(crashing) for node in strangers)

    assert run_quiet_network(3, a_node_crashes, cluster) == (True, False)


def test_nodes_that_do_not_talk_to_each_other_keep_no_connection() -> None:
    async def talk(quiet: QuietNetwork) -> list[tuple[int, int]]:
        asking, answering, *_ = quiet.nodes
        await asking.ask(answering)
        await asyncio.sleep(10.0)  # links that only told routes are closed
        return [(node.links, node.membership.health.watched) for node in quiet.nodes]

    assert run_quiet_network(5, talk) == [(1, 1), (1, 1), (0, 0), (0, 0), (0, 0)]


def test_nodes_find_each_other_again_after_a_partition() -> None:
    async def the_network_is_cut(quiet: QuietNetwork) -> None:
        one, other, _ = quiet.nodes
        await one.ask(other)
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
