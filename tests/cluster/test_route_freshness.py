"""Routes that are said no more are given up, and no others."""

from __future__ import annotations

from hopline.cluster.membership.route_freshness import RouteFreshness
from hopline.message import MessageIdentifier
from hopline.routing import Route

NODE, OTHER = b"node", b"other"
HUB = Route(b"\0hub")
PRICES = Route(b"\1actor", MessageIdentifier(b"Prices", 1))
ORDERS = Route(b"\1actor", MessageIdentifier(b"Orders", 1))


def turns(freshness: RouteFreshness, *said: list[tuple[bytes, Route]]) -> list[list[tuple[bytes, Route]]]:
    """Let nodes answer in turn, and give what is given up at the end of each."""
    given_up = []
    for answers in said:
        for node, route in answers:
            freshness.record(node, [route])
        given_up.append(freshness.next_round())
    return given_up


def test_routes_that_are_advertised_in_every_round_stay() -> None:
    assert turns(RouteFreshness(), *[[(NODE, HUB), (NODE, PRICES)]] * 5) == [[]] * 5


def test_one_answer_may_be_lost_or_name_some_routes_only() -> None:
    everything = [(NODE, HUB), (NODE, PRICES)]
    assert turns(RouteFreshness(), everything, [(NODE, HUB)], everything, [(NODE, HUB)], everything) == [[]] * 5


def test_a_route_that_is_missing_twice_expires_once() -> None:
    everything, some = [(NODE, HUB), (NODE, PRICES), (NODE, ORDERS)], [(NODE, HUB), (NODE, ORDERS)]
    assert turns(RouteFreshness(), everything, some, some, some) == [[], [], [(NODE, PRICES)], []]


def test_a_node_that_does_not_answer_keeps_its_routes() -> None:
    assert turns(RouteFreshness(), [(NODE, HUB), (NODE, PRICES)], [], [], [], []) == [[]] * 5


def test_the_answer_of_one_node_does_not_concern_another() -> None:
    freshness = RouteFreshness()
    assert turns(freshness, [(NODE, PRICES), (OTHER, PRICES)], *[[(NODE, PRICES)]] * 4) == [[]] * 5


def test_a_withdrawn_route_does_not_expire() -> None:
    freshness = RouteFreshness()
    turns(freshness, [(NODE, HUB), (NODE, PRICES), (OTHER, HUB)])
    freshness.forget(NODE, PRICES)
    freshness.forget(NODE, ORDERS)
    freshness.forget(OTHER)
    freshness.forget(OTHER, HUB)
    assert turns(freshness, *[[(NODE, HUB)]] * 4) == [[]] * 4
