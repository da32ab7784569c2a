"""The service messages: what a running cluster of the reference said is read, and written again byte for byte."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message as Content
from hypothesis import given
from hypothesis import strategies as st
from tools import service_messages

from hopline import ArgumentError, Message, MessageIdentifier, PayloadError, WireFormat
from hopline.cluster.messages import service, service_pb2
from hopline.cluster.messages.service import (
    CATALOGUE,
    contract_of,
    identifier_of,
    is_service,
    read,
    read_body,
    registration,
    service_message,
    unregistration,
)
from hopline.cluster.messages.service_pb2 import (
    Ballot,
    DiscoverMessageRoute,
    HeartBeat,
    LeaseAckRead,
    LeaseWrite,
    MessageContract,
    RegisterExternalMessageRoute,
    RendezvousNode,
    RendezvousNotLeader,
    RequestClusterMessageRoutes,
    RouteRegistration,
    UnregisterNode,
)
from hopline.cluster.messages.timespan import from_timespan, to_timespan
from hopline.message import EXCEPTION, MAX_VERSION, RECEIPT
from hopline.routing import Route
from hopline.wire import decode, encode
from tests.wire.vectors import frames_of, load

NODE = b"11111111-1111-1111-1111-111111111111"
ACTOR = b"\x01" + b"22222222-2222-2222-2222-222222222222"
HUB = b"\x00" + b"33333333-3333-3333-3333-333333333333"
URI = "tcp://10.0.0.1:5101"
HEALTH_URI = "tcp://10.0.0.1:5102"
INTERVAL = timedelta(seconds=5)
HELLO = MessageIdentifier(b"HELLO")
OF_AN_EARLY_PEER = MessageIdentifier(b"HELLO", b"1.1")

CAPTURES = load("live")["captures"]
# What the captured nodes said to themselves, and to each other's actors.
NOT_IN_THE_CATALOGUE = {
    b"HELLO", b"EHHLO", b"KINO.ADDPEER", b"KINO.STARTPEERMON", b"KINO.DELETEPEER", b"KINO.CHCKDEADPEERS",
}  # fmt: skip


def contents() -> list[type[Content]]:
    return [cls for cls in CATALOGUE.values() if cls is not None]


def captured() -> Iterator[Message]:
    """Every service message of every capture."""
    for capture in CAPTURES:
        for raw in capture["messages"]:
            message = decode(frames_of(raw["frames"]))
            if message.identity not in NOT_IN_THE_CATALOGUE:
                yield message


def content_of(message: Message) -> Content:
    cls = CATALOGUE[message.identifier]
    assert cls is not None
    return read(message, cls)


def routes_of(entries: Any) -> Iterator[Route]:
    for entry in entries:
        if not entry.message_contracts:
            yield Route(entry.receiver_identity)
        for contract in entry.message_contracts:
            yield Route(entry.receiver_identity, identifier_of(contract))


# -- the catalogue -----------------------------------------------------------------------------------------------------


def test_the_classes_are_those_of_the_proto_file() -> None:
    made = service_messages.generate()
    assert {path.name for path in made} == {"service_pb2.py", "service_pb2.pyi"}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: make generate"


def test_we_ask_for_the_protobuf_that_the_classes_need() -> None:
    root = Path(service_messages.__file__).parent.parent
    made_with = re.search(r"Protobuf Python Version: (\S+)", Path(service_pb2.__file__).read_text(encoding="utf-8"))
    assert made_with is not None
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"protobuf>={made_with[1]}" in project["dependencies"]


def test_the_catalogue_names_every_message_that_crosses_the_wire() -> None:
    assert {str(kind) for kind in CATALOGUE} == {
        f"KINO.{name}/1"
        for name in (
            "REGEXTROUTE", "UNREGMSGROUTE", "UNREGNODE", "REQCLUSTROUTES", "REQNODEROUTES", "DISCOVMSGROUTE",
            "UNREGUNREACHABLENODE", "HEARTBEAT", "RNDZVNOTLEADER", "RNDZVRECONFIG", "PING", "PONG",
            "REQMSGROUTES", "MSGROUTES", "REQEXTROUTES", "EXTROUTES", "REQINTROUTES", "INTROUTES",
            "QUORUM-HEARTBEAT", "READLEASE", "ACKREADLEASE", "NACKREADLEASE",
            "WRITELEASE", "ACKWRITELEASE", "NACKWRITELEASE",
        )
    }  # fmt: skip


def test_every_constant_of_a_kind_is_in_the_catalogue() -> None:
    named = [value for value in vars(service).values() if isinstance(value, MessageIdentifier)]
    assert sorted(map(str, named)) == sorted(map(str, CATALOGUE))


def test_every_message_of_the_proto_file_is_carried_by_one_of_the_catalogue() -> None:
    def parts(descriptor: Any) -> Iterator[str]:
        yield descriptor.name
        for field in descriptor.fields:
            if field.message_type is not None:
                yield from parts(field.message_type)

    used = {name for cls in contents() for name in parts(cls.DESCRIPTOR)}
    assert used == set(service_pb2.DESCRIPTOR.message_types_by_name)


def test_a_service_message_is_told_by_identity_version_and_partition() -> None:
    assert all(is_service(Message(kind.identity)) for kind in CATALOGUE)
    of_later_times = [MessageIdentifier(b"KINO.PING", 2), MessageIdentifier(b"KINO.PING", 1, b"part")]
    for other in (HELLO, EXCEPTION, RECEIPT, *of_later_times):
        assert not is_service(Message(other.identity, other.version, other.partition))


# -- live traffic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda c: f"{c['wire']}-{c['node']}")
def test_live_traffic_is_read_and_written_again_frame_for_frame(capture: dict[str, Any]) -> None:
    for raw in capture["messages"]:
        frames = frames_of(raw["frames"])
        message = decode(frames)
        if message.identity not in NOT_IN_THE_CATALOGUE:
            body = content_of(message).SerializeToString()
            assert body == message.body, raw["identity"]
            message = message.clone(bodies=(body,))
        written = encode(message.clone(socket_identity=frames[0]), WireFormat(capture["wire"]))
        # What came to the rendezvous server's ROUTER socket has its sender's id above both envelope frames.
        from_dealer = (capture["node"], raw["dir"]) == ("rendezvous", "recv") and frames[0] != b""
        assert [written[0], *[b""] * from_dealer, *written[1:]] == frames


def test_live_service_messages_have_the_headers_that_we_write() -> None:
    for message in captured():
        assert service_message(message.identifier, content_of(message)) == message


def test_the_live_captures_hold_what_these_tests_are_about() -> None:
    assert {str(message.identifier) for message in captured()} == {
        f"KINO.{name}/1"
        for name in (
            "REGEXTROUTE", "UNREGNODE", "REQCLUSTROUTES", "DISCOVMSGROUTE", "HEARTBEAT",
            "READLEASE", "ACKREADLEASE", "WRITELEASE", "ACKWRITELEASE",
        )
    }  # fmt: skip


def test_live_registrations_are_what_our_builder_makes() -> None:
    bodies = {message.body for message in captured() if message.identifier == service.REGISTER_ROUTE}
    assert len(bodies) > 2
    for body in bodies:
        said = read_body(body, RegisterExternalMessageRoute)
        interval = from_timespan(said.health.heart_beat_interval)
        made = registration(said.uri, said.node_identity, said.health.uri, interval, routes_of(said.routes))
        assert made.SerializeToString() == body


def test_the_bodies_of_networks_with_hopline_in_them_are_read_and_written_again() -> None:
    kinds = set()
    for capture in load("live2")["captures"]:
        for raw in capture["messages"]:
            message = decode(frames_of(raw["frames"]))
            content = CATALOGUE.get(message.identifier)
            if content is not None:
                assert read(message, content).SerializeToString() == message.body, raw["identity"]
                kinds.add(message.identity.removeprefix(b"KINO.").decode())
    assert kinds >= {"UNREGMSGROUTE", "RNDZVNOTLEADER", "QUORUM-HEARTBEAT", "NACKWRITELEASE"}


def test_the_owner_of_a_live_lease_says_where_it_listens() -> None:
    lease = next(content_of(m) for m in captured() if m.identifier == service.WRITE_LEASE)
    assert isinstance(lease, LeaseWrite)
    assert read_body(lease.lease.owner_payload, RendezvousNode).broadcast_uri == "tcp://10.77.0.1:8001"


# -- the bytes that the protocol's description gives -------------------------------------------------------------------

URI_HEX, HEALTH_HEX, NODE_HEX = URI.encode().hex(), HEALTH_URI.encode().hex(), NODE.hex()
SAMPLES: list[tuple[str, Content, str]] = [
    ("heartbeat of a rendezvous server", HeartBeat(heart_beat_interval=to_timespan(5)), "0a04080a1003"),
    (
        "heartbeat of a node",
        HeartBeat(heart_beat_interval=to_timespan(INTERVAL), socket_identity=NODE, health_uri=HEALTH_URI),
        f"0a04080a1003 1224{NODE_HEX} 1a13{HEALTH_HEX}",
    ),
    (
        "request of all routes",
        RequestClusterMessageRoutes(requestor_uri=URI, requestor_node_identity=NODE),
        f"0a13{URI_HEX} 1224{NODE_HEX}",
    ),
    (
        "a node that leaves",
        UnregisterNode(uri=URI, receiver_node_identity=NODE),
        f"0a13{URI_HEX} 1224{NODE_HEX}",
    ),
    (
        "discovery of a message",
        DiscoverMessageRoute(requestor_node_identity=NODE, requestor_uri=URI, message_contract=contract_of(HELLO)),
        f"0a24{NODE_HEX} 1213{URI_HEX} 220b 0801 1205 48454c4c4f 1a00",
    ),
    (
        "registration of an actor and a hub",
        registration(URI, NODE, HEALTH_URI, INTERVAL, [Route(ACTOR, HELLO), Route(HUB)]),
        f"0a13{URI_HEX} 1224{NODE_HEX} 1a34 0a25{ACTOR.hex()} 120b 0801 1205 48454c4c4f 1a00"
        f"1a27 0a25{HUB.hex()} 221b 0a13{HEALTH_HEX} 1204 080a1003",
    ),
    (
        "a new leader",
        RendezvousNotLeader(
            new_leader=RendezvousNode(
                broadcast_uri="tcp://10.0.0.9:8001",
                unicast_uri="tcp://10.0.0.9:8011",
                partner_broadcast_uri="tcp://10.0.0.9:8111",
            )
        ),
        f"0a3f 0a13{b'tcp://10.0.0.9:8001'.hex()} 1213{b'tcp://10.0.0.9:8011'.hex()}1a13{b'tcp://10.0.0.9:8111'.hex()}",
    ),
    (
        "a promise when nothing was written yet",
        LeaseAckRead(
            ballot=Ballot(timestamp=637161984000000000, identity=NODE, message_number=1),
            known_write_ballot=Ballot(identity=b""),
            sender_uri="tcp://10.0.0.9:7001",
        ),
        f"0a32 088080d0c5adeee9eb08 1224{NODE_HEX} 1801 1202 1200 2213{b'tcp://10.0.0.9:7001'.hex()}",
    ),
]


@pytest.mark.parametrize(
    ("content", "expected"), [sample[1:] for sample in SAMPLES], ids=[name for name, *_ in SAMPLES]
)
def test_the_sample_bodies_are_written_and_read(content: Content, expected: str) -> None:
    assert content.SerializeToString() == bytes.fromhex(expected)
    assert read_body(bytes.fromhex(expected), type(content)) == content


def test_the_sample_ping_is_written() -> None:
    *envelope, meta = encode(service_message(service.PING, None), WireFormat.V6)
    assert envelope == [b"", b"", b""]
    assert meta == bytes.fromhex(
        "0600 00000000 0100 09000000 4b494e4f2e50494e47 00000000 00000000 0000000000000000 00000000 0000000000000000"
        "00000000 00000000 0000000000000000 0000 00000000 24000000 30303030303030302d303030302d303030302d303030302d"
        "303030303030303030303030 0000000000000000 0200010000000000"
    )


# -- making messages ---------------------------------------------------------------------------------------------------


def test_a_service_message_says_its_domain() -> None:
    message = service_message(service.PING, None, domain="orders")
    assert message == Message(b"KINO.PING", domain="orders")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (HELLO, None),
        (EXCEPTION, None),
        (service.PING, HeartBeat()),
        (service.HEARTBEAT, None),
        (service.HEARTBEAT, Ballot()),
    ],
    ids=str,
)
def test_what_the_catalogue_does_not_say_cannot_be_made(kind: MessageIdentifier, content: Content | None) -> None:
    with pytest.raises(ArgumentError):
        service_message(kind, content)


def test_routes_are_grouped_by_receiver_in_the_order_they_come() -> None:
    other = b"\x01other"
    kinds = [MessageIdentifier(b"A"), MessageIdentifier(b"B", 0, b"part"), MessageIdentifier(b"C", MAX_VERSION)]
    routes = [Route(ACTOR, kinds[2]), Route(HUB), Route(other, kinds[1]), Route(ACTOR, kinds[0])]
    assert list(routes_of(registration(URI, NODE, HEALTH_URI, 5, routes).routes)) == [
        Route(ACTOR, kinds[2]),
        Route(ACTOR, kinds[0]),
        Route(HUB),
        Route(other, kinds[1]),
    ]


def test_a_route_with_a_version_in_text_is_not_announced_nor_is_its_actor() -> None:
    routes = [Route(ACTOR, OF_AN_EARLY_PEER), Route(HUB), Route(b"\x01x", MessageIdentifier(b"A", MAX_VERSION + 1))]
    assert [entry.receiver_identity for entry in registration(URI, NODE, HEALTH_URI, 5, routes).routes] == [HUB]
    assert [entry.receiver_identity for entry in unregistration(URI, NODE, routes).routes] == [HUB]


def test_a_hub_is_taken_back_with_a_contract_because_the_reference_needs_one() -> None:
    hub, actor = unregistration(URI, NODE, [Route(HUB), Route(ACTOR, HELLO)]).routes
    nobodys = MessageContract(version=1, identity=b"KINO.UNREGMSGROUTE", partition=b"")
    assert hub == RouteRegistration(receiver_identity=HUB, message_contracts=[nobodys])
    assert actor == RouteRegistration(receiver_identity=ACTOR, message_contracts=[contract_of(HELLO)])


def test_a_message_is_taken_back_from_a_receiver_that_is_not_known() -> None:
    (entry,) = unregistration(URI, NODE, [Route(b"", HELLO)]).routes
    assert entry.SerializeToString().hex() == "0a00120b0801120548454c4c4f1a00"


def test_an_actor_without_a_message_is_neither_announced_nor_taken_back() -> None:
    for receiver in (ACTOR, b""):
        with pytest.raises(ArgumentError, match="a hub, or an actor with a message"):
            registration(URI, NODE, HEALTH_URI, INTERVAL, [Route(receiver)])
        with pytest.raises(ArgumentError, match="a hub, or an actor with a message"):
            unregistration(URI, NODE, [Route(receiver)])


@pytest.mark.parametrize("interval", [0, -1, timedelta(0), timedelta(days=-1)])
def test_a_node_announces_an_interval_that_keeps_it_alive(interval: timedelta | float) -> None:
    with pytest.raises(ArgumentError, match="more than zero"):
        registration(URI, NODE, HEALTH_URI, interval, [Route(HUB)])


# -- contracts ---------------------------------------------------------------------------------------------------------


@given(st.builds(MessageIdentifier, st.binary(), st.integers(0, MAX_VERSION), st.binary()))
def test_a_contract_says_the_whole_identifier(identifier: MessageIdentifier) -> None:
    contract = contract_of(identifier)
    assert identifier_of(read_body(contract.SerializeToString(), MessageContract)) == identifier
    assert contract.HasField("partition")
    assert contract.HasField("version") is (identifier.version != 0)


@pytest.mark.parametrize("version", [b"1.1", MAX_VERSION + 1, -1])
def test_a_version_that_is_no_16_bit_number_has_no_contract(version: int | bytes) -> None:
    with pytest.raises(ArgumentError, match="a number up to 65535"):
        contract_of(MessageIdentifier(b"HELLO", version))


def test_a_contract_with_a_version_beyond_16_bits_is_refused() -> None:
    with pytest.raises(PayloadError, match="a version of 65536"):
        identifier_of(MessageContract(version=MAX_VERSION + 1, identity=b"HELLO"))


# -- hostile bodies ----------------------------------------------------------------------------------------------------


def texts(content: Content) -> Iterator[object]:
    for field, value in content.ListFields():
        for part in value if field.is_repeated else [value]:
            if field.message_type is not None:
                yield from texts(part)
            elif field.type == field.TYPE_STRING:
                yield part


def read_or_refuse(body: bytes, cls: type[Content]) -> None:
    try:
        content = read(Message(b"KINO.X", bodies=(body,)), cls)
    except PayloadError:
        return
    assert all(isinstance(text, str) for text in texts(content))


@given(st.sampled_from(contents()), st.binary(max_size=60))
def test_whatever_the_bytes_are_they_are_read_or_refused(cls: type[Content], body: bytes) -> None:
    read_or_refuse(body, cls)


@given(st.sampled_from([content for _, content, _ in SAMPLES]), st.data())
def test_a_damaged_body_is_read_or_refused(content: Content, data: st.DataObject) -> None:
    body = bytearray(content.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(bytes(body[: data.draw(st.integers(0, len(body)))]), type(content))


@pytest.mark.parametrize(
    ("body", "cls", "field"),
    [
        ("0a02fffe", UnregisterNode, "UnregisterNode.uri"),
        ("22040a02fffe", RegisterExternalMessageRoute, "Health.uri"),
        ("0a000a040a02fffe", service_pb2.RendezvousConfigurationChanged, "RendezvousNode.broadcast_uri"),
    ],
)
def test_a_text_that_is_not_utf8_is_refused(body: str, cls: type[Content], field: str) -> None:
    with pytest.raises(PayloadError, match=rf"hopline\.cluster\.{field} is not UTF-8"):
        read_body(bytes.fromhex(body), cls)


def test_fields_of_a_newer_peer_are_skipped() -> None:
    assert read_body(bytes.fromhex("0a0161 9a0603616263"), UnregisterNode).uri == "a"


def test_a_message_without_a_body_frame_is_read_as_empty() -> None:
    assert read(Message(b"KINO.HEARTBEAT", bodies=()), HeartBeat) == HeartBeat()
