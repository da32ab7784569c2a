"""Replays are refused where a domain asks for it, in bounded memory."""

from __future__ import annotations

import os
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopline import Message
from hopline.security import DomainSecurity, SecurityError, SecurityReason, sealed
from hopline.security.replay import GROUP_SPAN, ReplayCache, _Spans
from tests.security.domains import OTHER_KEY, Clock, order, orders, secure

NOW = 1_700_000_000.0
WATCHFUL = orders(refuse_replays=True)


def outcome(security: DomainSecurity, message: Message) -> SecurityReason | None:
    try:
        security.verify(message)
    except SecurityError as error:
        return error.reason
    return None


def test_a_replay_is_refused_inside_the_window_and_stale_after_it() -> None:
    clock = Clock()
    security = secure(WATCHFUL, clock=clock)
    message = security.sign(order())
    assert outcome(security, message) is None
    for later in (0, 1, 29, 5):  # 30 s, and 5 s that clocks may differ
        clock.now += later
        assert outcome(security, message) is SecurityReason.REPLAYED
    clock.now += 0.001
    assert outcome(security, message) is SecurityReason.STALE


def test_a_message_is_stale_after_the_window_though_it_was_never_here() -> None:
    clock = Clock()
    security = secure(orders(refuse_replays=True, window=60, clock_skew=1), clock=clock)
    messages = [security.sign(order()) for _ in range(2)]
    clock.now += 61
    assert outcome(security, messages[0]) is None
    clock.now += 0.001
    assert outcome(security, messages[1]) is SecurityReason.STALE


def test_a_lifetime_does_not_widen_the_window() -> None:
    """It is not covered, so whoever replays could set it."""
    clock = Clock()
    security = secure(WATCHFUL, clock=clock)
    message = security.sign(order())
    clock.now += 36
    assert outcome(security, message.clone(ttl_ticks=2**62)) is SecurityReason.STALE


def test_a_message_from_the_future_is_refused_beyond_the_clock_skew() -> None:
    security = secure(WATCHFUL, clock=Clock(NOW))
    assert outcome(security, secure(WATCHFUL, clock=Clock(NOW + 5)).sign(order())) is None
    assert outcome(security, secure(WATCHFUL, clock=Clock(NOW + 5.001)).sign(order())) is SecurityReason.AHEAD


def test_a_message_of_the_same_content_is_no_replay() -> None:
    security, message = secure(WATCHFUL), order()
    for _ in range(3):
        security.verify(security.sign(message))


def test_a_replay_by_way_of_another_node_is_refused_too() -> None:
    sender, receiver, other = secure(WATCHFUL), secure(WATCHFUL), secure(WATCHFUL)
    message = sender.sign(order(receiver_node_identity=b"receiver"))
    receiver.verify(message)
    other.verify(message)  # who has never seen it, and sends it on to its receiver
    assert outcome(receiver, other.sign(message.add_hop())) is SecurityReason.REPLAYED


def test_a_message_that_changed_in_transit_is_still_a_replay() -> None:
    security = secure(WATCHFUL)
    message = security.sign(order())
    security.verify(message)
    changed = message.add_hop().push_router_address("tcp://10.0.0.1:5001", b"node").clone(ttl_ticks=7)
    assert outcome(security, changed) is SecurityReason.REPLAYED


def test_replays_on_the_control_plane_are_refused_too() -> None:
    security = secure(WATCHFUL)
    message = security.sign_control(order(identity=b"KINO.UNREGNODE"), "orders")
    security.verify_control(message)
    with pytest.raises(SecurityError) as refused:
        security.verify_control(message)
    assert refused.value.reason is SecurityReason.REPLAYED


def test_a_domain_that_does_not_ask_takes_replays_whatever_their_age() -> None:
    clock = Clock()
    security = secure(clock=clock)
    message = security.sign(order())
    security.verify(message)
    clock.now += 1_000_000
    security.verify(message)


def test_forged_messages_do_not_enter_the_cache() -> None:
    security = secure(WATCHFUL)
    message = security.sign(order())
    forged = message.clone(signature=message.signature[:-1] + bytes([message.signature[-1] ^ 1]))
    assert outcome(security, forged) is SecurityReason.WRONG_SIGNATURE
    assert outcome(security, secure(orders(keys=OTHER_KEY)).sign(order())) is SecurityReason.WRONG_SIGNATURE
    assert outcome(security, message) is None


def test_what_was_seen_survives_a_rotation() -> None:
    security = secure(WATCHFUL)
    message = security.sign(order())
    security.verify(message)
    security.rotate("orders", [OTHER_KEY, *WATCHFUL.keys])
    assert outcome(security, message) is SecurityReason.REPLAYED


# -- the cache --------------------------------------------------------------------------------------------------------


def test_a_full_cache_forgets_the_oldest_and_refuses_whatever_is_as_old() -> None:
    clock, domain = Clock(NOW), orders(refuse_replays=True, replay_capacity=10)
    cache = ReplayCache(clock)
    seen = []
    for at in range(50):  # one in each group
        clock.now += GROUP_SPAN / 1000
        seen.append((int(clock.now * 1000), b"%08d" % at))
        assert cache.refusal(domain, *seen[-1]) is None
        assert len(cache) <= 10
    refusals = [cache.refusal(domain, *entry) for entry in seen]
    assert refusals == [SecurityReason.STALE] * 40 + [SecurityReason.REPLAYED] * 10
    # The window has shrunk: what is new but as old as what was forgotten is refused as well.
    assert cache.refusal(domain, seen[39][0], b"new") is SecurityReason.STALE


