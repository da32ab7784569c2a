"""The routing decision, rule by rule."""

from __future__ import annotations

from hopline import Distribution, Message, MessageIdentifier, WireFormat
from hopline.routing import DEFAULT_HOP_LIMIT, Decision, Outcome, Tables, decide

HUB, ACTOR, SIBLING = b"\x00hub", b"\x01actor", b"\x01sibling"
HERE, THERE, ELSEWHERE = b"here", b"there", b"elsewhere"
ORDER = Message(b"ORDER")
NEWS = Message(b"ORDER", distribution=Distribution.BROADCAST)

NO_ROUTE = Decision(undeliverable=Outcome.UNROUTABLE)


def tables(*, local: tuple[bytes, ...] = (), remote: tuple[bytes, ...] = (), node: bytes = HERE) -> Tables:
    known = Tables(node)
    known.internal.add_hub(HUB)
    for actor in local:
        known.internal.add_actor(actor, ORDER.identifier)
    for other in remote:
        known.external.add(other, f"tcp://{other.decode()}:1", b"\x01" + other, ORDER.identifier)
    return known


def local(*receivers: bytes) -> Decision:
    return Decision(local=receivers)


def away(*nodes: bytes) -> Decision:
    return Decision(remote=nodes)


def test_local_actors_take_turns() -> None:
    known = tables(local=(ACTOR, SIBLING))
    assert [decide(ORDER, known) for _ in range(3)] == [local(ACTOR), local(SIBLING), local(ACTOR)]


def test_remote_nodes_take_turns() -> None:
    known = tables(remote=(THERE, ELSEWHERE))
    assert [decide(ORDER, known) for _ in range(3)] == [away(THERE), away(ELSEWHERE), away(THERE)]


def test_here_and_elsewhere_take_turns() -> None:
    known = tables(local=(ACTOR,), remote=(THERE,))
    assert [decide(ORDER, known) for _ in range(4)] == [local(ACTOR), away(THERE), local(ACTOR), away(THERE)]


def test_a_unicast_from_another_node_is_taken_here_if_anyone_can() -> None:
    known = tables(local=(ACTOR,), remote=(THERE,))
    assert {decide(ORDER.add_hop(), known) for _ in range(4)} == {local(ACTOR)}


def test_a_unicast_from_another_node_that_nobody_takes_here_goes_on_until_the_hop_limit() -> None:
    known = tables(remote=(THERE,))
    assert decide(ORDER.clone(hops=DEFAULT_HOP_LIMIT - 1), known) == away(THERE)
    assert decide(ORDER.clone(hops=DEFAULT_HOP_LIMIT), known) == Decision(undeliverable=Outcome.HOP_LIMIT)


def test_nobody_handles_it() -> None:
    assert decide(ORDER, tables()) == NO_ROUTE
    assert decide(NEWS, tables()) == NO_ROUTE
    assert decide(Message(b"ORDER", version=2), tables(local=(ACTOR,))) == NO_ROUTE
    assert decide(Message(b"ORDER", partition=b"eu"), tables(local=(ACTOR,))) == NO_ROUTE


def test_a_broadcast_goes_to_every_actor_here_and_to_every_node() -> None:
    known = tables(local=(ACTOR, SIBLING), remote=(THERE, ELSEWHERE))
    assert decide(NEWS, known) == Decision((ACTOR, SIBLING), (THERE, ELSEWHERE))


def test_a_broadcast_from_another_node_is_delivered_here_and_never_sent_on() -> None:
    known = tables(local=(ACTOR,), remote=(THERE,))
    assert decide(NEWS.add_hop(), known) == local(ACTOR)
    assert decide(NEWS.add_hop(), tables(remote=(THERE,))) == NO_ROUTE


def test_a_message_for_this_node_stays_and_one_for_another_goes_there_whoever_handles_it() -> None:
    known = tables(local=(ACTOR,), remote=(THERE, ELSEWHERE))
    assert {decide(ORDER.with_receiver_node(HERE), known) for _ in range(3)} == {local(ACTOR)}
    assert {decide(ORDER.with_receiver_node(ELSEWHERE), known) for _ in range(3)} == {away(ELSEWHERE)}
    assert decide(Message(b"OTHER").with_receiver_node(THERE), known) == away(THERE)


