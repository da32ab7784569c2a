"""What a rendezvous server relays, holds and refuses, and what it publishes itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import ArgumentError, Message
from hopline.cluster.election.leadership import LEADING, NOBODY, Leadership
from hopline.cluster.election.lease import in_ticks
from hopline.cluster.messages import service
from hopline.cluster.messages.format_declaration import OWN_DECLARATION
from hopline.cluster.messages.formats import SERVICE_FORMATS, is_copy
from hopline.cluster.messages.service_pb2 import (
    RendezvousConfigurationChanged,
    RendezvousNode,
    RendezvousNotLeader,
    UnregisterUnreachableNode,
)
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.message import MessageIdentifier, WireFormat
from hopline.rendezvous.held_messages import Publication
from hopline.rendezvous.relay import ROUTE_KINDS, Refusal, Relay, RelaySettings
from hopline.wire import decode, encode, layouts
from tests.rendezvous.relays import (
    FOLLOWING,
    FORMATS,
    LEADER,
    LEAVING,
    ROUTER_ID,
    SECOND,
    Server,
    any_of,
    as_received,
    copied,
    kinds,
    partner,
)
from tests.wire.vectors import frames_of, load

# -- the leader --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire_format", FORMATS)
@pytest.mark.parametrize("kind", sorted(ROUTE_KINDS, key=str), ids=str)
def test_a_leader_relays_route_messages_to_nodes_and_partners(kind: MessageIdentifier, wire_format: WireFormat) -> None:
    frames = encode(any_of(kind, b"anything"), wire_format)
    assert Server(LEADING).unicast([ROUTER_ID, *frames]) == [Publication(frames, to_partners=True)]


def test_nothing_else_is_relayed() -> None:
    for kind in service.CATALOGUE:
        server = Server(LEADING)
        steps = server.unicast(as_received(any_of(kind)))
        if kind in ROUTE_KINDS:
            assert kinds(steps) == [kind]
        elif kind == service.PING:
            assert kinds(steps) == [service.PONG]
        else:
            assert steps == []
            assert sum(server.refused().values()) == 1


def test_live_messages_are_relayed_as_the_reference_relays_them() -> None:
    """What a subscriber got, but for the sender's socket, which the reference lets through in V6."""
    compared = 0
    for wire in ("v5", "v6"):
        captures = {c["node"]: c["messages"] for c in load("live")["captures"] if c["wire"] == wire}
        published = [frames_of(raw["frames"])[1:] for raw in captures["libzmq_sub"]]
        for raw in captures["rendezvous"]:
            if raw["dir"] == "recv" and raw["identity"] in {kind.identity.decode() for kind in ROUTE_KINDS}:
                (step,) = Server(LEADING).unicast(frames_of(raw["frames"]))
                assert isinstance(step, Publication)
                assert step.frames[1:] in published
                assert step.frames[0] == b""
                compared += 1
    assert compared >= 10


@given(
    st.lists(st.binary(max_size=5), max_size=4),
    st.sampled_from(FORMATS),
    st.lists(st.binary(max_size=9), min_size=1, max_size=3),
    st.lists(st.builds(MessageIdentifier, st.binary(max_size=4)), max_size=3),
)
def test_only_the_frames_that_sockets_add_are_removed(
    in_front: list[bytes], wire_format: WireFormat, bodies: list[bytes], callbacks: list[MessageIdentifier]
) -> None:
    bodies = bodies[:1] if wire_format is WireFormat.V6 else bodies
    message = LEAVING.clone(bodies=tuple(bodies), callback_point=tuple(callbacks))
    frames = encode(message, wire_format)
    (step,) = Server(LEADING).unicast([*in_front, *frames[2:]])
    assert step == Publication(frames, to_partners=True)


@pytest.mark.parametrize(("wire_format", "extra"), [(WireFormat.V5, b"what is new"), (WireFormat.V4, b"")])
def test_frames_that_our_writer_would_not_write_are_relayed_unchanged(wire_format: WireFormat, extra: bytes) -> None:
    frames = encode(LEAVING, wire_format)
    body_offset = int.from_bytes(frames[-2][:2], "little") if frames[-2] else 0
    frames[-2] = (body_offset + 1).to_bytes(2, "little") + frames[-2][2:]
    unusual = [*frames[:3], extra, *frames[3:]]  # a frame below the body that no table knows
    assert decode(unusual) == LEAVING
    assert Server(LEADING).unicast([ROUTER_ID, *unusual]) == [Publication(unusual, to_partners=True)]
    assert Server(LEADING).unicast(tuple(unusual[1:])) == [Publication(unusual, to_partners=True)]


