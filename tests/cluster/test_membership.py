"""When a member announces itself again, and what it remembers of others."""

from __future__ import annotations

from hopline.cluster import ClusterSettings
from hopline.cluster.membership.owed_answers import REPEATS
from hopline.cluster.messages.service import (
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    registration,
    service_message,
)
from hopline.cluster.messages.service_pb2 import RequestClusterMessageRoutes
from hopline.message import new_hub_identity
from hopline.routing import Route
from tests.cluster.member_world import SERVERS, World, joined_world


def test_a_confirmed_announcement_is_not_repeated() -> None:
    world = joined_world()
    for _ in range(10):
        world.receive_server_heartbeat()
        world.pass_time(1.0)
    assert not world.announcements()


def test_a_node_announces_itself_again_after_a_pause() -> None:
    world = joined_world()
    world.pass_time(10.0)
    assert len(world.announcements()) == 1


def test_after_a_long_pause_a_node_announces_itself_when_it_joins_again() -> None:
    world = joined_world()
    world.pass_time(20.0)
    assert world.followed == SERVERS
    assert not world.announcements()
    world.pass_time(0.05)
    world.receive_server_heartbeat()
    assert len(world.announcements()) == 1


def test_nodes_that_announce_nothing_are_not_remembered() -> None:
    world = joined_world()
    for number in range(100):
        content = registration("tcp://127.0.0.1:5", b"node %d" % number, "tcp://127.0.0.1:6", 1.0, [])
        world.member.receive(service_message(REGISTER_ROUTE, content))
    assert not world.member.health


def test_the_routes_of_one_node_are_bounded() -> None:
    world = joined_world()
    known = [Route(new_hub_identity()) for _ in range(ClusterSettings().known_routes)]
    for hubs in (known, known[:1], [Route(new_hub_identity())]):
        content = registration("tcp://127.0.0.1:5", b"node", "tcp://127.0.0.1:6", 1.0, hubs)
        world.member.receive(service_message(REGISTER_ROUTE, content))
    assert world.learned == [*known, known[0]]
    assert world.member.traffic.refused == {"too many routes": 1}


def test_a_replayed_request_is_answered_once_in_a_while() -> None:
    world = World()
    question = RequestClusterMessageRoutes(requestor_uri="tcp://10.0.0.2:5101", requestor_node_identity=b"other")
    for _ in range(10):
        world.receive_in("", REQUEST_CLUSTER_ROUTES, question)
        world.pass_time(0.01)
    assert world.member.traffic.sent == 1
    assert world.member.traffic.refused["asked too often"] == 9
    world.pass_time(1.0)
    world.receive_in("", REQUEST_CLUSTER_ROUTES, question)
    assert world.member.traffic.sent == 2


def ask(world: World) -> None:
    question = RequestClusterMessageRoutes(requestor_uri="tcp://10.0.0.2:5101", requestor_node_identity=b"other")
    world.receive_in("", REQUEST_CLUSTER_ROUTES, question)


def test_a_request_that_came_too_soon_is_answered_later_once() -> None:
    world = joined_world()
    content = registration("tcp://10.0.0.2:5101", b"other", "tcp://10.0.0.2:6", 1.0, [Route(new_hub_identity())])
    world.receive_in("", REGISTER_ROUTE, content)
    for _ in range(10):
        ask(world)
    assert len(world.sent) == 1
    for _ in range(100):
        world.pass_time(0.1)
    assert len(world.sent) == 2


def test_a_lost_answer_is_sent_again_a_few_times() -> None:
    world = joined_world()
    content = registration("tcp://10.0.0.2:5101", b"other", "tcp://10.0.0.2:6", 1.0, [Route(new_hub_identity())])
    world.receive_in("", REGISTER_ROUTE, content)
    ask(world)
    for _ in range(300):
        world.member.answer_lost(b"other")
        world.pass_time(1.0)
    assert len(world.sent) == 1 + REPEATS


def test_a_node_that_asks_and_stays_unknown_is_asked_for_its_routes() -> None:
    world = joined_world()
    ask(world)
    assert [message.identifier for message in world.sent] == [REGISTER_ROUTE]
    for _ in range(30):
        world.pass_time(0.1)
    assert [message.identifier for message in world.sent][-1] == REQUEST_CLUSTER_ROUTES


def test_a_node_that_is_paused_again_and_again_announces_itself_now_and_then() -> None:
    world = joined_world()
    announced = 0
    for _ in range(20):
        world.pass_time(6.0)
        world.receive_server_heartbeat()
        for announcement in world.announcements():
            world.member.receive_broadcast(announcement)
        announced += len(world.announcements())
        world.published.clear()
    assert announced == 10  # in two minutes: at most once in ten seconds, so in every second pause
