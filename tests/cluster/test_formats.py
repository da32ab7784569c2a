"""Which format is written to whom, by what was heard of them."""

from __future__ import annotations

import pytest

from hopline.cluster.formats import COPY, Evidence, PeerFormats, is_copy
from hopline.cluster.service import HEARTBEAT, service_message
from hopline.cluster.service_pb2 import HeartBeat
from hopline.message import Message, RoutingEntry, WireFormat
from hopline.wire import decode

V4, V5_INT32, V5, V6 = WireFormat.V4, WireFormat.V5_INT32, WireFormat.V5, WireFormat.V6
BEAT = service_message(HEARTBEAT, HeartBeat(socket_identity=b"me"))


def formats(own: WireFormat = V5, capacity: int = 10) -> PeerFormats:
    return PeerFormats(own, capacity)


# -- the server --------------------------------------------------------------------------------------------------------


def test_a_server_that_nothing_was_heard_of_is_asked_in_one_format_after_the_other() -> None:
    assert {formats(V5_INT32).next_guess() for _ in range(3)} == {V5_INT32}
    asking = formats(V5_INT32)
    assert [asking.next_guess() for _ in range(4)] == [V5_INT32, V6, V5, V5_INT32]
    asking.hear_server(V6, says_it_itself=True, is_copied=False)
    assert asking.next_guess() is V6


@pytest.mark.parametrize("theirs", [V4, V5_INT32, V6])
def test_a_server_of_one_format_is_spoken_to_in_it(theirs: WireFormat) -> None:
    heard = formats(V5)
    assert heard.server is V5
    heard.hear_server(theirs, says_it_itself=False, is_copied=False)  # what it relays tells it too
    assert heard.server is theirs
    heard.hear_server(theirs, says_it_itself=True, is_copied=False)
    assert heard.server is theirs
    heard.follow()
    assert heard.server is V5


def test_a_server_that_repeats_its_words_in_our_format_reads_it() -> None:
    heard = formats(V5)
    for _ in range(10):
        heard.hear_server(V5, says_it_itself=True, is_copied=True)
        heard.hear_server(V6, says_it_itself=True, is_copied=False)
        assert heard.server is V5
    for _ in range(3):  # another server is at its address now
        heard.hear_server(V6, says_it_itself=True, is_copied=False)
    assert heard.server is V6


def test_a_copy_in_another_format_and_what_others_say_prove_nothing_once_the_server_spoke() -> None:
    heard = formats(V5)
    heard.hear_server(V6, says_it_itself=True, is_copied=True)
    assert heard.server is V5
    heard.hear_server(V5_INT32, says_it_itself=True, is_copied=False)
    heard.hear_server(V6, says_it_itself=False, is_copied=False)
    assert heard.server is V5_INT32
    heard.hear_server(WireFormat.FIRST, says_it_itself=True, is_copied=False)
    assert heard.server is V5_INT32


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_what_a_node_sent_counts_more_than_its_heartbeat_and_that_more_than_what_was_relayed() -> None:
    known = formats()
    known.learn(b"node", V5, Evidence.RELAYED)
    assert known.of(b"node") is V5
    known.learn(b"node", V6, Evidence.HEARTBEAT)
    known.learn(b"node", V5, Evidence.RELAYED)
    assert known.of(b"node") is V6
    known.learn(b"node", V5_INT32, Evidence.SENT)
    known.learn(b"node", V6, Evidence.HEARTBEAT)
    assert known.of(b"node") is V5_INT32
    known.forget(b"node")
    known.learn(b"node", V5, Evidence.RELAYED)
    assert known.of(b"node") is V5


def test_a_node_that_was_not_heard_is_spoken_to_as_the_server_is() -> None:
    known = formats(V5)
    known.hear_server(V6, says_it_itself=True, is_copied=False)
    assert known.of(b"node") is V6


def test_only_so_many_nodes_are_remembered() -> None:
    known = formats(capacity=3)
    for number in range(10):
        known.learn(b"%d" % number, V6, Evidence.SENT)
    assert list(known.by_node) == [b"7", b"8", b"9"]
    assert len(known._evidence) == 3


# -- everybody ---------------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_written_for_all_and_copies_are_marked() -> None:
    known = formats(V5)
    for number, wire_format in enumerate((V6, V5_INT32, V6, V5, WireFormat.FIRST)):
        known.learn(b"%d" % number, wire_format, Evidence.HEARTBEAT)
    original, *others = known.written_for_all(BEAT)
    assert not is_copy(original)
    assert decode(original) == BEAT
    assert decode(original).wire_format is V5
    assert [decode(frames).wire_format for frames in others] == [V5_INT32, V6]
    for frames in others:
        assert is_copy(frames)
        assert frames[0] == COPY
        assert decode(frames) == BEAT


def test_where_all_speak_one_format_there_are_no_copies() -> None:
    known = formats(V5)
    known.hear_server(V6, says_it_itself=True, is_copied=False)
    known.learn(b"node", V6, Evidence.HEARTBEAT)
    (only,) = known.written_for_all(BEAT)
    assert decode(only).wire_format is V6


def test_a_format_that_cannot_say_it_is_left_out() -> None:
    known = formats(V6)
    known.learn(b"node", V4, Evidence.HEARTBEAT)
    message = Message(b"X", routing=(RoutingEntry("nowhere", b"r"),))
    assert [decode(frames).wire_format for frames in known.written_for_all(message)] == [V6]