def test_early_dialects_are_relayed_unchanged() -> None:
    for layout in (layouts.V4A, layouts.V4B, layouts.V4C, layouts.V4D, layouts.V4E, layouts.V5_INT32):
        server = Server(LEADING)
        frames = encode(LEAVING, layout)
        assert server.unicast([ROUTER_ID, *frames]) == [Publication(frames, to_partners=True)]
    assert server.unicast(encode(LEAVING.clone(version=b"1.1"), layouts.V4A)) == []
    assert server.refused() == {Refusal.UNKNOWN_KIND: 1}


def test_a_ping_is_answered_in_the_configured_format_and_in_that_of_the_ping() -> None:
    pong = service.service_message(service.PONG, None)
    for configured in FORMATS:
        for asked_in in FORMATS:
            server = Server(LEADING, wire_format=configured)
            *others, original = server.unicast(as_received(any_of(service.PING), asked_in))
            assert original == Publication(encode(pong, configured), to_partners=True)
            expected = [] if asked_in is configured else [Publication(copied(pong, asked_in), to_partners=True)]
            assert others == expected


# -- formats -----------------------------------------------------------------------------------------------------------


def test_messages_are_relayed_in_every_format_in_use() -> None:
    server = Server(LEADING)
    for number, wire_format in enumerate(SERVICE_FORMATS):
        original, *others = server.unicast(as_received(LEAVING, wire_format))
        assert original == Publication(encode(LEAVING, wire_format), to_partners=True)
        expected = [Publication(copied(LEAVING, one), to_partners=True) for one in SERVICE_FORMATS[:number]]
        assert others == expected
    assert server.relay.statistics.relayed == len(SERVICE_FORMATS)


def test_a_declaration_is_relayed_in_every_format() -> None:
    server = Server(LEADING)
    for wire_format in SERVICE_FORMATS:
        server.unicast(as_received(LEAVING, wire_format))
    for wire_format in SERVICE_FORMATS:
        announcement = any_of(service.REGISTER_ROUTE, b"anything").clone(extension=OWN_DECLARATION)
        published = server.unicast(as_received(announcement, wire_format))
        assert published[0] == Publication(encode(announcement, wire_format), to_partners=True)
        received = [decode(list(one.frames)) for one in published if isinstance(one, Publication)]
        assert {message.wire_format for message in received} == set(SERVICE_FORMATS)
        assert {message.extension for message in received} == {OWN_DECLARATION}


@pytest.mark.parametrize("wire_format", SERVICE_FORMATS)
def test_a_server_uses_the_format_of_its_nodes_or_its_own_without_nodes(wire_format: WireFormat) -> None:
    server = Server(LEADING, format_memory=60.0)

    def heartbeat_formats() -> list[WireFormat | None]:
        server.now += 5 * SECOND
        steps = [step for step in server.tick() if isinstance(step, Publication)]
        return [decode(list(step.frames)).wire_format for step in steps]

    assert heartbeat_formats() == [WireFormat.V5]
    server.unicast(as_received(any_of(service.PING), WireFormat.V4))  # from somebody who tries one after the other
    assert heartbeat_formats() == [WireFormat.V5]
    server.unicast(as_received(LEAVING, wire_format))
    assert heartbeat_formats() == [wire_format]
    server.unicast(as_received(LEAVING))
    assert heartbeat_formats() == [*([] if wire_format is WireFormat.V5 else [wire_format]), WireFormat.V5]
    server.now += 60 * SECOND
    assert heartbeat_formats() == [WireFormat.V5]


def test_a_follower_answers_a_ping_in_its_format() -> None:
    server = Server(FOLLOWING)
    steps = server.unicast(as_received(any_of(service.PING), WireFormat.V6))
    notices = [decode(list(step.frames)) for step in steps if isinstance(step, Publication)]
    assert [message.wire_format for message in notices] == [WireFormat.V6, WireFormat.V5]
    assert {message.identifier for message in notices} == {service.NOT_LEADER}


def test_a_heartbeat_equals_that_of_the_reference_byte_for_byte() -> None:
    for wire_format in ("v5", "v6"):
        live = [
            frames_of(raw["frames"])
            for capture in load("live")["captures"]
            if capture["wire"] == wire_format and capture["node"] == "rendezvous"
            for raw in capture["messages"]
            if raw["identity"] == "KINO.HEARTBEAT" and raw["dir"] == "send" and raw["frames"][0] == ""
        ]
        relay = Relay(RelaySettings(heartbeat_interval=2.0, wire_format=WireFormat(wire_format)), now=0)
        assert relay.tick(LEADING, 0) == [Publication(live[0], to_partners=True)]