def test_a_cache_that_is_full_within_one_moment_lets_new_ones_in_until_its_replay_is_stale() -> None:
    cache, domain = ReplayCache(Clock(NOW)), orders(refuse_replays=True, replay_capacity=3)
    now = int(NOW * 1000)
    assert [cache.refusal(domain, now, bytes([at])) for at in range(4)] == [None] * 4
    assert len(cache) == 0
    for at in range(5):
        assert cache.refusal(domain, now, bytes([at])) is SecurityReason.STALE
    assert cache.refusal(domain, now + GROUP_SPAN, b"later") is None


def test_a_clock_ahead_does_not_shut_out_the_others_when_the_cache_is_full() -> None:
    clock, domain = Clock(NOW), orders(refuse_replays=True, replay_capacity=8)
    cache = ReplayCache(clock)
    for at in range(100):
        clock.now += 1
        now = int(clock.now * 1000)
        assert cache.refusal(domain, now + 4_000, b"ahead%d" % at) is None
        assert cache.refusal(domain, now, b"right%d" % at) is None


def test_the_cache_forgets_what_has_become_stale() -> None:
    clock, cache = Clock(NOW), ReplayCache(Clock(NOW))
    cache = ReplayCache(clock)
    for at in range(1_000):
        clock.now += 1
        assert cache.refusal(WATCHFUL, int(clock.now * 1000), b"%d" % at) is None
    assert len(cache) <= 37


def test_what_was_forgotten_stays_refused_when_the_clock_goes_back() -> None:
    clock = Clock(NOW)
    cache = ReplayCache(clock)
    old = (int(NOW * 1000), b"old")
    assert cache.refusal(WATCHFUL, *old) is None
    clock.now += 100
    assert cache.refusal(WATCHFUL, int(clock.now * 1000), b"new") is None
    clock.now -= 100
    assert cache.refusal(WATCHFUL, *old) is SecurityReason.STALE


def test_a_clock_that_was_an_hour_ahead_is_told_and_shuts_nobody_out_when_it_is_set_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock(NOW)
    cache = ReplayCache(clock)

    def take(name: bytes) -> tuple[int, bytes]:
        entry = (int(clock.now * 1000), name)
        assert cache.refusal(WATCHFUL, *entry) is None
        return entry

    before = take(b"before")
    clock.now += 3_600
    ahead = []
    for at in range(100):
        clock.now += 1
        ahead.append(take(b"ahead%d" % at))
    clock.now -= 3_600
    take(b"at once")
    for at in range(200):
        clock.now += 1
        take(b"right%d" % at)
    assert "the clock was set back by 3600 s" in caplog.text
    assert "refused as stale when these come again" in caplog.text
    assert cache.refusal(WATCHFUL, *before) is SecurityReason.STALE
    assert {cache.refusal(WATCHFUL, *entry) for entry in ahead} == {SecurityReason.STALE}
    for entry in ahead:  # when their time comes for the second time
        clock.now = entry[0] / 1000
        assert cache.refusal(WATCHFUL, *entry) is SecurityReason.STALE
    clock.now += 1
    take(b"afterwards")


def test_a_full_memory_of_times_to_come_leaves_room_when_the_clock_is_set_right() -> None:
    clock, domain = Clock(NOW + 3_600), orders(refuse_replays=True, replay_capacity=10)
    cache = ReplayCache(clock)
    for at in range(10):
        assert cache.refusal(domain, int(clock.now * 1000), b"ahead%d" % at) is None
    clock.now = NOW
    now = int(NOW * 1000)
    for at in range(5):
        assert cache.refusal(domain, now, b"right%d" % at) is None
        assert cache.refusal(domain, now, b"right%d" % at) is SecurityReason.REPLAYED


@given(st.lists(st.integers(0, 300), max_size=300))
def test_spans_have_every_number_that_was_added_and_are_few(numbers: list[int]) -> None:
    spans = _Spans()
    for number in numbers:
        spans.add(number)
    assert all(number in spans for number in numbers)
    assert len(spans._firsts) <= 64
    assert spans.last == max(numbers, default=-1)
    if len(set(numbers)) <= 64:
        assert {number for number in range(301) if number in spans} == set(numbers)


def journeys(passing: st.SearchStrategy[int], most: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Make steps: how long ago a message was signed, the time that passes, and which earlier message is replayed."""
    return st.lists(st.tuples(st.integers(-6_000, 40_000), passing, st.integers(0, 30)), max_size=most)


STEADY = journeys(st.integers(0, 400), 200)
JUMPING = journeys(st.integers(-50_000, 50_000), 100)


@given(STEADY | JUMPING, st.integers(1, 20))
@settings(max_examples=100)
def test_nothing_is_ever_accepted_twice_and_the_cache_stays_bounded_however_the_clock_goes(
    steps: list[tuple[int, int, int]], capacity: int
) -> None:
    clock, domain = Clock(NOW), orders(refuse_replays=True, replay_capacity=capacity)
    cache, accepted, numbers = ReplayCache(clock), [], count()
    for age, passing, replayed in steps:
        clock.now += passing / 1000
        entry = (int(clock.now * 1000) - age, b"%d" % next(numbers))
        if cache.refusal(domain, *entry) is None:
            accepted.append(entry)
        if accepted:
            assert cache.refusal(domain, *accepted[replayed % len(accepted)]) is not None
        assert len(cache) <= capacity


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_process_draws_other_nonces_than_its_parent() -> None:
    sealed.header(0)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, sealed.header(0))
        os._exit(0)
    os.waitpid(child, 0)
    drawn = os.read(reading, 17)
    os.close(reading)
    os.close(writing)
    assert len(drawn) == 17
    assert drawn != sealed.header(0)
