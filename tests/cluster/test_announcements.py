"""What a node says of its routes, and how it takes it back."""

from __future__ import annotations

import logging

import pytest

from hopline.cluster.membership.announcements import Announcements, of_any_actor
from hopline.cluster.messages.service import REGISTER_ROUTE, REQUEST_CLUSTER_ROUTES, UNREGISTER_ROUTE, read
from hopline.cluster.messages.service_pb2 import (
    RegisterExternalMessageRoute,
    RequestClusterMessageRoutes,
    UnregisterMessageRoute,
)
from hopline.message import Message, MessageIdentifier, new_actor_identity, new_hub_identity
from hopline.routing import Route
from tests.cluster.member_world import SERVERS, World

ORDER = MessageIdentifier(b"ORDER")
DOMAIN = "shop"
REPEAT_AFTER = 30.0


def test_a_message_is_withdrawn_without_naming_the_actor_and_a_hub_by_its_name() -> None:
    announcements = Announcements(REPEAT_AFTER)
    hub = Route(new_hub_identity())
    announcements.withdraw(DOMAIN, Route(new_actor_identity(), ORDER), is_handled=False)
    announcements.withdraw(DOMAIN, hub, is_handled=False)
    assert announcements.grouped() == {(DOMAIN, False): [of_any_actor(ORDER), hub]}
    assert not announcements.is_withdrawn
    announcements.confirm(DOMAIN, [of_any_actor(ORDER), hub], 0.0, is_announced=False)
    assert announcements.is_withdrawn
    assert not announcements


def test_a_message_that_another_actor_handles_is_not_withdrawn_and_the_gone_actor_not_announced() -> None:
    announcements = Announcements(REPEAT_AFTER)
    first, second = (Route(new_actor_identity(), ORDER) for _ in range(2))
    announcements.announce(DOMAIN, first)
    announcements.announce(DOMAIN, second)
    announcements.withdraw(DOMAIN, first, is_handled=True)
    assert announcements.grouped() == {(DOMAIN, True): [second]}


def test_a_message_that_is_handled_again_is_not_withdrawn_any_more() -> None:
    announcements = Announcements(REPEAT_AFTER)
    first, second = (Route(new_actor_identity(), ORDER) for _ in range(2))
    announcements.withdraw(DOMAIN, first, is_handled=False)
    announcements.announce(DOMAIN, second)
    assert announcements.grouped() == {(DOMAIN, True): [second]}


def test_a_confirmed_change_is_published_once_more_and_not_a_third_time() -> None:
    announcements = Announcements(REPEAT_AFTER)
    kept, withdrawn = Route(new_hub_identity()), Route(new_hub_identity())
    announcements.announce(DOMAIN, kept)
    announcements.withdraw(DOMAIN, withdrawn, is_handled=False)
    assert not announcements.is_confirmed
    for now in (0.0, REPEAT_AFTER):
        announcements.confirm(DOMAIN, [kept], now, is_announced=True)
        announcements.confirm(DOMAIN, [withdrawn], now, is_announced=False)
        assert not announcements
        assert not announcements.repeat_due(now + REPEAT_AFTER - 0.1)
        assert announcements.repeat_due(now + REPEAT_AFTER) == (now == 0.0)
        assert announcements.is_confirmed  # also while the repetition is under way: others know of the changes
        assert announcements.is_withdrawn
        if not now:
            assert announcements.grouped() == {(DOMAIN, True): [kept], (DOMAIN, False): [withdrawn]}


def test_a_change_that_was_superseded_is_not_repeated() -> None:
    announcements = Announcements(REPEAT_AFTER)
    hub, actor = Route(new_hub_identity()), Route(new_actor_identity(), ORDER)
    announcements.announce(DOMAIN, hub)
    announcements.withdraw(DOMAIN, actor, is_handled=False)
    announcements.confirm(DOMAIN, [hub], 0.0, is_announced=True)
    announcements.confirm(DOMAIN, [of_any_actor(ORDER)], 0.0, is_announced=False)
    announcements.withdraw(DOMAIN, hub, is_handled=False)
    announcements.announce(DOMAIN, actor)
    assert not announcements.repeat_due(REPEAT_AFTER)
    assert announcements.grouped() == {(DOMAIN, False): [hub], (DOMAIN, True): [actor]}


def test_announcements_that_never_come_back_are_logged_once_with_a_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()

    def errors() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]

    def pass_seconds(count: int) -> None:
        for _ in range(count):
            world.receive_server_heartbeat()
            world.pass_time(1.0)

    world.member.announce([world.route])
    pass_seconds(9)
    assert not errors()
    pass_seconds(60)
    (error,) = errors()
    for part in (SERVERS[0].broadcast_uri, SERVERS[0].unicast_uri, "wire_format"):
        assert part in error
    for _ in range(60):  # at last it comes back
        world.member.receive_broadcast(world.announcements()[-1])
        pass_seconds(1)
    assert len(errors()) == 1
    world.member.announce([Route(new_hub_identity())])
    pass_seconds(60)
    assert len(errors()) == 2


class Staffed(World):
    """A member with an actor and a hub, which records what it sends."""

    def __init__(self) -> None:
        self.actor = Route(new_actor_identity(), ORDER)
        self.sent: list[Message] = []
        super().__init__()

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        routes = [self.route, self.actor]
        return [route for route in routes if not identifiers or route.identifier in identifiers]

    def send(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        self.sent.append(message)


def said_receivers(message: Message) -> list[bytes]:
    content: RegisterExternalMessageRoute | UnregisterMessageRoute
    if message.identifier == REGISTER_ROUTE:
        content = read(message, RegisterExternalMessageRoute)
    else:
        content = read(message, UnregisterMessageRoute)
    return [route.receiver_identity for route in content.routes]


def test_a_retiring_node_withdraws_its_messages_and_no_longer_announces_its_actors() -> None:
    world = Staffed()
    world.member.announce(world.advertised())
    world.receive_server_heartbeat()
    world.published.clear()
    world.member.retire()
    world.pass_time(0.1)
    receivers = {message.identifier: said_receivers(message) for message in world.published}
    assert receivers == {REGISTER_ROUTE: [world.route.receiver], UNREGISTER_ROUTE: [b""]}
    question = RequestClusterMessageRoutes(requestor_uri="tcp://10.0.0.2:5101", requestor_node_identity=b"other")
    world.receive_in("", REQUEST_CLUSTER_ROUTES, question)
    assert [said_receivers(message) for message in world.sent] == [[world.route.receiver]]
    for message in list(world.published):
        world.member.receive_broadcast(message)
    assert world.member.is_withdrawn
    world.published.clear()
    world.pass_time(10.0)  # paused for so long that others may have forgotten it
    assert [said_receivers(message) for message in world.announcements()] == [[world.route.receiver]]