def test_a_leader_publishes_a_heartbeat_at_once_and_every_interval() -> None:
    relay = Relay(RelaySettings(), now=0)
    beats = []
    for second in range(21):
        now = second * SECOND
        if now >= relay.next_tick or second == 3:
            steps = relay.tick(LEADING if second >= 3 else NOBODY, now)
            beats += [second] * len(steps)
    assert beats == [3, 8, 13, 18]
    assert relay.statistics.heartbeats == 4


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leadership", [LEADING, FOLLOWING, NOBODY])
@pytest.mark.parametrize(
    ("message", "why"),
    [
        (any_of(service.HEARTBEAT), Refusal.LEADERS_ONLY),
        (any_of(service.PONG), Refusal.LEADERS_ONLY),
        (
            service.service_message(service.NOT_LEADER, RendezvousNotLeader(new_leader=RendezvousNode())),
            Refusal.LEADERS_ONLY,
        ),
        (service.service_message(service.RECONFIGURE, RendezvousConfigurationChanged()), Refusal.LEADERS_ONLY),
        (
            service.service_message(
                service.UNREGISTER_UNREACHABLE_NODE, UnregisterUnreachableNode(receiver_node_identity=b"victim")
            ),
            Refusal.EVICTION,
        ),
        (any_of(service.WRITE_LEASE), Refusal.UNKNOWN_KIND),
        (Message(b"HELLO"), Refusal.UNKNOWN_KIND),
        (LEAVING.clone(version=2), Refusal.UNKNOWN_KIND),
        (LEAVING.clone(partition=b"p"), Refusal.UNKNOWN_KIND),
    ],
)
def test_messages_that_only_servers_publish_are_refused(message: Message, why: Refusal, leadership: Leadership) -> None:
    server = Server(leadership)
    for wire_format in FORMATS:
        assert server.unicast(as_received(message, wire_format)) == []
    assert server.refused() == {why: 3}
    assert server.relay.held == 0


def test_an_ambiguous_message_is_refused() -> None:
    hijack = service.service_message(service.NOT_LEADER, RendezvousNotLeader(new_leader=LEADER.content()))
    server = Server(LEADING)
    assert server.unicast([ROUTER_ID, *encode(LEAVING, WireFormat.FIRST)]) == []
    assert server.refused() == {Refusal.AMBIGUOUS: 1}
    # We would not write this one: nodes of the first format find another message in it. They do not get to see it.
    leaving = encode(LEAVING.clone(bodies=(b"",)), WireFormat.V6)
    two_in_one = [*encode(hijack, WireFormat.FIRST)[:-1], leaving[-1]]
    assert decode([*two_in_one[:-1], b"body"]).identifier == service.NOT_LEADER
    assert server.unicast([ROUTER_ID, *two_in_one]) == [Publication(leaving, to_partners=True)]
    several = encode(LEAVING.clone(bodies=tuple(encode(hijack, WireFormat.V5)[2:-1])), WireFormat.V6)
    assert decode(several).identifier == service.UNREGISTER_NODE
    assert decode([*several[:-1], b"\x05\x00"]).identifier == service.NOT_LEADER
    assert server.unicast([ROUTER_ID, *several]) == []
    assert server.refused() == {Refusal.AMBIGUOUS: 2}


@given(st.lists(st.binary(max_size=20), max_size=25))
def test_malformed_messages_are_counted_and_dropped(frames: list[bytes]) -> None:
    server = Server(LEADING)
    assert server.unicast(frames) == []
    assert sum(server.refused().values()) == 1


# -- a follower --------------------------------------------------------------------------------------------------------


def test_a_follower_publishes_who_leads_instead_of_relaying() -> None:
    server = Server(FOLLOWING)
    (step,) = server.unicast(as_received(LEAVING))
    assert isinstance(step, Publication)
    assert step.to_partners
    notice = decode(list(step.frames))
    assert notice.wire_format is WireFormat.V5
    assert RendezvousAddress.of(service.read(notice, RendezvousNotLeader).new_leader) == LEADER
    assert server.refused() == {Refusal.NOT_LEADER: 1}


def test_notices_on_who_leads_are_spaced_in_time() -> None:
    server = Server(FOLLOWING)
    notices = 0
    for _ in range(1000):
        notices += len(server.unicast(as_received(LEAVING)))
        server.now += in_ticks(0.001)
    assert notices == 10
    assert server.refused() == {Refusal.NOT_LEADER: 1000}
    assert server.relay.statistics.not_leaders == 11  # and when it started


def test_the_last_of_many_messages_still_causes_a_notice() -> None:
    server = Server(FOLLOWING)
    server.unicast(as_received(LEAVING))
    server.now += 1
    assert server.unicast(as_received(any_of(service.PING))) == []
    server.now = server.relay.next_tick
    assert kinds(server.tick()) == [service.NOT_LEADER]
    assert server.now == 2 * SECOND + in_ticks(0.1)
    assert server.relay.next_tick > server.now + SECOND


