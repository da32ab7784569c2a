"""The message as a value: creation, receivers, callbacks, hops and trace."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from hopline import Distribution, Message, MessageIdentifier, WireFormat
from hopline.errors import ArgumentTypeError, LocalError
from hopline.message import NO_FLOW, RoutingEntry, TraceOptions, version_from_text, version_to_text

HUB = b"\x00hub"
NODE = b"node-a"
ANSWER = MessageIdentifier(b"ANSWER")
FAILURE = MessageIdentifier(b"KINO.EXCEPTION")


def test_a_flow_starts_with_a_correlation_id_of_its_own() -> None:
    one, other = Message.flow_start(b"ORDER"), Message.flow_start(b"ORDER")
    guid = rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(guid, one.correlation_id)
    assert one.correlation_id != other.correlation_id
    assert one.distribution == Distribution.UNICAST
    assert Message.flow_start(b"ORDER", correlation_id=b"mine").correlation_id == b"mine"


def test_a_created_message_belongs_to_no_flow_unless_told() -> None:
    assert Message.create(b"ORDER").correlation_id == NO_FLOW == b"00000000-0000-0000-0000-000000000000"
    assert Message.create(b"ORDER", correlation_id=b"flow").correlation_id == b"flow"


def test_the_defaults_are_those_of_the_reference() -> None:
    message = Message.create(b"ORDER", b"body")
    assert (message.version, message.partition, message.body) == (1, b"", b"body")
    assert (message.distribution, message.trace_options, message.hops) == (0, TraceOptions.NONE, 0)
    assert (message.ttl, message.ttl_ticks, message.callback_key) == (timedelta(0), 0, 0)
    assert (message.receiver_identity, message.receiver_node_identity, message.signature) == (b"", b"", b"")
    assert (message.callback_point, message.routing, message.domain) == ((), (), "")
    assert message.wire_format is None


def test_a_lifetime_is_given_as_a_duration_and_kept_in_ticks() -> None:
    assert Message.create(b"ORDER", ttl=timedelta(seconds=1.5)).ttl_ticks == 15_000_000
    assert Message(b"ORDER", ttl_ticks=15_000_000).ttl == timedelta(seconds=1.5)
    assert Message(b"ORDER", ttl_ticks=2**63 - 1).ttl == timedelta(microseconds=2**63 // 10 + 1)
    with pytest.raises(ArgumentTypeError, match="ttl: expected a timedelta, found 30"):
        Message.create(b"ORDER", ttl=30)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ticks", "microseconds"), [(1, 1), (9, 1), (10, 1), (11, 2), (0, 0), (-1, -1), (-10, -1)])
def test_a_lifetime_that_is_nearly_over_is_not_taken_for_no_limit(ticks: int, microseconds: int) -> None:
    assert Message(b"ORDER", ttl_ticks=ticks).ttl == timedelta(microseconds=microseconds)


def test_a_message_without_a_body_has_an_empty_one() -> None:
    assert Message(b"ORDER", bodies=()).body == b""


def test_where_a_socket_sends_a_message_is_no_part_of_what_it_is() -> None:
    assert Message(b"ORDER", socket_identity=b"peer") == Message(b"ORDER")


def test_a_subclass_may_have_more_content() -> None:
    class Priced(Message, frozen=True):
        cents: int = 0

    assert Priced(b"ORDER", cents=1) != Priced(b"ORDER", cents=2)
    assert isinstance(Priced.create(b"ORDER").add_hop(), Priced)


def test_a_message_cannot_change() -> None:
    with pytest.raises(AttributeError):
        Message(b"ORDER").hops = 1  # type: ignore[misc]


def test_a_clone_is_equal_and_a_changed_clone_leaves_the_original_alone() -> None:
    message = Message.flow_start(b"ORDER").push_router_address("tcp://1:2", b"a")
    assert message.clone() == message
    changed = message.push_router_address("tcp://3:4", b"b").add_hop()
    assert message.routing == (RoutingEntry("tcp://1:2", b"a"),)
    assert changed.routing == (RoutingEntry("tcp://1:2", b"a"), RoutingEntry("tcp://3:4", b"b"))
    assert (message.hops, changed.hops) == (0, 1)
    assert changed != message


def test_the_format_that_a_message_came_in_is_no_part_of_what_it_is() -> None:
    one, other = Message(b"ORDER", wire_format=WireFormat.V5), Message(b"ORDER", wire_format=WireFormat.V6)
    assert one == other
    assert not one != other  # noqa: SIM202  a struct's own inequality would say otherwise
    assert len({one, other}) == 1
    assert one != b"ORDER"


def test_addressing_a_node_clears_the_actor() -> None:
    message = Message(b"ORDER").with_receiver_actor(NODE, b"\x01actor")
    assert (message.receiver_node_identity, message.receiver_identity) == (NODE, b"\x01actor")
    message = message.with_receiver_node(b"other")
    assert (message.receiver_node_identity, message.receiver_identity) == (b"other", b"")


def test_a_broadcast_has_no_receiver() -> None:
    broadcast = Message.create(b"NEWS", distribution=Distribution.BROADCAST)
    with pytest.raises(LocalError, match="no receiver on a broadcast"):
        broadcast.with_receiver_node(NODE)
    with pytest.raises(LocalError):
        broadcast.with_receiver_actor(NODE, b"\x01actor")


def test_registering_callbacks_replaces_those_before_and_leaves_the_receiver() -> None:
    message = Message(b"ORDER").with_receiver_node(b"there")
    message = message.register_callback_point(b"old", b"old", [FAILURE], 1)
    message = message.register_callback_point(NODE, HUB, [ANSWER, FAILURE], 42)
    assert message.callback_point == (ANSWER, FAILURE)
    assert (message.callback_receiver_node_identity, message.callback_receiver_identity) == (NODE, HUB)
    assert message.callback_key == 42
    assert (message.receiver_node_identity, message.receiver_identity) == (b"there", b"")


def test_a_message_that_is_waited_for_is_addressed_to_the_one_who_waits() -> None:
    answer = Message(b"ANSWER").with_receiver_node(b"elsewhere")
    answer = answer.register_callback_point(NODE, HUB, [FAILURE, ANSWER], 42)
    assert (answer.receiver_node_identity, answer.receiver_identity) == (NODE, HUB)
    assert answer.callback_point == (FAILURE, ANSWER)  # a match takes nothing off the list


@pytest.mark.parametrize("near_miss", [MessageIdentifier(b"ANSWER", 2), MessageIdentifier(b"ANSWER", 1, b"eu")])
def test_version_and_partition_must_match_too(near_miss: MessageIdentifier) -> None:
    answer = Message(b"ANSWER").register_callback_point(NODE, HUB, [near_miss], 42)
    assert answer.receiver_identity == b""


def test_a_broadcast_that_is_waited_for_is_addressed_all_the_same() -> None:
    answer = Message.create(b"ANSWER", distribution=Distribution.BROADCAST)
    assert answer.register_callback_point(NODE, HUB, [ANSWER], 1).receiver_identity == HUB


def test_the_first_equal_callback_is_taken_off() -> None:
    message = Message(b"ORDER", callback_point=(ANSWER, FAILURE, ANSWER))
    assert message.without_callback(ANSWER).callback_point == (FAILURE, ANSWER)
    assert message.without_callback(MessageIdentifier(b"OTHER")) is message


def test_an_identifier_reads_like_a_name() -> None:
    assert str(MessageIdentifier(b"ORDER", 2)) == "ORDER/2"
    assert str(MessageIdentifier(b"ORDER", b"1.1", b"eu")) == "ORDER/1.1/eu"
    assert str(MessageIdentifier(b"\xff")) == "\\xff/1"
    assert Message(b"ORDER", 2, b"eu").identifier == MessageIdentifier(b"ORDER", 2, b"eu")


@pytest.mark.parametrize(
    ("text", "version"),
    [(b"1.0", 1), (b"0.0", 0), (b"300.0", 300), (b"65535.0", 65535)],
)
def test_a_conventional_text_version_is_a_number(text: bytes, version: int) -> None:
    assert version_from_text(text) == version
    assert version_to_text(version) == text


@pytest.mark.parametrize("text", [b"", b"1", b"1.1", b"01.0", b"65536.0", b"1.0\n", b"-1.0", b"1.00"])
def test_any_other_text_version_stays_text(text: bytes) -> None:
    assert version_from_text(text) == text
    assert version_to_text(text) == text
