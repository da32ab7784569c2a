"""Peers that fell silent, and are heard again or not."""

from __future__ import annotations

from hopline.cluster import ClusterSettings
from hopline.cluster.membership.route_freshness import SILENT_ROUNDS
from hopline.cluster.messages.service import (
    HEARTBEAT,
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    registration,
    service_message,
)
from hopline.cluster.messages.service_pb2 import HeartBeat
from hopline.message import new_hub_identity
from hopline.routing import Route
from tests.cluster.member_world import World, joined_world

PEER = b"peer"
HEALTH = "tcp://10.0.0.5:2"
TEN_MINUTES = 600.0


def announce(world: World, node: bytes = PEER) -> None:
    content = registration("tcp://10.0.0.5:1", node, HEALTH, 1.0, [Route(new_hub_identity())])
    world.receive_in("", REGISTER_ROUTE, content)


def beat(world: World) -> None:
    world.member.receive_heartbeat(service_message(HEARTBEAT, HeartBeat(socket_identity=PEER)))


def pass_time(world: World, seconds: float) -> None:
    for _ in range(round(seconds / 0.25)):
        world.receive_server_heartbeat()
        world.pass_time(0.25)


def world_that_lost_a_peer() -> World:
    world = joined_world()
    announce(world)
    world.member.watch(PEER)
    pass_time(world, 3.0)
    assert PEER not in world.member.health
    return world


def test_a_peer_that_is_heard_again_is_sent_all_routes_and_asked_for_its_own() -> None:
    world = world_that_lost_a_peer()
    assert world.subscribed == {HEALTH}
    world.sent.clear()
    beat(world)
    assert [message.identifier for message in world.sent] == [REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES]
    assert not world.member.traffic.refused


def test_a_forged_heartbeat_does_not_use_up_the_only_chance_of_a_lost_peer() -> None:
    world = world_that_lost_a_peer()
    beat(world)  # of somebody else: the peer does not answer
    pass_time(world, 60.0)
    assert world.subscribed == {HEALTH}
    world.sent.clear()
    beat(world)
    assert [message.identifier for message in world.sent] == [REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES]
    announce(world)
    assert PEER in world.member.health
    assert not world.subscribed


def test_many_heartbeats_of_a_lost_peer_cause_few_messages() -> None:
    world = world_that_lost_a_peer()
    world.sent.clear()
    exchanges_at = []
    for step in range(round(TEN_MINUTES)):
        exchanges = len(world.sent)
        for _ in range(10):
            beat(world)
        if len(world.sent) > exchanges:
            exchanges_at.append(step)
        pass_time(world, 1.0)
    assert exchanges_at == [0, 5, 15, 35, 75, 135, 195, 255, 315, 375, 435, 495, 555]
    assert len(world.sent) == 2 * len(exchanges_at)
    assert not world.subscribed
    beat(world)
    assert world.member.traffic.refused == {"heartbeat of a stranger": 1}


def test_a_peer_that_announces_itself_is_lost_no_more() -> None:
    world = world_that_lost_a_peer()
    announce(world)
    assert not world.subscribed
    world.sent.clear()
    beat(world)
    assert not world.sent


def test_a_peer_that_cannot_be_reached_is_listened_for_as_well() -> None:
    world = joined_world()
    announce(world)
    world.member.watch(PEER)
    world.member.remove_node(PEER)
    assert world.subscribed == {HEALTH}


def test_a_peer_that_stays_silent_is_listened_for_ten_minutes() -> None:
    world = world_that_lost_a_peer()
    pass_time(world, TEN_MINUTES - 10.0)
    assert world.subscribed == {HEALTH}
    pass_time(world, 10.0)
    assert not world.subscribed


def test_many_lost_peers_cost_a_bounded_number_of_subscriptions() -> None:
    world = joined_world()
    for number in range(200):
        node = b"peer %d" % number
        content = registration(
            "tcp://10.0.0.5:1", node, f"tcp://10.0.0.5:{number + 2}", 1.0, [Route(new_hub_identity())]
        )
        world.receive_in("", REGISTER_ROUTE, content)
        world.member.watch(node)
    pass_time(world, 3.0)
    assert len(world.member.health) == 0
    assert len(world.subscribed) == 128


# -- nodes that this one sends nothing ---------------------------------------------------------------------------------


def world_with(known: int) -> World:
    """Return a member that has just joined a network of so many nodes."""
    world = World(settings=ClusterSettings(routes_period=10.0))
    for number in range(known):
        announce(world, b"node %d" % number)
    world.receive_server_heartbeat()
    return world


def requests(world: World, seconds: float) -> int:
    world.published.clear()
    pass_time(world, seconds)
    return sum(message.identifier == REQUEST_CLUSTER_ROUTES for message in world.published)


def test_a_node_that_is_sent_nothing_expires_when_it_has_answered_no_request_for_some_rounds() -> None:
    world = world_with(2)
    asked = 0
    began = world.now
    while b"node 1" in world.member.health:
        assert world.now < began + 100.0
        announce(world, b"node 0")
        asked += requests(world, 0.25)
    # The first was on joining, and the next may belong to its round; the last is the one after those without an answer.
    assert asked in (SILENT_ROUNDS, SILENT_ROUNDS + 1)
    assert b"node 0" in world.member.health


def test_all_routes_are_requested_more_rarely_where_more_nodes_have_to_answer() -> None:
    few, many = world_with(50), world_with(1_000)
    assert requests(few, 200.0) >= 18
    assert requests(many, 200.0) <= 4


# -- the failure of a server -------------------------------------------------------------------------------------------


def test_a_node_that_was_without_a_server_for_a_moment_neither_asks_nor_announces_itself() -> None:
    world = World()
    world.receive_server_heartbeat()
    pass_time(world, 15.0)  # the requests of the beginning are over
    for silence, messages in ((10.0, set()), (31.0, {REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES})):
        world.receive_server_heartbeat()
        world.published.clear()
        world.member.follower.on_disconnected(world.now)
        for _ in range(round(silence / 0.25)):
            world.pass_time(0.25)
        world.receive_server_heartbeat()
        pass_time(world, 11.0)
        assert {message.identifier for message in world.published} == messages
