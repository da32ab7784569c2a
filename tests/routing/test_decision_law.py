"""The law of the routing decision: the fast functions decide as `decide` does, and leave the same tables behind."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given
from hypothesis import strategies as st

from hopline import Distribution, Message, WireFormat
from hopline.routing import Decision, Tables, decide, fast_node, fast_receiver

HERE = b"here"
HUB = b"\x00hub"
ACTORS = (b"\x01first", b"\x01second", b"\x01third")
NODES = (b"east", b"west", b"north")
KINDS = (b"ORDER", b"PRICE")
HOP_LIMIT = 3

Registrations = Sequence[tuple[int, bytes]]

registrations = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(KINDS)), max_size=6, unique=True)
messages = st.builds(
    Message,
    st.sampled_from(KINDS),
    distribution=st.sampled_from(Distribution),
    hops=st.integers(0, HOP_LIMIT),
    receiver_node_identity=st.sampled_from((b"", b"", b"", HERE, NODES[0], b"unknown")),
    receiver_identity=st.sampled_from((b"", b"", b"", HUB, ACTORS[0], b"\x01theirs0", b"\x01gone")),
    wire_format=st.sampled_from((WireFormat.V6, WireFormat.V5, WireFormat.FIRST)),
)


def tables_of(local: Registrations, remote: Registrations) -> Tables:
    tables = Tables(HERE, hop_limit=HOP_LIMIT)
    tables.internal.add_hub(HUB)
    for index, kind in local:
        tables.internal.add_actor(ACTORS[index], Message(kind).identifier)
    for index, kind in remote:
        receiver = b"\x01theirs%d" % index
        tables.external.add(NODES[index], f"tcp://node:{index + 1}", receiver, Message(kind).identifier)
    return tables


def decide_fast(message: Message, tables: Tables) -> Decision:
    """Decide as the router does: by the fast functions first."""
    receiver = fast_receiver(message, message.identifier, tables)
    if receiver is not None:
        event("fast_receiver")
        return Decision(local=(receiver,))
    node = fast_node(message, message.identifier, tables)
    if node is not None:
        event("fast_node")
        return Decision(remote=(node,))
    return decide(message, tables)


@given(registrations, registrations, st.lists(messages, min_size=1, max_size=20))
def test_the_fast_functions_decide_like_the_rule_whatever_was_routed_before(
    local: Registrations, remote: Registrations, sequence: list[Message]
) -> None:
    by_rule, by_fast_path = tables_of(local, remote), tables_of(local, remote)
    for message in sequence:  # a sequence, because each decision changes whose turn is next
        assert decide_fast(message, by_fast_path) == decide(message, by_rule)
