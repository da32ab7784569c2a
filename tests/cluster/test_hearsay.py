"""Routes that are said no more are given up, and no others."""

from __future__ import annotations

from hopline.cluster.hearsay import Hearsay
from hopline.message import MessageIdentifier
from hopline.routing import Route

NODE, OTHER = b"node", b"other"
HUB = Route(b"\0hub")
PRICES = Route(b"\1actor", MessageIdentifier(b"Prices", 1))
ORDERS = Route(b"\1actor", MessageIdentifier(b"Orders", 1))


def turns(hearsay: Hearsay, *said: list[tuple[bytes, Route]]) -> list[list[tuple[bytes, Route]]]:
    """Let nodes answer in turn, and give what is given up at the end of each."""
    given_up = []
    for answers in said:
        for node, route in answers:
            hearsay.heard(node, [route])
        given_up.append(hearsay.next_turn())
    return given_up


def test_what_is_said_in_every_turn_stays() -> None:
    assert turns(Hearsay(), *[[(NODE, HUB), (NODE, PRICES)]] * 5) == [[]] * 5


def test_one_answer_may_be_lost_or_name_some_routes_only() -> None:
    everything = [(NODE, HUB), (NODE, PRICES)]
    assert turns(Hearsay(), everything, [(NODE, HUB)], everything, [(NODE, HUB)], everything) == [[]] * 5


def test_a_route_that_was_left_out_twice_is_given_up_once() -> None:
    everything, some = [(NODE, HUB), (NODE, PRICES), (NODE, ORDERS)], [(NODE, HUB), (NODE, ORDERS)]
    assert turns(Hearsay(), everything, some, some, some) == [[], [], [(NODE, PRICES)], []]


def test_a_node_that_says_nothing_at_all_keeps_its_routes() -> None:
    assert turns(Hearsay(), [(NODE, HUB), (NODE, PRICES)], [], [], [], []) == [[]] * 5


def test_what_one_node_says_is_nothing_to_another() -> None:
    hearsay = Hearsay()
    assert turns(hearsay, [(NODE, PRICES), (OTHER, PRICES)], *[[(NODE, PRICES)]] * 4) == [[]] * 5


def test_what_was_taken_back_is_not_given_up_again() -> None:
    hearsay = Hearsay()
    turns(hearsay, [(NODE, HUB), (NODE, PRICES), (OTHER, HUB)])
    hearsay.forget(NODE, PRICES)
    hearsay.forget(NODE, ORDERS)
    hearsay.forget(OTHER)
    hearsay.forget(OTHER, HUB)
    assert turns(hearsay, *[[(NODE, HUB)]] * 4) == [[]] * 4