def test_a_follower_publishes_who_leads_every_interval_and_when_it_changes() -> None:
    relay = Relay(RelaySettings(), now=0)
    assert kinds(relay.tick(FOLLOWING, 0)) == [service.NOT_LEADER]
    assert relay.tick(FOLLOWING, 4 * SECOND) == []
    assert kinds(relay.tick(FOLLOWING, 5 * SECOND)) == [service.NOT_LEADER]
    other = Leadership(leader=RendezvousAddress("tcp://10.0.0.8:8001", "tcp://10.0.0.8:8011"))
    assert kinds(relay.tick(other, 6 * SECOND)) == [service.NOT_LEADER]
    assert kinds(relay.tick(LEADING, 7 * SECOND)) == [service.HEARTBEAT]


# -- nobody leads ------------------------------------------------------------------------------------------------------


def test_held_messages_are_relayed_once_the_server_leads() -> None:
    server = Server(NOBODY)
    messages = [LEAVING.clone(domain=domain) for domain in "ABC"]
    for message in messages:
        assert server.unicast(as_received(message)) == []
    assert server.relay.held == 3
    server.leadership = LEADING
    server.now += SECOND
    steps = server.unicast(as_received(any_of(service.PING)))
    assert kinds(steps) == [service.HEARTBEAT, *[service.UNREGISTER_NODE] * 3, service.PONG]
    relayed = [decode(list(step.frames)) for step in steps[1:4] if isinstance(step, Publication)]
    assert relayed == messages
    assert server.relay.held == 0


def test_held_messages_cause_one_notice_once_another_server_leads() -> None:
    server = Server(NOBODY)
    for _ in range(3):
        server.unicast(as_received(LEAVING))
    server.leadership = FOLLOWING
    assert kinds(server.tick()) == [service.NOT_LEADER]
    assert server.refused() == {Refusal.NOT_LEADER: 3}


def test_held_messages_are_bounded_in_number_and_bytes() -> None:
    server = Server(NOBODY, held_messages=2)
    for _ in range(3):
        server.unicast(as_received(LEAVING))
    assert server.relay.held == 2
    assert server.refused() == {Refusal.NO_ROOM: 1}
    server = Server(NOBODY, held_bytes=3000)
    for _ in range(3):
        server.unicast(as_received(LEAVING.clone(bodies=(bytes(1000),))))
    assert server.relay.held == 2
    server.now += 60 * SECOND
    server.tick()
    assert server.relay.held == 0
    server.unicast(as_received(LEAVING.clone(bodies=(bytes(1000),))))
    assert server.relay.held == 1  # the room is free again


def test_held_messages_expire() -> None:
    server = Server(NOBODY, holding_time=2.0, heartbeat_interval=3600.0)
    server.unicast(as_received(LEAVING))
    assert server.relay.next_tick == server.now + 2 * SECOND
    server.now += 2 * SECOND
    server.leadership = LEADING
    assert kinds(server.tick()) == [service.HEARTBEAT]
    assert server.refused() == {Refusal.TOO_LATE: 1}


def test_a_ping_is_not_held() -> None:
    server = Server(NOBODY)
    assert server.unicast(as_received(any_of(service.PING))) == []
    assert server.refused() == {Refusal.NO_LEADER: 1}


# -- everything --------------------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False))
def test_every_message_is_accounted_for(random: Random) -> None:
    relay = Relay(RelaySettings(held_messages=3, holding_time=1.0, not_leader_spacing=0.05), now=0)
    network = partner("A")
    now = published = 0
    for _ in range(60):
        now += random.choice((0, SECOND // 10, SECOND))
        leadership = random.choice((LEADING, FOLLOWING, NOBODY))
        kind = random.choice([*service.CATALOGUE, *ROUTE_KINDS, *ROUTE_KINDS])
        frames = encode(any_of(kind).clone(domain=random.choice("AB")), random.choice(list(WireFormat)))
        if random.random() < 0.3:
            steps = relay.on_partner(frames, network, leadership, now)
        else:
            steps = relay.on_unicast(random.choice((frames, frames[1:], frames[:-1])), leadership, now)
        found = kinds(steps)
        originals = [step for step in steps if isinstance(step, Publication) and not is_copy(step.frames)]
        published += sum(kind in ROUTE_KINDS for kind in kinds([*originals]))
        if not leadership.leads:
            assert set(found) <= {service.NOT_LEADER}
        assert service.NOT_LEADER not in found or leadership == FOLLOWING
        assert relay.next_tick > now or leadership == FOLLOWING
        counted = relay.statistics
        ended = counted.relayed + counted.pings + counted.for_listening + sum(counted.refused.values())
        assert counted.received == ended + relay.held
        assert counted.relayed == published


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heartbeat_interval", 0),
        ("held_messages", -1),
        ("holding_time", float("nan")),
        ("not_leader_spacing", "soon"),
        ("wire_format", WireFormat.FIRST),
    ],
)
def test_wrong_settings_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"rendezvous\.{name}"):
        RelaySettings(**{name: value})
