"""Links that only answer: how many there are, and which of them goes when there are too many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hopline.message import Message
from hopline.node.network.answer_links import AnswerLinks

CAPACITY = 3


@dataclass
class FakeLink:
    node: bytes
    uri: str = "tcp://10.0.0.1:5101"
    waiting: int = 0
    is_silent: bool = False

    def offer(self, message: Message) -> bool:
        raise NotImplementedError

    async def room(self) -> None:
        raise NotImplementedError

    @property
    def unsent(self) -> Iterable[Message]:
        raise NotImplementedError


class Askers:
    """Links to whoever asked, and those that were closed."""

    def __init__(self) -> None:
        self.closed: list[bytes] = []
        self.links = AnswerLinks(CAPACITY, self.closed.append)

    def answer(self, *nodes: bytes, domain: str = "", now: float = 0.0, waiting: int = 0) -> None:
        for node in nodes:
            link = FakeLink(node, waiting=waiting, is_silent=bool(waiting))
            self.links.answered(node, domain, link, now)


def test_the_oldest_link_makes_room_for_another() -> None:
    askers = Askers()
    askers.answer(b"1", b"2", b"3", b"1", b"4")
    assert askers.closed == [b"2"]


def test_a_link_whose_answer_has_not_left_is_closed_last() -> None:
    askers = Askers()
    askers.answer(b"silent", waiting=1)
    askers.answer(b"2", b"3", b"4")
    assert askers.closed == [b"2"]


def test_silent_addresses_lock_nobody_out() -> None:
    askers = Askers()
    askers.answer(*(b"%d" % number for number in range(100)), waiting=1)
    askers.answer(b"real")
    assert len(askers.closed) == 101 - CAPACITY
    assert b"real" not in askers.closed


def test_questions_in_one_domain_close_no_links_of_another() -> None:
    askers = Askers()
    askers.answer(b"member", domain="orders")
    askers.answer(*(b"%d" % number for number in range(100)), domain="news")
    assert b"member" not in askers.closed


def test_a_link_that_carries_messages_is_not_closed() -> None:
    askers = Askers()
    askers.answer(b"1")
    askers.links.carries(b"1")
    askers.answer(b"2", b"3", b"4", b"1", b"5")
    assert askers.closed == [b"2"]
    askers.links.close_idle(1_000.0)
    assert b"1" not in askers.closed
    askers.links.closed(b"1")
    askers.answer(b"1", now=1_000.0)
    askers.links.close_idle(2_000.0)
    assert b"1" in askers.closed


def test_a_link_is_closed_when_it_has_been_idle_for_a_while() -> None:
    askers = Askers()
    askers.answer(b"1", now=0.0)
    askers.answer(b"2", now=4.0)
    askers.links.close_idle(6.0)
    assert askers.closed == [b"1"]


def test_a_link_that_is_slow_to_connect_stays_open_until_its_answer_has_left() -> None:
    askers = Askers()
    link = FakeLink(b"slow", waiting=1, is_silent=True)
    askers.links.answered(b"slow", "", link, 0.0)
    askers.links.close_idle(6.0)
    assert askers.closed == []
    link.waiting = 0
    askers.links.close_idle(7.0)
    assert askers.closed == [b"slow"]


def test_few_links_connect_at_the_same_time() -> None:
    askers = Askers()
    askers.answer(b"1", b"2", waiting=1)
    assert askers.links.may_answer(b"3", "", 0.0)
    askers.answer(b"3", waiting=1)
    assert not askers.links.may_answer(b"4", "", 0.0)
    assert askers.links.may_answer(b"4", "news", 0.0)
    assert askers.links.may_answer(b"3", "", 0.0)  # over the link that exists
    askers.links.carries(b"4")
    assert askers.links.may_answer(b"4", "", 0.0)


def test_links_that_are_up_or_have_been_connecting_for_long_keep_nobody_waiting() -> None:
    askers = Askers()
    askers.answer(b"1", waiting=1)
    askers.answer(b"2")
    askers.answer(b"3", now=4.0, waiting=1)
    askers.answer(b"4", now=4.0)
    assert askers.links.may_answer(b"5", "", 4.0)
    askers.answer(b"5", b"6", now=4.0, waiting=1)
    assert not askers.links.may_answer(b"7", "", 4.0)
    assert askers.links.may_answer(b"7", "", 10.0)
