"""The fingerprints of payloads in the extension of an announcement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from hopline.cluster.messages.format_declaration import OWN_DECLARATION, declared_formats
from hopline.cluster.messages.formats import SERVICE_FORMATS
from hopline.cluster.messages.schema_declaration import MOST_FINGERPRINTS, declaration_of, declared_fingerprints
from hopline.cluster.messages.service import REGISTER_ROUTE, registration, service_message
from hopline.cluster.messages.service_pb2 import RegisterExternalMessageRoute
from hopline.message import (
    LARGEST_EXTENSION,
    Message,
    MessageIdentifier,
    WireFormat,
    new_actor_identity,
    new_hub_identity,
    read_extension,
    write_extension,
)
from hopline.routing import Route
from hopline.wire import decode, encode
from tests.cluster.member_world import World

ORDER, GREET, HANDLED_RAW = (
    MessageIdentifier(b"Order", 2, b"eu"),
    MessageIdentifier(b"Greet"),
    MessageIdentifier(b"Raw"),
)
FINGERPRINTS: dict[MessageIdentifier, int] = {ORDER: 0xFFFFFFFF, GREET: 7}


def content_of(*identifiers: MessageIdentifier) -> RegisterExternalMessageRoute:
    routes = [Route(new_hub_identity())]
    for actor in (new_actor_identity(), new_actor_identity()):
        routes += [Route(actor, identifier) for identifier in identifiers]
    return registration("tcp://10.0.0.5:5101", b"node", "tcp://10.0.0.5:5102", timedelta(seconds=5), routes)


@pytest.mark.parametrize("wire_format", SERVICE_FORMATS)
def test_what_is_declared_is_read_in_every_format_that_has_an_extension(wire_format: WireFormat) -> None:
    content = content_of(ORDER, HANDLED_RAW, GREET)
    announcement = service_message(REGISTER_ROUTE, content).clone(extension=declaration_of(content, FINGERPRINTS.get))
    received = decode(encode(announcement, wire_format))
    assert declared_fingerprints(received.extension, content) == FINGERPRINTS
    assert declared_formats(received.extension) == frozenset(WireFormat)


def test_a_declaration_is_a_number_for_each_message_in_the_order_of_the_announcement() -> None:
    extension = declaration_of(content_of(ORDER, HANDLED_RAW, GREET), FINGERPRINTS.get)
    assert read_extension(extension)["schemas"] == [0xFFFFFFFF, None, 7]


@pytest.mark.parametrize("identifiers", [(), (HANDLED_RAW,)])
def test_without_a_fingerprint_an_announcement_stays_as_it_was(identifiers: tuple[MessageIdentifier, ...]) -> None:
    assert declaration_of(content_of(*identifiers), FINGERPRINTS.get) == OWN_DECLARATION


def test_the_rest_of_an_announcement_is_the_same_to_the_byte() -> None:
    content = content_of(ORDER)
    plain = service_message(REGISTER_ROUTE, content)
    extended = plain.clone(extension=declaration_of(content, FINGERPRINTS.get))
    without, with_it = encode(plain, WireFormat.V6), encode(extended, WireFormat.V6)
    assert with_it[:-1] == without[:-1]
    assert with_it[-1].startswith(without[-1])  # bytes behind the last field, which the reference ignores


def test_more_messages_than_fit_are_announced_without_a_fingerprint() -> None:
    identifiers = [MessageIdentifier(b"M%d" % number) for number in range(MOST_FINGERPRINTS + 10)]
    content = content_of(*identifiers)
    extension = declaration_of(content, lambda _: 0xFFFFFFFF)
    assert len(extension) <= LARGEST_EXTENSION
    assert list(declared_fingerprints(extension, content)) == identifiers[:MOST_FINGERPRINTS]


@pytest.mark.parametrize(
    "value",
    [
        7,
        "7",
        {"Order": 7},
        [1, 2, 3],  # for more messages than are announced
        ["7", 1.5],
        [True, -1],
        [1 << 32, None],
    ],
)
def test_anything_else_declares_nothing(value: object) -> None:
    extension = msgspec.msgpack.encode({"schemas": value})
    assert declared_fingerprints(extension, content_of(ORDER, GREET)) == {}


def test_a_declaration_of_some_messages_counts_for_these() -> None:
    assert declared_fingerprints(write_extension({"schemas": [7]}), content_of(ORDER, GREET)) == {ORDER: 7}


# -- in the membership -------------------------------------------------------------------------------------------------


class Schemas:
    """A node's schemas that record what they are asked to compare and to forget."""

    def __init__(self) -> None:
        self.compared: dict[bytes, dict[MessageIdentifier, int]] = {}
        self.forgotten: list[bytes] = []

    def fingerprint(self, identifier: MessageIdentifier) -> int | None:
        return FINGERPRINTS.get(identifier)

    def compare(self, node: bytes, announced: Mapping[MessageIdentifier, int]) -> None:
        self.compared[node] = dict(announced)

    def forget(self, node: bytes) -> None:
        self.forgotten.append(node)


def announcement(world: World, *identifiers: MessageIdentifier) -> Message:
    content = content_of(*identifiers)
    message = service_message(REGISTER_ROUTE, content).clone(extension=declaration_of(content, FINGERPRINTS.get))
    return world.security.sign_control(message, "")


def test_a_member_declares_and_compares_fingerprints_and_forgets_those_of_a_node_that_is_gone() -> None:
    schemas = Schemas()
    world = World(schemas=schemas)
    world.member.announce([Route(new_actor_identity(), ORDER)])
    world.receive_server_heartbeat()
    (published,) = world.announcements()
    assert read_extension(published.extension)["schemas"] == [FINGERPRINTS[ORDER]]
    world.member.receive(announcement(world, ORDER, GREET))
    assert schemas.compared == {b"node": FINGERPRINTS}
    world.member.remove_node(b"node")
    assert schemas.forgotten == [b"node"]
