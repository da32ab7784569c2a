"""Answers that were postponed or lost: when each is sent, how often, and how many are remembered."""

from __future__ import annotations

from random import Random

from hopline.cluster.membership.owed_answers import FIRST_PAUSE, REPEATS, OwedAnswer, OwedAnswers

CAPACITY = 10
NODE = b"node"


def to(node: bytes, domain: str = "") -> OwedAnswer:
    return OwedAnswer(node, f"tcp://10.0.0.1:{len(node)}", domain)


def owed_answers() -> OwedAnswers:
    return OwedAnswers(CAPACITY, Random(1))


def seconds_until_due(owed: OwedAnswers, now: float) -> float:
    later = now
    while not owed.due(later):
        later += 0.1
        assert later < now + 1_000.0
    return later - now


def test_what_arrived_is_not_sent_again() -> None:
    owed = owed_answers()
    owed.sent(to(NODE), 0.0)
    assert not owed.due(1_000.0)


def test_a_lost_answer_is_sent_again_after_ever_longer_pauses_and_then_no_more() -> None:
    owed = owed_answers()
    owed.sent(to(NODE), 0.0)
    now = 0.0
    for repeat in range(REPEATS):
        owed.lost(NODE, "", now)
        owed.lost(NODE, "", now)  # noticed twice
        pause = seconds_until_due(owed, now)
        assert FIRST_PAUSE * 2**repeat <= pause + 0.1
        assert pause <= FIRST_PAUSE * 2**repeat * 1.5 + 0.1
        now += pause
        assert owed.due(now) == [to(NODE)]
        owed.sent(to(NODE), now)
    owed.lost(NODE, "", now)
    assert not owed.due(now + 1_000.0)
    assert now < 100.0


def test_answers_that_were_lost_together_are_not_sent_again_together() -> None:
    owed = owed_answers()
    nodes = [b"%d" % number for number in range(CAPACITY)]
    for node in nodes:
        owed.sent(to(node), 0.0)
        owed.lost(node, "", 0.0)
    middle = FIRST_PAUSE * 1.25
    assert 0 < len(owed.due(middle)) < len(nodes)
    assert len(owed.due(FIRST_PAUSE * 1.5)) == len(nodes)


def test_what_was_postponed_is_due_at_once_the_latest_first() -> None:
    owed = owed_answers()
    for node in (b"1", b"2", b"3", b"1"):
        owed.postpone(to(node), 0.0)
    assert owed.due(0.0) == [to(b"1"), to(b"3"), to(b"2")]


def test_an_answer_that_was_postponed_has_all_its_repetitions_left() -> None:
    owed = owed_answers()
    owed.postpone(to(NODE), 0.0)
    owed.sent(to(NODE), 0.0)
    owed.lost(NODE, "", 0.0)
    assert seconds_until_due(owed, 0.0) <= FIRST_PAUSE * 1.5 + 0.1


def test_what_is_owed_in_one_domain_says_nothing_about_another() -> None:
    owed = owed_answers()
    owed.sent(to(NODE, "news"), 0.0)
    owed.sent(to(NODE, "orders"), 0.0)
    owed.lost(NODE, "news", 0.0)
    assert owed.due(10.0) == [to(NODE, "news")]
    owed.forget(NODE, "orders")
    owed.lost(NODE, "orders", 0.0)
    assert owed.due(10.0) == [to(NODE, "news")]


def test_a_node_that_left_is_sent_nothing() -> None:
    owed = owed_answers()
    owed.sent(to(NODE), 0.0)
    owed.lost(NODE, "", 0.0)
    owed.forget(NODE, "")
    assert not owed.due(1_000.0)


def test_the_loss_of_an_answer_to_a_stranger_or_of_long_ago_is_ignored() -> None:
    owed = owed_answers()
    owed.lost(b"stranger", "", 0.0)
    owed.sent(to(NODE), 0.0)
    assert not owed.due(100.0)
    owed.lost(NODE, "", 100.0)
    assert not owed.due(1_000.0)


def test_the_number_of_remembered_answers_is_bounded() -> None:
    owed = owed_answers()
    for number in range(100):
        owed.sent(to(b"sent %d" % number), 0.0)
    for number in range(100):
        owed.postpone(to(b"postponed %d" % number), 0.0)
    assert len(owed) == CAPACITY
    assert owed.due(0.0)[0] == to(b"postponed 99")
