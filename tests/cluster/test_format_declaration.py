"""Which formats a node declares to read, and from whom such a declaration is taken."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.cluster.messages.format_declaration import (
    MOST_FORMATS,
    OWN_DECLARATION,
    READS,
    declare_formats,
    declared_formats,
)
from hopline.cluster.messages.formats import SERVICE_FORMATS
from hopline.cluster.messages.service import REGISTER_ROUTE, registration, service_message
from hopline.message import Message, WireFormat, new_hub_identity, read_extension, write_extension
from hopline.routing import Route
from hopline.security import Domain, DomainSecurity, new_key
from hopline.wire import decode, encode
from tests.cluster.member_world import World, joined_world
from tests.network.frames import DECLARATION

V5, V6 = WireFormat.V5, WireFormat.V6
BOTH = frozenset({V5, V6})
NODE, HUB = b"node", Route(new_hub_identity())
HOME, ELSEWHERE, HEALTH = "tcp://10.0.0.5:5101", "tcp://10.6.6.6:5101", "tcp://10.0.0.5:5102"

# -- the extension -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire_format", SERVICE_FORMATS)
def test_what_is_declared_is_read_in_every_format_that_has_an_extension(wire_format: WireFormat) -> None:
    announcement = Message(b"KINO.REGEXTROUTE", extension=declare_formats([V5, V6]))
    received = decode(encode(announcement, wire_format))
    assert received.wire_format is wire_format
    assert declared_formats(received.extension) == BOTH


def test_hopline_reads_every_format() -> None:
    assert declared_formats(OWN_DECLARATION) == frozenset(WireFormat)
    assert OWN_DECLARATION == DECLARATION


@pytest.mark.parametrize(
    ("value", "formats"),
    [
        (["v5", "v6"], BOTH),
        (["v6", "v6", "v5"], BOTH),
        (["v5", "v6", "v7", 6, None, True, ""], BOTH),  # whatever comes after V6
        (["v5", "v6", *["v7"] * (MOST_FORMATS - 2)], BOTH),
        (["v5", "v6", *["v7"] * (MOST_FORMATS - 1)], frozenset()),
        ([], frozenset()),
        (["V6", "v6 "], frozenset()),
        ("v6", frozenset()),
        ({"v6": True}, frozenset()),
        (6, frozenset()),
        (True, frozenset()),
        (None, frozenset()),
    ],
)
def test_a_declaration_is_a_short_list_of_names_and_unknown_ones_are_left_out(
    value: object, formats: frozenset[WireFormat]
) -> None:
    assert declared_formats(write_extension({READS: value})) == formats


@pytest.mark.parametrize(
    "extension",
    [
        b"",
        b"FUTURE-1",
        msgspec.msgpack.encode(["v6"]),
        msgspec.msgpack.encode({READS: [["v6"]]}),
        msgspec.msgpack.encode({READS: ["v6"], "padding": "x" * 2_000}),
        write_extension({"traceparent": "v6"}),
    ],
    ids=["nothing", "no map", "a list", "nested", "too large", "another name"],
)
def test_an_extension_without_a_declaration_declares_nothing(extension: bytes) -> None:
    assert declared_formats(extension) == frozenset()


def test_a_declaration_leaves_the_rest_of_the_extension_alone() -> None:
    extension = write_extension({"traceparent": "00-0af7", READS: ["v6"]})
    assert declared_formats(extension) == {V6}
    assert read_extension(extension)["traceparent"] == "00-0af7"


_PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9)
_VALUES = st.recursive(_PLAIN | st.sampled_from(WireFormat).map(str) | st.binary(max_size=9), st.lists, max_leaves=30)


@given(
    st.binary(max_size=200) | st.dictionaries(st.just(READS) | st.text(max_size=5), _VALUES).map(msgspec.msgpack.encode)
)
def test_any_extension_declares_known_formats_only(extension: bytes) -> None:
    assert declared_formats(extension) <= frozenset(WireFormat)


@given(st.lists(st.sampled_from(WireFormat), max_size=MOST_FORMATS))
def test_every_declaration_is_read_as_it_was_written(formats: list[WireFormat]) -> None:
    assert declared_formats(declare_formats(formats)) == frozenset(formats)


# -- announcements -----------------------------------------------------------------------------------------------------


def announcement(*formats: WireFormat, uri: str = HOME) -> Message:
    extension = declare_formats(formats) if formats else b""
    message = service_message(REGISTER_ROUTE, registration(uri, NODE, HEALTH, 1.0, [HUB]))
    return message.clone(extension=extension, wire_format=V5)


def test_announcements_and_only_they_carry_the_declaration() -> None:
    world = joined_world()
    world.pass_time(10.0)
    world.member.leave()
    assert {message.extension for message in world.announcements()} == {OWN_DECLARATION}
    assert {message.extension for message in world.published if message.identifier != REGISTER_ROUTE} == {b""}
    assert [message.extension for message in world.member.introduction(NODE)] == [OWN_DECLARATION]
    world.member.receive(announcement(), is_broadcast=True)  # the new node is sent all routes
    assert [message.extension for message in world.sent] == [OWN_DECLARATION]


@pytest.mark.parametrize("is_broadcast", [False, True], ids=["straight", "relayed"])
def test_a_declaration_counts_whether_relayed_or_sent_directly(*, is_broadcast: bool) -> None:
    world = World()
    world.member.receive(announcement(V5, V6), is_broadcast=is_broadcast)
    assert world.declared == {NODE: BOTH}
    world.member.receive(announcement(V5), is_broadcast=is_broadcast)
    assert world.declared == {NODE: {V5}}


def test_a_relayed_announcement_without_a_declaration_does_not_undo_one() -> None:
    world = World()
    world.member.receive(announcement(V5, V6))
    world.member.receive(announcement(), is_broadcast=True)  # a server of the reference has left it out
    assert world.declared == {NODE: BOTH}


def test_a_direct_announcement_without_a_declaration_undoes_one() -> None:
    world = World()
    world.member.receive(announcement(V5, V6), is_broadcast=True)
    world.member.receive(announcement())
    assert world.declared == {NODE: frozenset()}


def test_an_announcement_from_another_address_without_a_declaration_undoes_one() -> None:
    world = World()
    world.member.receive(announcement(V5, V6))
    world.member.receive(announcement(uri=ELSEWHERE), is_broadcast=True)
    assert world.declared == {NODE: frozenset()}


@pytest.mark.parametrize(
    "changes",
    [{"signature": b"forged"}, {"bodies": (b"\xff",)}, {"domain": "another"}],
    ids=["forged", "malformed", "unknown domain"],
)
def test_a_refused_announcement_declares_nothing(changes: dict[str, object]) -> None:
    security = DomainSecurity([Domain("orders", new_key(), ["ORDER"])], clock=lambda: 0.0)
    world = World(security)
    signed = security.sign_control(announcement(V5, V6), "orders")
    world.member.receive(signed.clone(**changes))
    assert world.declared == {}
    assert sum(world.member.traffic.refused.values()) == 1
    world.member.receive(signed)
    assert world.declared == {NODE: BOTH}


def test_a_weaker_domain_neither_declares_nor_undoes() -> None:
    orders, payments = (Domain(name, new_key(), [name.upper()]) for name in ("orders", "payments"))
    security = DomainSecurity([orders, payments], clock=lambda: 0.0)
    world = World(security)
    world.member.receive(security.sign_control(announcement(V5, V6), "orders"))
    world.member.receive(security.sign_control(announcement(), "payments"))
    world.member.receive(security.sign_control(announcement(V5), "payments"))
    assert world.declared == {NODE: BOTH}


def test_a_node_does_not_learn_from_its_own_announcements() -> None:
    world = joined_world()
    assert world.declared == {}
