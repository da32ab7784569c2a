"""What a rendezvous server relays from partner networks, and which of their servers it follows."""

from __future__ import annotations

import pytest

from hopline import ArgumentError, Message
from hopline.cluster.election.leadership import LEADING, NOBODY
from hopline.cluster.messages import service
from hopline.cluster.messages.service_pb2 import (
    DiscoverMessageRoute,
)
from hopline.message import WireFormat
from hopline.rendezvous.held_messages import Publication
from hopline.rendezvous.partner import Listen, Partner
from hopline.rendezvous.relay import ROUTE_KINDS, Refusal, RelayStep
from tests.rendezvous.relays import (
    FOLLOWING,
    HERE,
    LEAVING,
    ROUTER_ID,
    SECOND,
    THERE,
    Server,
    any_of,
    copied,
    new_leader,
    of_partner,
    partner,
)


def test_route_messages_of_a_partner_are_relayed_to_nodes_only() -> None:
    server = Server(LEADING)
    frames = of_partner(LEAVING)
    received = [ROUTER_ID, *frames[1:]]
    assert server.relay.on_partner(received, partner(), LEADING, server.now) == [Publication(frames, to_partners=False)]


def test_messages_of_a_partner_are_filtered_by_domain() -> None:
    server = Server(LEADING)
    for allowed, let_in in ((("*",), True), (("A",), True), (("B", "AA"), False), (("",), False)):
        steps = server.relay.on_partner(of_partner(LEAVING), partner(*allowed), LEADING, server.now)
        assert bool(steps) is let_in
    discover = service.service_message(service.DISCOVER_ROUTE, DiscoverMessageRoute())
    assert server.relay.on_partner(of_partner(discover), partner(""), LEADING, server.now)
    assert server.refused() == {Refusal.FOREIGN_DOMAIN: 2}


def test_other_messages_of_a_partner_are_refused() -> None:
    for kind in service.CATALOGUE:
        if kind not in ROUTE_KINDS and kind != service.NOT_LEADER:
            server = Server(LEADING)
            assert server.relay.on_partner(of_partner(any_of(kind)), partner(), LEADING, server.now) == []
    assert server.relay.on_partner([b"x"], partner(), LEADING, server.now) == []
    assert server.refused()[Refusal.MALFORMED] == 1


def test_held_messages_of_a_partner_are_relayed_to_nodes_only() -> None:
    server = Server(NOBODY)
    server.relay.on_partner(of_partner(LEAVING), partner(), NOBODY, server.now)
    assert server.relay.tick(LEADING, server.now)[1:] == [Publication(of_partner(LEAVING), to_partners=False)]


def test_a_follower_answers_a_partners_message_to_nodes_only() -> None:
    server = Server(FOLLOWING)
    (step,) = server.relay.on_partner(of_partner(LEAVING), partner(), FOLLOWING, server.now)
    assert isinstance(step, Publication)
    assert not step.to_partners
    assert server.refused() == {Refusal.NOT_LEADER: 1}


def test_a_silent_server_of_a_partner_is_replaced_by_the_next() -> None:
    server, network = Server(LEADING), partner()
    server.relay.on_partner(of_partner(any_of(service.HEARTBEAT)), network, LEADING, 10 * SECOND)
    assert network.next_tick == 25 * SECOND
    assert network.tick(25 * SECOND - 1) is None
    assert network.tick(25 * SECOND) == Listen("next door", THERE)
    assert network.uri == THERE
    assert network.tick(40 * SECOND) == Listen("next door", HERE)


def test_a_partners_new_leader_is_found_by_its_partner_broadcast_address() -> None:
    server, network = Server(LEADING), partner()

    def receive(message: Message) -> list[RelayStep]:
        return server.relay.on_partner(of_partner(message), network, LEADING, server.now)

    assert receive(new_leader(HERE)) == []
    assert receive(new_leader(THERE + "/")) == [Listen("next door", THERE)]
    assert receive(new_leader(THERE)) == []
    assert receive(new_leader("tcp://10.6.6.6:8111")) == []  # and it does not come back to the same one for ever
    assert network.unknown_leaders == 1
    assert network.uri == THERE
    assert server.relay.statistics.for_listening == 4
    assert receive(new_leader("")) == []
    assert server.refused() == {Refusal.MALFORMED: 1}


def test_wrong_settings_of_a_partner_are_refused() -> None:
    for cluster, silence in (([], 15.0), ([HERE, HERE], 15.0), ([HERE], 0.0)):
        with pytest.raises(ArgumentError, match=r"partners\[next door\]"):
            Partner("next door", cluster, ["*"], silence, now=0)


def test_copies_of_a_partner_are_ignored() -> None:
    server = Server(LEADING)
    assert server.relay.on_partner(copied(LEAVING, WireFormat.V6), partner("A"), LEADING, server.now) == []
    assert server.relay.statistics.received == 0
