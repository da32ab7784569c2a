"""Which domain may change what is known of a node: members of another domain, and strangers, redirect nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hopline.cluster.messages.service import (
    DISCOVER_ROUTE,
    REGISTER_ROUTE,
    UNREGISTER_NODE,
    UNREGISTER_ROUTE,
    read,
    registration,
    routes_of,
    unregistration,
)
from hopline.cluster.messages.service_pb2 import RegisterExternalMessageRoute, UnregisterNode
from hopline.message import Message, MessageIdentifier, new_actor_identity, new_hub_identity
from hopline.routing import Route
from hopline.security import Domain, DomainSecurity, new_key
from tests.cluster.member_world import World

NODE = b"node"
HOME, ELSEWHERE = "tcp://10.0.0.5:5101", "tcp://10.6.6.6:5101"
HEALTH, OTHER_HEALTH = "tcp://10.0.0.5:5102", "tcp://10.6.6.6:5102"
HUB = Route(new_hub_identity())
ORDER = Route(new_actor_identity(), MessageIdentifier(b"ORDER"))
PAYMENT = Route(new_actor_identity(), MessageIdentifier(b"PAYMENT"))
NEWS = Route(new_actor_identity(), MessageIdentifier(b"NEWS"))

SIGNED_AND_WEAKER = pytest.mark.parametrize("weaker", ["payments", "news"])


class Domains(World):
    """A member of two signed domains and an unsigned one, the strongest of which is defined in the middle."""

    def __init__(self) -> None:
        news = Domain("news", identities=["NEWS"], unsigned=True)
        orders = Domain("orders", new_key(), ["ORDER"])
        payments = Domain("payments", new_key(), ["PAYMENT"])
        super().__init__(DomainSecurity([news, orders, payments], clock=lambda: 0.0))

    @property
    def refused(self) -> dict[str, int]:
        return dict(self.member.traffic.refused)

    def announce(
        self, domain: str, routes: Iterable[Route], uri: str = HOME, health_uri: str = HEALTH, interval: float = 1.0
    ) -> None:
        self.receive_in(domain, REGISTER_ROUTE, registration(uri, NODE, health_uri, interval, routes))

    def withdraw(self, domain: str, *routes: Route) -> None:
        self.receive_in(domain, UNREGISTER_ROUTE, unregistration(HOME, NODE, routes))

    def say_goodbye(self, domain: str) -> None:
        self.receive_in(domain, UNREGISTER_NODE, UnregisterNode(uri=HOME, receiver_node_identity=NODE))


@pytest.fixture
def world() -> Domains:
    """Return a member that knows a node from all three domains, as every node with a hub is known."""
    world = Domains()
    for domain in ("news", "orders", "payments"):
        world.announce(domain, [HUB])
    world.announce("orders", [ORDER])
    assert world.where == {NODE: HOME}
    assert not world.refused
    world.gone.clear()
    return world


@SIGNED_AND_WEAKER
def test_a_weaker_domain_never_moves_a_node(world: Domains, weaker: str) -> None:
    world.announce(weaker, [HUB], ELSEWHERE, HEALTH)
    world.announce(weaker, [HUB], HOME, OTHER_HEALTH)
    world.announce(weaker, [HUB], interval=0.001)  # it would be taken for dead at once
    assert world.where == {NODE: HOME}
    world.member.watch(NODE)
    assert world.subscribed == {HEALTH}
    assert world.refused == {"moved by another domain": 3}


def test_the_strongest_domain_moves_a_node(world: Domains) -> None:
    world.announce("orders", [HUB], ELSEWHERE, OTHER_HEALTH)
    assert world.where == {NODE: ELSEWHERE}
    world.member.watch(NODE)
    assert world.subscribed == {OTHER_HEALTH}
    world.announce("payments", [HUB], ELSEWHERE, OTHER_HEALTH)
    assert not world.refused


@pytest.mark.parametrize("first", ["payments", "news"])
def test_a_weaker_domain_gains_nothing_by_announcing_a_node_first(first: str) -> None:
    world = Domains()
    fake = Route(new_hub_identity())
    world.announce(first, [fake], ELSEWHERE, OTHER_HEALTH)
    world.announce("orders", [HUB])
    assert world.where == {NODE: HOME}
    world.member.watch(NODE)
    assert world.subscribed == {HEALTH}
    assert world.gone == [NODE]  # with all its routes
    world.announce(first, [HUB], ELSEWHERE, OTHER_HEALTH)
    assert world.where == {NODE: HOME}


def test_routes_of_an_unsigned_domain_are_dropped_when_a_signed_one_announces_the_node() -> None:
    world = Domains()
    world.announce("news", [Route(new_hub_identity()) for _ in range(9_999)])  # it would leave no room for others
    world.announce("orders", [HUB, ORDER])
    assert world.gone == [NODE]
    assert world.learned[-2:] == [HUB, ORDER]
    assert not world.refused


def test_an_unsigned_domain_adds_nothing_to_a_node_that_a_signed_one_knows(world: Domains) -> None:
    learned = list(world.learned)
    world.announce("news", [Route(new_hub_identity())])
    world.announce("news", [NEWS])
    assert world.learned == learned
    assert world.refused == {"added by an unsigned domain": 2}


def test_a_signed_domain_announces_messages_of_unsigned_domains_but_not_of_other_signed_ones(world: Domains) -> None:
    world.announce("orders", [NEWS])
    assert world.learned[-1] == NEWS
    world.announce("payments", [ORDER])
    assert world.refused == {"wrong domain": 1}


@SIGNED_AND_WEAKER
def test_a_weaker_domain_never_withdraws_a_hub(world: Domains, weaker: str) -> None:
    world.withdraw(weaker, HUB)
    assert world.forgotten == []
    world.withdraw("orders", HUB)
    assert world.forgotten == [(NODE, HUB)]


def test_a_weaker_signed_domain_withdraws_its_own_messages_only(world: Domains) -> None:
    world.announce("payments", [PAYMENT])
    world.withdraw("payments", ORDER, PAYMENT)
    assert world.forgotten == [(NODE, PAYMENT)]


def test_an_unsigned_domain_withdraws_nothing_of_a_node_that_a_signed_one_knows(world: Domains) -> None:
    world.announce("orders", [NEWS])
    world.withdraw("news", NEWS, HUB)
    world.say_goodbye("news")
    assert world.forgotten == []
    assert world.gone == []
    assert world.refused["removed by an unsigned domain"] == 2
    world.withdraw("orders", NEWS)
    assert world.forgotten == [(NODE, NEWS)]


def test_a_node_is_removed_when_every_signed_domain_has_withdrawn_it(world: Domains) -> None:
    world.say_goodbye("orders")
    assert world.gone == []
    world.announce("news", [HUB], ELSEWHERE, OTHER_HEALTH)
    assert world.where == {NODE: HOME}
    world.say_goodbye("payments")
    assert world.gone == [NODE]


def test_without_signatures_any_announcement_counts() -> None:
    world = World()
    for uri in (HOME, ELSEWHERE):
        world.receive_in("", REGISTER_ROUTE, registration(uri, NODE, HEALTH, 1.0, [HUB]))
    assert world.where == {NODE: ELSEWHERE}
    world.receive_in("", UNREGISTER_ROUTE, unregistration(ELSEWHERE, NODE, [HUB]))
    assert world.forgotten == [(NODE, HUB)]


# -- what this node says itself ----------------------------------------------------------------------------------------


def routes_by_domain(messages: Iterable[Message]) -> dict[str, list[Route]]:
    return {message.domain: routes_of(read(message, RegisterExternalMessageRoute)) for message in messages}


def test_a_node_announces_its_unsigned_messages_in_signed_domains_too_and_in_these_first() -> None:
    world = Domains()
    world.member.announce([NEWS, PAYMENT, HUB])
    world.receive_server_heartbeat()
    assert routes_by_domain(world.announcements()) == {
        "orders": [NEWS, HUB],
        "payments": [NEWS, PAYMENT, HUB],
        "news": [NEWS, HUB],
    }
    assert [message.domain for message in world.announcements()] == ["orders", "payments", "news"]


def test_an_unsigned_message_is_looked_for_in_signed_domains_too() -> None:
    world = Domains()
    world.receive_server_heartbeat()
    world.published.clear()
    for identity in (b"NEWS", b"PAYMENT"):
        world.member.discover(Message.flow_start(identity, b""))
    searches = [message.domain for message in world.published if message.identifier == DISCOVER_ROUTE]
    assert searches == ["orders", "payments", "news", "payments"]
