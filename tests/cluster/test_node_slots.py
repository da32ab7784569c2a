"""Which node makes way when one more is announced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.cluster.membership.node_slots import NodeSlots, Standing

A, B, C, D, E = b"a", b"b", b"c", b"d", b"e"


def slots_with(*nodes: bytes, slots: int = 4) -> NodeSlots:
    taken = NodeSlots(slots, slots)
    for node in nodes:
        taken.add(node)
    return taken


def test_the_new_node_that_came_first_makes_way() -> None:
    assert slots_with(A, B, C, D).replaceable() == A


def test_settled_nodes_stay_while_there_are_new_ones() -> None:
    slots = slots_with(A, B, C, D)
    for node in (A, B, C, D):
        slots.settle(node)
    assert slots.replaceable() == D  # three of four slots are for settled nodes
    assert slots.remove(D) is Standing.NEW


def test_of_settled_nodes_alone_the_one_that_settled_last_makes_way() -> None:
    slots = slots_with(A, B)
    slots.settle(B)
    slots.settle(A)
    assert slots.replaceable() == A


def test_nodes_in_contact_never_make_way() -> None:
    slots = slots_with(A, B)
    slots.record_contact(A)
    slots.settle(B)
    slots.record_contact(B)
    slots.settle(A)
    assert slots.replaceable() is None
    assert slots.remove(A) is slots.remove(B) is Standing.IN_CONTACT


def test_nodes_in_contact_take_no_slots_of_the_others() -> None:
    slots = NodeSlots(10, 1)
    for node in (A, B, C):
        assert slots.has_free
        slots.add(node)
        slots.record_contact(node)
    slots.add(D)
    assert not slots.has_free
    slots.remove(D)
    assert slots.has_free


def test_a_node_that_has_no_slot_cannot_leave_it() -> None:
    with pytest.raises(KeyError):
        slots_with(A).remove(B)


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from(["announce", "settle", "contact", "leave"]), st.integers(0, 20)), max_size=100),
)
def test_the_bounds_hold_and_no_contact_is_lost_whatever_happens(
    nodes: int, without_contact: int, events: list[tuple[str, int]]
) -> None:
    slots = NodeSlots(nodes, without_contact)
    known: set[bytes] = set()
    contacts: set[bytes] = set()
    for event, number in events:
        node = b"%d" % number
        if node not in known:
            if event != "announce":
                continue
            if not slots.has_free:
                replaced = slots.replaceable()
                if replaced is None:
                    assert len(contacts) == nodes
                    continue
                assert replaced not in contacts
                slots.remove(replaced)
                known.discard(replaced)
            slots.add(node)
            known.add(node)
        elif event == "settle":
            slots.settle(node)
        elif event == "contact":
            slots.record_contact(node)
            contacts.add(node)
        elif event == "leave":
            slots.remove(node)
            known.discard(node)
            contacts.discard(node)
        assert len(known) <= nodes
        assert len(known - contacts) <= without_contact
