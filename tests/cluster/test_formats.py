"""Which format is written to whom, by what was heard of them."""

from __future__ import annotations

import pytest

from hopline.cluster.messages.formats import COPY, Evidence, PeerFormats, is_copy
from hopline.cluster.messages.service import HEARTBEAT, service_message
from hopline.cluster.messages.service_pb2 import HeartBeat
from hopline.message import Message, RoutingEntry, WireFormat
from hopline.wire import decode

V4, V5_INT32, V5, V6 = WireFormat.V4, WireFormat.V5_INT32, WireFormat.V5, WireFormat.V6
BEAT = service_message(HEARTBEAT, HeartBeat(socket_identity=b"me"))


def formats(pinned: WireFormat | None = V5, capacity: int = 10) -> PeerFormats:
    return PeerFormats(pinned, capacity)


# -- the server --------------------------------------------------------------------------------------------------------


def test_a_server_that_nothing_was_heard_of_is_asked_in_one_format_after_the_other() -> None:
    assert {formats(V5_INT32).next_guess() for _ in range(3)} == {V5_INT32}
    asking = formats(V5_INT32)
    assert [asking.next_guess() for _ in range(4)] == [V5_INT32, V6, V5, V5_INT32]
    asking.record_server(V6, is_own_message=True, is_copied=False)
    assert asking.next_guess() is V6


@pytest.mark.parametrize("theirs", [V4, V5_INT32, V6])
def test_a_server_of_one_format_is_spoken_to_in_it(theirs: WireFormat) -> None:
    heard = formats(V5)
    assert heard.server is V5
    heard.record_server(theirs, is_own_message=False, is_copied=False)  # what it relays tells it too
    assert heard.server is theirs
    heard.record_server(theirs, is_own_message=True, is_copied=False)
    assert heard.server is theirs
    heard.follow()
    assert heard.server is V5


def test_a_server_that_repeats_its_words_in_our_format_reads_it() -> None:
    heard = formats(V5)
    for _ in range(10):
        heard.record_server(V5, is_own_message=True, is_copied=True)
        heard.record_server(V6, is_own_message=True, is_copied=False)
        assert heard.server is V5
    for _ in range(3):  # another server is at its address now
        heard.record_server(V6, is_own_message=True, is_copied=False)
    assert heard.server is V6


def test_a_copy_in_another_format_and_what_others_say_prove_nothing_once_the_server_spoke() -> None:
    heard = formats(V5)
    heard.record_server(V6, is_own_message=True, is_copied=True)
    assert heard.server is V5
    heard.record_server(V5_INT32, is_own_message=True, is_copied=False)
    heard.record_server(V6, is_own_message=False, is_copied=False)
    assert heard.server is V5_INT32
    heard.record_server(WireFormat.FIRST, is_own_message=True, is_copied=False)
    assert heard.server is V5_INT32


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_what_a_node_sent_counts_more_than_its_heartbeat_and_that_more_than_what_was_relayed() -> None:
    known = formats()
    known.record(b"node", V5, Evidence.RELAYED)
    assert known.of(b"node") is V5
    known.record(b"node", V6, Evidence.HEARTBEAT)
    known.record(b"node", V5, Evidence.RELAYED)
    assert known.of(b"node") is V6
    known.record(b"node", V5_INT32, Evidence.SENT)
    known.record(b"node", V6, Evidence.HEARTBEAT)
    assert known.of(b"node") is V5_INT32
    known.forget(b"node")
    known.record(b"node", V5, Evidence.RELAYED)
    assert known.of(b"node") is V5


def test_a_node_that_was_not_heard_is_spoken_to_as_the_server_is() -> None:
    known = formats(V5)
    known.record_server(V6, is_own_message=True, is_copied=False)
    assert known.of(b"node") is V6


def test_only_so_many_nodes_are_remembered() -> None:
    known = formats(capacity=3)
    for number in range(10):
        known.record(b"%d" % number, V6, Evidence.SENT)
    assert list(known.by_node) == [b"7", b"8", b"9"]
    assert len(known._evidence) == 3


# -- declarations ------------------------------------------------------------------------------------------------------

EVERY = frozenset(WireFormat)
NONE: frozenset[WireFormat] = frozenset()


