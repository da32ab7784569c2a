"""What is known of receivers: here and elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import ArgumentError, MessageIdentifier
from hopline.message import ReceiverKind, new_actor_identity, new_hub_identity, new_node_identity, receiver_kind
from hopline.routing import Balance, ExternalTable, InternalTable, NodeRemoval, Ring, Route

HUB, ACTOR, SIBLING = b"\x00hub", b"\x01actor", b"\x01sibling"
ORDER, PRICE = MessageIdentifier(b"ORDER"), MessageIdentifier(b"PRICE")
NODE, OTHER = b"node", b"other"
URI, ELSEWHERE = "tcp://10.0.0.1:9000", "tcp://10.0.0.2:9000"


def test_identities_tell_hubs_from_actors_by_their_first_byte() -> None:
    assert receiver_kind(new_hub_identity()) is ReceiverKind.HUB
    assert receiver_kind(new_actor_identity()) is ReceiverKind.ACTOR
    assert receiver_kind(new_node_identity()) is None
    assert receiver_kind(b"") is None
    assert (len(new_node_identity()), len(new_hub_identity()), len(new_actor_identity())) == (36, 37, 37)


def test_a_ring_gives_everyone_a_turn() -> None:
    ring: Ring[str] = Ring()
    for member in ("a", "b", "c", "a"):
        ring.add(member)
    assert [ring.rotate() for _ in range(5)] == ["a", "b", "c", "a", "b"]
    ring.discard("b")
    ring.discard("nobody")
    assert (list(ring), len(ring), "b" in ring) == (["c", "a"], 2, False)


def test_the_least_recently_used_destination_is_picked() -> None:
    balance = Balance()
    assert [balance.pick(b"here", b"there") for _ in range(4)] == [b"here", b"there", b"here", b"there"]
    assert balance.pick(b"here", b"new") == b"new"
    balance.forget(b"here")
    assert balance.pick(b"here", b"new") == b"here"


# -- internal ----------------------------------------------------------------------------------------------------------


def test_actors_are_found_by_message_and_hubs_by_themselves() -> None:
    table = InternalTable()
    table.add_hub(HUB)
    table.add_actor(ACTOR, ORDER)
    assert list(table.handlers(ORDER) or ()) == [ACTOR]
    assert table.handlers(PRICE) is None
    assert table.handles(ACTOR, ORDER)
    assert not table.handles(ACTOR, PRICE)
    assert not table.handles(b"\x02unknown", ORDER)
    assert table.has_hub(HUB)
    assert not table.has_hub(ACTOR)
    assert table.has_actor(ACTOR)
    assert not table.has_actor(SIBLING)


def test_what_is_kept_local_is_routed_to_but_not_advertised() -> None:
    table = InternalTable()
    table.add_hub(HUB, keep_local=True)
    table.add_hub(b"\x00open")
    table.add_actor(ACTOR, ORDER, keep_local=True)
    table.add_actor(ACTOR, PRICE)
    table.add_actor(ACTOR, ORDER)  # the first registration counts
    assert list(table.advertised()) == [Route(b"\x00open"), Route(ACTOR, PRICE)]
    assert list(table.advertised([ORDER, MessageIdentifier(b"NONE")])) == []
    assert table.handles(ACTOR, ORDER)
    assert table.remove(HUB) == []
    assert table.remove(b"\x00open") == [Route(b"\x00open")]
    assert table.remove(ACTOR) == [Route(ACTOR, PRICE)]


def test_a_removed_actor_is_gone_and_its_sibling_stays() -> None:
    table = InternalTable()
    table.add_actor(ACTOR, ORDER)
    table.add_actor(SIBLING, ORDER)
    assert table.remove(ACTOR) == [Route(ACTOR, ORDER)]
    assert list(table.handlers(ORDER) or ()) == [SIBLING]
    table.remove(SIBLING)
    assert table.handlers(ORDER) is None
    assert table.remove(SIBLING) == []


def test_a_hub_is_no_actor() -> None:
    table = InternalTable()
    with pytest.raises(ArgumentError, match="the identity of an actor"):
        table.add_actor(HUB, ORDER)
    with pytest.raises(ArgumentError, match="the identity of a hub"):
        table.add_hub(b"plain")


# -- external ----------------------------------------------------------------------------------------------------------


def test_removing_one_message_of_an_actor_takes_the_node_from_that_message_only() -> None:
    table = ExternalTable()
    table.add(NODE, URI, ACTOR, ORDER)
    table.add(NODE, URI, ACTOR, PRICE)
    assert table.remove_route(NODE, ACTOR, ORDER) is None
    assert table.handlers(ORDER) is None
    assert list(table.handlers(PRICE) or ()) == [NODE]


def test_removing_one_actor_leaves_the_node_to_a_sibling_that_handles_the_same() -> None:
    table = ExternalTable()
    table.add(NODE, URI, ACTOR, ORDER)
    table.add(NODE, URI, SIBLING, ORDER)
    table.remove_route(NODE, ACTOR, ORDER)
    table.remove_route(NODE, ACTOR, ORDER)  # twice does no harm
    assert list(table.handlers(ORDER) or ()) == [NODE]
    assert (table.home_of(ACTOR), table.home_of(SIBLING)) == (None, NODE)


def test_a_node_without_receivers_is_forgotten() -> None:
    table = ExternalTable()
    table.add(NODE, URI, HUB)
    table.add(NODE, URI, ACTOR, ORDER)
    assert table.remove_route(NODE, ACTOR, ORDER) is None
    assert NODE in table
    assert table.remove_route(NODE, HUB) == NodeRemoval(URI, disconnect=True)
    assert NODE not in table
    assert list(table) == []


def test_an_address_is_left_when_its_last_node_goes() -> None:
    table = ExternalTable()
    table.add(NODE, URI, HUB)
    table.add(OTHER, URI, b"\x00other", None)
    assert table.remove_node(NODE) == NodeRemoval(URI, disconnect=False)
    assert table.remove_node(OTHER) == NodeRemoval(URI, disconnect=True)
    assert table.remove_node(OTHER) is None
    assert table.remove_route(OTHER, HUB) is None


def test_a_known_node_that_comes_with_another_address_has_moved() -> None:
    table = ExternalTable()
    table.add(NODE, URI, HUB)
    table.add(NODE, ELSEWHERE, HUB)
    assert table.uri_of(NODE) == ELSEWHERE
    table.add(NODE, ELSEWHERE, ACTOR, ORDER)
    assert table.remove_node(NODE) == NodeRemoval(ELSEWHERE, disconnect=True)


def test_a_route_without_a_receiver_takes_the_message_from_all_actors_of_the_node() -> None:
    table = ExternalTable()
    table.add(NODE, URI, HUB)
    table.add(NODE, URI, ACTOR, ORDER)
    table.add(NODE, URI, SIBLING, ORDER)
    table.add(OTHER, URI, b"\x01third", ORDER)
    assert table.remove_route(NODE, b"", ORDER) is None
    assert table.remove_route(NODE, ACTOR) is None  # an actor without a message says nothing
    assert list(table.handlers(ORDER) or ()) == [OTHER]


def test_a_receiver_that_moved_to_another_node_lives_there() -> None:
    table = ExternalTable()
    table.add(NODE, URI, HUB)
    table.add(OTHER, ELSEWHERE, HUB)
    table.remove_node(NODE)
    assert table.home_of(HUB) == OTHER


@pytest.mark.parametrize(("receiver", "identifier"), [(b"plain", ORDER), (ACTOR, None), (HUB, ORDER)])
def test_a_route_is_a_hub_or_an_actor_with_a_message(receiver: bytes, identifier: MessageIdentifier | None) -> None:
    with pytest.raises(ArgumentError, match="a hub, or an actor with a message"):
        ExternalTable().add(NODE, URI, receiver, identifier)


NODES = st.sampled_from([b"n1", b"n2", b"n3"])
URIS = st.sampled_from([URI, ELSEWHERE])
RECEIVERS = st.sampled_from([HUB, ACTOR, SIBLING, b""])
MESSAGES = st.sampled_from([ORDER, PRICE])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NODES, URIS, RECEIVERS, MESSAGES),
        st.tuples(st.just("remove"), NODES, URIS, RECEIVERS, MESSAGES),
        st.tuples(st.just("node"), NODES, URIS, RECEIVERS, MESSAGES),
    ),
    max_size=40,
)


@given(changes=CHANGES)
def test_whatever_comes_and_goes_the_indexes_agree_with_a_plain_list(
    changes: list[tuple[str, bytes, str, bytes, MessageIdentifier]],
) -> None:
    table = ExternalTable()
    model: set[tuple[bytes, bytes, MessageIdentifier | None]] = set()
    for what, node, uri, receiver, message in changes:
        owned = None if receiver == HUB else message
        if what == "add" and receiver:
            table.add(node, uri, receiver, owned)
            model.add((node, receiver, owned))
        elif what == "remove":
            table.remove_route(node, receiver, owned)
            gone = {(node, receiver, owned)} if receiver else {(node, ACTOR, message), (node, SIBLING, message)}
            model -= gone
        elif what == "node":
            table.remove_node(node)
            model = {entry for entry in model if entry[0] != node}
        assert set(table) == {entry[0] for entry in model}
        for identifier in (ORDER, PRICE):
            assert set(table.handlers(identifier) or ()) == {entry[0] for entry in model if entry[2] == identifier}
