"""A member of a cluster by itself: the network is a list of what it said."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from google.protobuf.message import Message as Content

from hopline.cluster import ClusterSettings, Member, Membership, RendezvousAddress
from hopline.cluster.formats import Evidence
from hopline.cluster.service import (
    HEARTBEAT,
    REGISTER_ROUTE,
    REQUEST_CLUSTER_ROUTES,
    registration,
    service_message,
)
from hopline.cluster.service_pb2 import HeartBeat, RequestClusterMessageRoutes
from hopline.message import Message, MessageIdentifier, WireFormat, new_hub_identity
from hopline.routing import NodeRemoval, Route
from hopline.security import NoSecurity, Security

SERVERS = [RendezvousAddress(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 10}") for port in (8001, 8002)]
ME = Member(identity=b"me", uri="tcp://127.0.0.1:5101", health_uri="tcp://127.0.0.1:5102")


class World:
    """Everything around one member, and its clock."""

    def __init__(self, security: Security | None = None, settings: ClusterSettings | None = None) -> None:
        self.now = 1_000.0
        self.security = security or NoSecurity()
        self.subscribed: set[str] = set()
        self.where: dict[bytes, str] = {}
        self.gone: list[bytes] = []
        self.learned: list[Route] = []
        self.forgotten: list[tuple[bytes, Route]] = []
        self.published: list[Message] = []
        self.followed: list[RendezvousAddress] = []
        self.told: list[Message] = []
        self.declared: dict[bytes, frozenset[WireFormat]] = {}
        self.route = Route(new_hub_identity())
        self.member = Membership(
            ME,
            SERVERS,
            settings or ClusterSettings(),
            self.security,
            self,
            self,
            clock=lambda: self.now,
            random=Random(1),
        )

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.member.tick()

    def leader_speaks(self) -> None:
        self.member.hear(service_message(HEARTBEAT, HeartBeat()))

    def say_in(self, domain: str, kind: MessageIdentifier, content: Content) -> None:
        self.member.take(self.security.protect_in(service_message(kind, content), domain))

    def announcements(self) -> list[Message]:
        return [message for message in self.published if message.identifier == REGISTER_ROUTE]

    # -- the network ---------------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> bool:
        self.published.append(message)
        return True

    def follow(self, server: RendezvousAddress) -> None:
        self.followed.append(server)

    def ping(self) -> None: ...

    def tell(self, node: bytes, uri: str, message: Message, *, introduces: bool = False) -> None:
        self.told.append(message)

    def disconnect(self, node: bytes) -> None: ...

    def resolve(self, uri: str) -> str:
        return uri

    def is_address(self, uri: str) -> bool:
        return True

    def speaks(self, node: bytes, wire_format: WireFormat | None, evidence: Evidence = Evidence.RELAYED) -> None: ...

    def reads(self, node: bytes, formats: frozenset[WireFormat]) -> None:
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
    world.leader_speaks()
    (said,) = world.announcements()
    world.member.hear(said)  # it comes back through the server
    world.pass_time(0.1)
    world.published.clear()
    return world


def test_what_was_heard_coming_back_is_not_said_again() -> None:
    world = joined_world()
    for _ in range(10):
        world.leader_speaks()
        world.pass_time(1.0)
    assert not world.announcements()


def test_who_was_paused_says_again_what_lives_here() -> None:
    world = joined_world()
    world.pass_time(10.0)
    assert len(world.announcements()) == 1


def test_who_was_paused_for_so_long_that_the_server_seems_silent_says_it_when_it_joins_again() -> None:
    world = joined_world()
    world.pass_time(20.0)
    assert world.followed == SERVERS
    assert not world.announcements()
    world.pass_time(0.05)
    world.leader_speaks()
    assert len(world.announcements()) == 1


def test_nodes_that_announce_nothing_are_not_remembered() -> None:
    world = joined_world()
    for number in range(100):
        content = registration("tcp://127.0.0.1:5", b"node %d" % number, "tcp://127.0.0.1:6", 1.0, [])
        world.member.take(service_message(REGISTER_ROUTE, content))
    assert not world.member.health


def test_of_one_node_only_so_many_routes_are_remembered() -> None:
    world = joined_world()
    known = [Route(new_hub_identity()) for _ in range(ClusterSettings().known_routes)]
    for hubs in (known, known[:1], [Route(new_hub_identity())]):
        content = registration("tcp://127.0.0.1:5", b"node", "tcp://127.0.0.1:6", 1.0, hubs)
        world.member.take(service_message(REGISTER_ROUTE, content))
    assert world.learned == [*known, known[0]]
    assert world.member.traffic.refused == {"too many routes": 1}


def test_a_question_that_is_replayed_is_not_answered_again_and_again() -> None:
    world = World()
    question = RequestClusterMessageRoutes(requestor_uri="tcp://10.0.0.2:5101", requestor_node_identity=b"other")
    for _ in range(10):
        world.say_in("", REQUEST_CLUSTER_ROUTES, question)
        world.pass_time(0.01)
    assert world.member.traffic.told == 1
    assert world.member.traffic.refused["asked too often"] == 9
    world.pass_time(1.0)
    world.say_in("", REQUEST_CLUSTER_ROUTES, question)
    assert world.member.traffic.told == 2