@pytest.mark.parametrize(
    ("pinned", "declared", "writes", "expected"),
    [
        (None, EVERY, V5, V6),
        (None, EVERY, V5_INT32, V6),
        (None, EVERY, V6, V6),
        (None, frozenset({V6}), V5, V6),
        (None, frozenset({V4, V5}), V5, V5),
        (None, NONE, V5, V5),
        (None, NONE, V6, V6),
        (None, NONE, WireFormat.FIRST, WireFormat.FIRST),
        (V5, EVERY, V5, V5),
        (V5, EVERY, V6, V5),  # it is automatic, and this node is not
        (V5, NONE, V6, V6),  # a node of the reference reads nothing else
        (V5, frozenset({V6}), V6, V6),
        (V6, EVERY, V5, V6),
        (V6, NONE, V5, V5),
        (V5_INT32, EVERY, V5, V5_INT32),
        (WireFormat.FIRST, EVERY, V5, V5),
        (WireFormat.FIRST, NONE, V5, V5),
    ],
)
def test_a_node_is_written_to_in_the_preferred_format_if_it_reads_it_and_else_in_its_own(
    pinned: WireFormat | None, declared: frozenset[WireFormat], writes: WireFormat, expected: WireFormat
) -> None:
    known = formats(pinned)
    known.record(b"node", writes, Evidence.SENT)
    known.declare(b"node", declared)
    assert known.of(b"node") is known.by_node[b"node"] is expected
    assert known.written_by[b"node"] is writes


@pytest.mark.parametrize("evidence", Evidence)
def test_what_a_node_wrote_before_it_knew_undoes_no_declaration(evidence: Evidence) -> None:
    known = formats(None)
    known.record(b"node", V5, Evidence.RELAYED)
    known.declare(b"node", EVERY)
    known.record(b"node", V5, evidence)
    assert known.of(b"node") is V6


def test_without_its_declaration_a_node_is_written_to_as_the_evidence_has_it() -> None:
    known = formats(None)
    known.record(b"node", V5_INT32, Evidence.SENT)
    known.declare(b"node", EVERY)
    known.declare(b"node", NONE)
    assert known.of(b"node") is V5_INT32
    known.declare(b"node", EVERY)
    known.forget(b"node")
    assert known.of(b"node") is V5
    known.record(b"node", V5, Evidence.SENT)
    assert known.of(b"node") is V5


def test_declarations_are_remembered_of_as_many_nodes_as_formats_are() -> None:
    known = formats(None, capacity=3)
    known.declare(b"stranger", EVERY)
    for number in range(10):
        known.record(b"%d" % number, V5, Evidence.RELAYED)
        known.declare(b"%d" % number, EVERY)
    assert set(known.by_node) == set(known.written_by) == set(known._declared) == {b"7", b"8", b"9"}


def test_a_node_that_is_automatic_begins_with_v5_and_speaks_to_servers_as_one_that_is_pinned_to_it() -> None:
    known = formats(None)
    assert known.server is known.of(b"stranger") is V5
    assert [known.next_guess() for _ in range(4)] == [formats(V5).next_guess(), V6, V5_INT32, V5]
    known.record(b"node", V6, Evidence.SENT)
    known.declare(b"node", EVERY)
    assert known.server is known.of(b"stranger") is V5


# -- everybody ---------------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_written_for_all_and_copies_are_marked() -> None:
    known = formats(V5)
    for number, wire_format in enumerate((V6, V5_INT32, V6, V5, WireFormat.FIRST)):
        known.record(b"%d" % number, wire_format, Evidence.HEARTBEAT)
    original, *others = known.written_for_all(BEAT)
    assert not is_copy(original)
    assert decode(original) == BEAT
    assert decode(original).wire_format is V5
    assert [decode(frames).wire_format for frames in others] == [V5_INT32, V6]
    for frames in others:
        assert is_copy(frames)
        assert frames[0] == COPY
        assert decode(frames) == BEAT


def test_nodes_that_read_what_is_published_need_no_copies() -> None:
    known = formats(None)
    for node in (b"one", b"two"):
        known.record(node, V6, Evidence.SENT)
        known.declare(node, EVERY)
    assert [decode(frames).wire_format for frames in known.written_for_all(BEAT)] == [V5]
    known.record(b"theirs", V6, Evidence.HEARTBEAT)
    assert [decode(frames).wire_format for frames in known.written_for_all(BEAT)] == [V5, V6]


def test_where_all_speak_one_format_there_are_no_copies() -> None:
    known = formats(V5)
    known.record_server(V6, is_own_message=True, is_copied=False)
    known.record(b"node", V6, Evidence.HEARTBEAT)
    (only,) = known.written_for_all(BEAT)
    assert decode(only).wire_format is V6


def test_a_format_that_cannot_say_it_is_left_out() -> None:
    known = formats(V6)
    known.record(b"node", V4, Evidence.HEARTBEAT)
    message = Message(b"X", routing=(RoutingEntry("nowhere", b"r"),))
    assert [decode(frames).wire_format for frames in known.written_for_all(message)] == [V6]
