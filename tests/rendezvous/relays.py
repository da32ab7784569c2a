"""A relay with a leadership and a clock, and messages for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hopline import Message
from hopline.cluster.election.leadership import Leadership
from hopline.cluster.election.lease import in_ticks
from hopline.cluster.messages import service
from hopline.cluster.messages.formats import COPY
from hopline.cluster.messages.service_pb2 import (
    RendezvousNode,
    RendezvousNotLeader,
    UnregisterNode,
)
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.message import MessageIdentifier, WireFormat
from hopline.rendezvous.held_messages import Publication
from hopline.rendezvous.partner import Partner
from hopline.rendezvous.relay import Refusal, Relay, RelaySettings, RelayStep
from hopline.wire import decode, encode

SECOND = in_ticks(1)
LEADER = RendezvousAddress("tcp://10.0.0.9:8001", "tcp://10.0.0.9:8011", "tcp://10.0.0.9:8111")
FOLLOWING = Leadership(leader=LEADER)
ROUTER_ID = b"\x00\x01\x02\x03\x04"
FORMATS = [WireFormat.V4, WireFormat.V5, WireFormat.V6]
LEAVING = service.service_message(
    service.UNREGISTER_NODE, UnregisterNode(uri="tcp://10.0.0.1:5101", receiver_node_identity=b"node"), domain="A"
)


def as_received(message: Message, wire_format: WireFormat = WireFormat.V5) -> list[bytes]:
    """Give the frames that the rendezvous server's ROUTER hands out."""
    return [ROUTER_ID, *encode(message, wire_format)]


def any_of(kind: MessageIdentifier, body: bytes = b"") -> Message:
    return Message(kind.identity, bodies=(body,))


class Server:
    """A relay that has already published its first heartbeat or notice."""

    def __init__(self, leadership: Leadership, **settings: Any) -> None:
        self.relay = Relay(RelaySettings(**settings), now=0)
        self.leadership = leadership
        self.now = SECOND
        self.relay.tick(leadership, self.now)
        self.now += SECOND

    def unicast(self, frames: Sequence[bytes]) -> list[RelayStep]:
        return self.relay.on_unicast(frames, self.leadership, self.now)

    def tick(self) -> list[RelayStep]:
        return self.relay.tick(self.leadership, self.now)

    def refused(self) -> dict[Refusal, int]:
        return dict(self.relay.statistics.refused)


def kinds(steps: list[RelayStep]) -> list[MessageIdentifier]:
    return [decode(list(step.frames)).identifier for step in steps if isinstance(step, Publication)]


def copied(message: Message, wire_format: WireFormat) -> list[bytes]:
    return [COPY, *encode(message, wire_format)[1:]]


# -- partners ---------------------------------------------------------------------------------------------------------

HERE, THERE = "tcp://10.1.0.1:8111", "tcp://10.1.0.2:8111"


def partner(*domains: str) -> Partner:
    return Partner("next door", [HERE, THERE], domains or ("*",), silence=15.0, now=0)


def of_partner(message: Message) -> list[bytes]:
    return encode(message, WireFormat.V6)


def new_leader(uri: str) -> Message:
    """Say who leads next door, as its own nodes see it and as its partners do."""
    address = RendezvousNode(
        broadcast_uri="tcp://10.1.0.2:8001", unicast_uri="tcp://10.1.0.2:8011", partner_broadcast_uri=uri
    )
    return service.service_message(service.NOT_LEADER, RendezvousNotLeader(new_leader=address))
