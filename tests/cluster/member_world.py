"""One member of a cluster without a network: it records everything that the member does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from google.protobuf.message import Message as Content

from hopline.cluster import ClusterSettings, Member, Membership, RendezvousAddress
from hopline.cluster.membership.ports import SchemaPort
from hopline.cluster.messages.formats import Evidence
from hopline.cluster.messages.service import (
    HEARTBEAT,
    REGISTER_ROUTE,
    service_message,
)
from hopline.cluster.messages.service_pb2 import HeartBeat
from hopline.message import Message, MessageIdentifier, WireFormat, new_hub_identity
from hopline.routing import NodeRemoval, Route
from hopline.schemas.book import SchemaBook
from hopline.security import NoSecurity, Security

SERVERS = [RendezvousAddress(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 10}") for port in (8001, 8002)]
ME = Member(identity=b"me", uri="tcp://127.0.0.1:5101", health_uri="tcp://127.0.0.1:5102")


class World:
    """Everything around one member, and its clock."""

    def __init__(
        self,
        security: Security | None = None,
        settings: ClusterSettings | None = None,
        schemas: SchemaPort | None = None,
    ) -> None:
        self.now = 1_000.0
        self.security = security or NoSecurity()
        self.subscribed: set[str] = set()
        self.where: dict[bytes, str] = {}
        self.gone: list[bytes] = []
        self.learned: list[Route] = []
        self.forgotten: list[tuple[bytes, Route]] = []
        self.published: list[Message] = []
        self.followed: list[RendezvousAddress] = []
        self.sent: list[Message] = []
        self.declared: dict[bytes, frozenset[WireFormat]] = {}
        self.route = Route(new_hub_identity())
        self.member = Membership(
            ME,
            SERVERS,
            settings or ClusterSettings(),
            self.security,
            self,
            self,
            schemas or SchemaBook(),
            clock=lambda: self.now,
            random=Random(1),
        )
        self.member.start()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.member.tick()

    def receive_server_heartbeat(self) -> None:
        self.member.receive_broadcast(service_message(HEARTBEAT, HeartBeat()))

    def receive_in(self, domain: str, kind: MessageIdentifier, content: Content) -> None:
        self.member.receive(self.security.sign_control(service_message(kind, content), domain))

    def announcements(self) -> list[Message]:
        return [message for message in self.published if message.identifier == REGISTER_ROUTE]

    # -- the network ---------------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> bool:
        self.published.append(message)
        return True

    def follow(self, server: RendezvousAddress) -> None:
        self.followed.append(server)

    def ping(self) -> None: ...

    def send(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        self.sent.append(message)

    def may_answer(self, node: bytes, domain: str) -> bool:
        return True

    def disconnect(self, node: bytes) -> None: ...

    def resolve(self, uri: str) -> str:
        return uri

    def is_address(self, uri: str) -> bool:
        return True

    def note_written_format(
        self, node: bytes, wire_format: WireFormat | None, evidence: Evidence = Evidence.RELAYED
    ) -> None: ...

    def note_read_formats(self, node: bytes, formats: frozenset[WireFormat]) -> None:
        self.declared[node] = formats

    def subscribe(self, uri: str) -> None:
        self.subscribed.add(uri)

    def unsubscribe(self, uri: str) -> None:
        self.subscribed.discard(uri)

    # -- the routes ----------------------------------------------------------------------------------------------------

    def advertised(self, *identifiers: MessageIdentifier) -> list[Route]:
        return [self.route]

    def learn_all(self, node: bytes, uri: str, routes: Sequence[Route]) -> None:
        self.where[node] = uri
        self.learned.extend(routes)

    def forget(self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        self.forgotten.append((node, Route(receiver, identifier)))

    def forget_node(self, node: bytes) -> NodeRemoval | None:
        self.where.pop(node, None)
        self.gone.append(node)
        return None

    def routes_to(self, node: bytes) -> list[Route]:
        return self.learned


def joined_world() -> World:
    """Make a member that has joined, and was heard."""
    world = World()
    world.member.announce([world.route])
    world.receive_server_heartbeat()
    (announcement,) = world.announcements()
    world.member.receive_broadcast(announcement)  # it comes back through the server
    world.pass_time(0.1)
    world.published.clear()
    return world
