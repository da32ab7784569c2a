"""Floods of announcements: real nodes keep their places, and each announcement costs what it says."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from hopline import ArgumentError
from hopline.cluster import ClusterSettings
from hopline.cluster.messages.service import (
    HEARTBEAT,
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    UNREGISTER_NODE,
    registration,
    service_message,
)
from hopline.cluster.messages.service_pb2 import HeartBeat, UnregisterNode
from hopline.message import Message, MessageIdentifier, new_actor_identity, new_hub_identity
from hopline.routing import Route
from hopline.security import Domain, DomainSecurity, new_key
from tests.cluster.member_world import World

SLOTS = 20
FEW = ClusterSettings(known_nodes=SLOTS)


def two_domains() -> World:
    orders = Domain("orders", new_key(), ["ORDER"])
    return World(DomainSecurity([Domain("news", unsigned=True), orders], clock=lambda: 0.0), FEW)


def announce(world: World, node: bytes, *, domain: str = "", interval: float = 1.0, health_port: int = 2) -> None:
    health_uri = f"tcp://10.0.0.5:{health_port}"
    content = registration("tcp://10.0.0.5:1", node, health_uri, interval, [Route(new_hub_identity())])
    world.receive_in(domain, REGISTER_ROUTE, content)


def beat(world: World, node: bytes) -> None:
    world.member.receive_heartbeat(service_message(HEARTBEAT, HeartBeat(socket_identity=node)))


def pass_time(world: World, seconds: float) -> None:
    for _ in range(round(seconds / 0.25)):
        world.receive_server_heartbeat()
        world.pass_time(0.25)


def world_in_a_round(settings: ClusterSettings = FEW) -> World:
    """Return a member that has joined, and asks for all routes again within eleven seconds."""
    world = World(settings=settings)
    world.receive_server_heartbeat()
    return world


def begin_another_round(world: World) -> None:
    """Wait until the member asks for all routes again, so much later that another round of answers begins."""
    pass_time(world, FEW.routes_period / 2)
    requests = number_of_requests(world)
    deadline = world.now + 200.0
    while number_of_requests(world) == requests:
        assert world.now < deadline
        pass_time(world, 0.25)


def number_of_requests(world: World) -> int:
    return sum(message.identifier == REQUEST_CLUSTER_ROUTES for message in world.published)


def known(world: World, name: str, count: int) -> int:
    return sum(b"%s %d" % (name.encode(), number) in world.member.health for number in range(count))


def test_a_flood_does_not_lock_out_real_nodes_that_come_later() -> None:
    world = World(settings=FEW)
    announce(world, b"early")
    world.member.watch(b"early")
    for number in range(10 * SLOTS):
        announce(world, b"fake %d" % number, interval=300.0)
    announce(world, b"late")
    assert b"early" in world.member.health
    assert b"late" in world.member.health
    assert len(world.member.health) == SLOTS
    assert not world.member.traffic.refused


def test_a_flood_drives_out_no_node_that_has_answered_two_requests() -> None:
    world = world_in_a_round()
    for _ in range(2):
        for number in range(10):
            announce(world, b"real %d" % number)
        begin_another_round(world)
    for number in range(100 * SLOTS):
        announce(world, b"fake %d" % number)
    assert known(world, "real", 10) == 10
    assert len(world.member.health) == SLOTS


def test_a_flood_that_answers_every_request_leaves_a_quarter_of_the_slots_to_real_nodes() -> None:
    world = world_in_a_round()
    for _ in range(3):
        for number in range(SLOTS):
            announce(world, b"fake %d" % number)
        begin_another_round(world)
    for number in range(SLOTS // 4):
        announce(world, b"late %d" % number)
    assert known(world, "late", SLOTS // 4) == SLOTS // 4
    assert len(world.member.health) == SLOTS


def test_a_flood_drives_out_no_node_that_this_one_sends_to() -> None:
    world = World(settings=FEW)
    for number in range(10):
        announce(world, b"real %d" % number)
        world.member.watch(b"real %d" % number)
    for number in range(100 * SLOTS):
        announce(world, b"fake %d" % number)
        beat(world, b"fake %d" % number)  # at the address of another
    assert known(world, "real", 10) == 10
    assert len(world.member.health) == SLOTS


def test_announcements_cost_no_subscription_until_something_is_sent_to_their_nodes() -> None:
    world = World()
    for number in range(100):
        announce(world, b"node %d" % number, health_port=number + 1)
    assert not world.subscribed
    world.member.watch(b"node 7")
    world.member.watch(b"a stranger")
    assert world.subscribed == {"tcp://10.0.0.5:8"}
    assert world.member.health.watched == 1
    announce(world, b"node 7", health_port=1_000)
    assert world.subscribed == {"tcp://10.0.0.5:1000"}
    world.receive_in("", UNREGISTER_NODE, UnregisterNode(uri="tcp://10.0.0.5:1", receiver_node_identity=b"node 7"))
    assert not world.subscribed


def test_nodes_that_nothing_is_sent_to_are_bounded() -> None:
    world = World(settings=ClusterSettings(unheard_nodes=5))
    for number in range(20):
        announce(world, b"real %d" % number)
        world.member.watch(b"real %d" % number)
    for number in range(100):
        announce(world, b"fake %d" % number)
    assert len(world.member.health) == 25
    assert known(world, "real", 20) == 20


def test_nodes_that_this_one_sends_to_are_not_replaced() -> None:
    world = World(settings=FEW)
    for number in range(SLOTS):
        announce(world, b"node %d" % number)
        world.member.watch(b"node %d" % number)
    announce(world, b"one too many")
    assert b"one too many" not in world.member.health
    assert world.member.traffic.refused == {"too many nodes": 1}


def test_a_flood_in_one_domain_takes_no_slots_of_another() -> None:
    world = two_domains()
    for number in range(SLOTS):
        announce(world, b"fake %d" % number, domain="news")
        world.member.watch(b"fake %d" % number)  # these are not replaced
    for number in range(SLOTS):
        announce(world, b"real %d" % number, domain="orders")
    assert len(world.member.health) == 2 * SLOTS
    assert not world.member.traffic.refused


def test_a_node_with_too_long_a_heartbeat_interval_is_refused() -> None:
    world = World()
    announce(world, b"yearly", interval=365 * 86_400.0)
    announce(world, b"rare", interval=300.0)
    assert b"yearly" not in world.member.health
    assert b"rare" in world.member.health
    assert world.member.traffic.refused == {"heartbeat interval too long": 1}


def test_settings_that_other_nodes_would_refuse_are_refused() -> None:
    with pytest.raises(ArgumentError, match="heartbeat_interval"):
        ClusterSettings(heartbeat_interval=301.0)
    assert ClusterSettings(heartbeat_interval=301.0, longest_heartbeat_interval=600.0).heartbeat_interval == 301.0


def calls_to_take(world: World, message: Message) -> int:
    """Return how many functions are called to take a message, those of C included."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        world.member.receive(message)
    finally:
        sys.setprofile(None)
    return calls


def test_the_cost_of_an_announcement_depends_on_its_own_routes_only() -> None:
    world = World()
    actor = new_actor_identity()
    routes = [Route(actor, MessageIdentifier(b"%d" % number)) for number in range(9_990)]

    def announcement(of: list[Route]) -> Message:
        return service_message(REGISTER_ROUTE, registration("tcp://10.0.0.5:1", b"n", "tcp://10.0.0.5:2", 1.0, of))

    world.member.receive(announcement(routes[:1]))
    with_one = calls_to_take(world, announcement(routes[:1]))
    world.member.receive(announcement(routes))
    with_many = calls_to_take(world, announcement(routes[:1]))
    assert with_many <= with_one + 10