def test_an_unknown_node_is_not_replaced_by_another() -> None:
    known = tables(local=(ACTOR,), remote=(THERE,))
    assert decide(ORDER.with_receiver_node(b"unknown"), known) == NO_ROUTE
    assert decide(ORDER.with_receiver_node(HERE), tables(remote=(THERE,))) == NO_ROUTE


def test_a_hub_gets_any_message_and_an_actor_what_it_handles() -> None:
    known = tables(local=(ACTOR, SIBLING))
    assert decide(Message(b"ANYTHING").with_receiver_actor(HERE, HUB), known) == local(HUB)
    assert decide(ORDER.with_receiver_actor(HERE, SIBLING), known) == local(SIBLING)
    assert decide(Message(b"OTHER").with_receiver_actor(HERE, SIBLING), known) == NO_ROUTE
    assert decide(ORDER.with_receiver_actor(HERE, b"\x07what"), known) == NO_ROUTE


def test_on_the_way_only_the_node_counts_not_the_receiver() -> None:
    assert decide(ORDER.with_receiver_actor(THERE, b"\x01whoever"), tables(remote=(THERE,))) == away(THERE)


def test_a_broadcast_result_that_is_waited_for_goes_home_only() -> None:
    known = tables(local=(ACTOR,), remote=(THERE,))
    answer = NEWS.register_callback_point(HERE, HUB, [NEWS.identifier], key=1)
    assert decide(answer, known) == local(HUB)


def test_a_node_that_stands_alone_has_no_identity_and_routes_by_the_receiver() -> None:
    known = tables(local=(ACTOR,), node=b"")
    answer = ORDER.register_callback_point(b"", HUB, [ORDER.identifier], key=1)
    assert answer.receiver_node_identity == b""
    assert decide(answer, known) == local(HUB)
    assert decide(ORDER, known) == local(ACTOR)


def test_a_receiver_without_a_node_that_is_not_here_is_looked_for_by_the_message() -> None:
    request = ORDER.clone(receiver_identity=b"\x01gone")
    assert decide(request, tables(remote=(THERE,))) == away(THERE)


def test_a_failed_sending_goes_to_the_next_node() -> None:
    known = tables(remote=(THERE, ELSEWHERE))
    assert decide(ORDER, known) == away(THERE)
    assert decide(ORDER, known, unreachable={THERE}) == away(ELSEWHERE)
    assert decide(ORDER, known, unreachable={THERE, ELSEWHERE}) == NO_ROUTE
    assert decide(ORDER.with_receiver_node(THERE), known, unreachable={THERE}) == NO_ROUTE
    assert decide(NEWS, known, unreachable={THERE}) == away(ELSEWHERE)


def test_the_first_format_finds_a_receiver_by_its_identity_alone() -> None:
    known = tables(local=(ACTOR,))
    first = Message(b"OTHER", receiver_identity=ACTOR, wire_format=WireFormat.FIRST)
    assert decide(first, known) == local(ACTOR)
    assert decide(first.clone(wire_format=WireFormat.V5), known) == NO_ROUTE
    known.external.add(THERE, "tcp://there:1", b"\x00their hub")
    reply = Message(b"OTHER", receiver_identity=b"\x00their hub", wire_format=WireFormat.FIRST)
    assert decide(reply, known) == away(THERE)
    assert decide(reply, known, unreachable={THERE}) == NO_ROUTE
    assert decide(reply.clone(receiver_identity=b"\x00nobody"), known) == NO_ROUTE


def test_the_first_format_without_a_receiver_is_routed_by_identity_and_version() -> None:
    known = tables(local=(ACTOR,))
    assert decide(Message(b"ORDER", wire_format=WireFormat.FIRST), known) == local(ACTOR)
    assert decide(Message(b"ORDER", version=b"1.1", wire_format=WireFormat.FIRST), known) == NO_ROUTE


def test_identifiers_of_both_generations_are_the_same_kind() -> None:
    assert MessageIdentifier(b"ORDER", 1) == Message(b"ORDER", version=1, wire_format=WireFormat.FIRST).identifier
