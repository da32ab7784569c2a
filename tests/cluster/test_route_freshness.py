"""Routes that are no longer advertised expire, and no others."""

from __future__ import annotations

from hopline.cluster.membership.route_freshness import RouteFreshness
from hopline.message import MessageIdentifier
from hopline.routing import Route

NODE, OTHER = b"node", b"other"
HUB = Route(b"\0hub")
PRICES = Route(b"\1actor", MessageIdentifier(b"Prices", 1))
ORDERS = Route(b"\1actor", MessageIdentifier(b"Orders", 1))


def rounds(freshness: RouteFreshness, *answers_by_round: list[tuple[bytes, Route]]) -> list[list[tuple[bytes, Route]]]:
    """Let nodes answer in rounds; return the routes that expire at the end of each."""
    expired = []
    for answers in answers_by_round:
        for node, route in answers:
            freshness.record(node, [route])
        expired.append(freshness.next_round())
    return expired


def test_routes_that_are_advertised_in_every_round_stay() -> None:
    assert rounds(RouteFreshness(), *[[(NODE, HUB), (NODE, PRICES)]] * 5) == [[]] * 5


def test_one_answer_may_be_lost_or_name_some_routes_only() -> None:
    everything = [(NODE, HUB), (NODE, PRICES)]
    assert rounds(RouteFreshness(), everything, [(NODE, HUB)], everything, [(NODE, HUB)], everything) == [[]] * 5


def test_a_route_that_is_missing_twice_expires_once() -> None:
    everything, some = [(NODE, HUB), (NODE, PRICES), (NODE, ORDERS)], [(NODE, HUB), (NODE, ORDERS)]
    assert rounds(RouteFreshness(), everything, some, some, some) == [[], [], [(NODE, PRICES)], []]


def test_a_node_that_does_not_answer_keeps_its_routes() -> None:
    assert rounds(RouteFreshness(), [(NODE, HUB), (NODE, PRICES)], [], [], [], []) == [[]] * 5


def test_the_answer_of_one_node_does_not_concern_another() -> None:
    freshness = RouteFreshness()
    assert rounds(freshness, [(NODE, PRICES), (OTHER, PRICES)], *[[(NODE, PRICES)]] * 4) == [[]] * 5


def test_a_withdrawn_route_does_not_expire() -> None:
    freshness = RouteFreshness()
    rounds(freshness, [(NODE, HUB), (NODE, PRICES), (OTHER, HUB)])
    freshness.forget(NODE, PRICES)
    freshness.forget(NODE, ORDERS)
    freshness.forget(OTHER)
    freshness.forget(OTHER, HUB)
    assert rounds(freshness, *[[(NODE, HUB)]] * 4) == [[]] * 4
