"""What a sealed signature covers: everything but what changes on the way."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import Message, MessageIdentifier
from hopline.errors import ArgumentError
from hopline.message import RECEIPT, RoutingEntry, write_extension
from hopline.security import COVERED, IN_TRANSIT, Domain, SecurityError, SecurityReason, sealed
from hopline.wire import Layout, WireFormat, decode, encode, layouts
from tests.security.domains import KEY, Clock, order, orders, secure
from tests.wire.strategies import BYTES, I64, U16, URIS, messages

FIELDS = Message.__struct_fields__

# Another value for every field; a new field of `Message` needs one here, and a place in COVERED or IN_TRANSIT.
OTHERS: dict[str, Any] = {
    "identity": b"NOTE",
    "version": 2,
    "partition": b"eu",
    "bodies": (b"2 espressos",),
    "distribution": 1,
    "correlation_id": b"other flow",
    "ttl_ticks": 5,
    "trace_options": 1,
    "hops": 3,
    "receiver_identity": b"\1actor",
    "receiver_node_identity": b"another node",
    "callback_point": (MessageIdentifier(b"DONE"),),
    "callback_key": 8,
    "callback_receiver_identity": b"\0another hub",
    "callback_receiver_node_identity": b"another node",
    "socket_identity": b"socket",
    "signature": None,  # changed bit by bit below
    "domain": "notes",
    "routing": (RoutingEntry("tcp://10.0.0.1:5001", b"router"),),
    "extension": write_extension({"traceparent": "00-1-2-01"}),
    "wire_format": WireFormat.V6,
}


def test_every_field_of_a_message_is_either_covered_or_changes_on_the_way() -> None:
    assert sorted([*COVERED, *IN_TRANSIT]) == sorted(FIELDS) == sorted(OTHERS)


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "signature"])
def test_a_change_of_a_covered_field_is_found_and_any_other_is_not(field: str) -> None:
    # One key for everything, and both domains and identities allowed: only what is covered can tell the difference.
    security = secure(orders(identities=["ORDER", "NOTE"]), Domain("notes", KEY))
    signed = security.sign(order())
    changed = signed.clone(**{field: OTHERS[field]})
    assert getattr(changed, field) != getattr(signed, field)
    if field not in COVERED:
        security.verify_control(changed)
        return
    with pytest.raises(SecurityError) as refused:
        security.verify_control(changed)
    assert refused.value.reason is SecurityReason.WRONG_SIGNATURE


@pytest.mark.parametrize("bit", range(0, (17 + 32) * 8, 5))
def test_a_changed_bit_of_the_signature_is_found(bit: int) -> None:
    security = secure()
    signed = security.sign(order())
    flipped = bytearray(signed.signature)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SecurityError):
        security.verify(signed.clone(signature=bytes(flipped)))


@pytest.mark.parametrize(
    "shifted",
    [
        {"identity": b"ORDER", "partition": b"e", "bodies": (b"u1 espresso",)},
        {"identity": b"ORDER", "partition": b"eu1 espresso", "bodies": (b"",)},
        {"identity": b"ORDER", "partition": b"eu", "bodies": (b"1 esp", b"resso")},
        {"partition": b"eu", "bodies": (b"1 espresso\0h",), "callback_receiver_identity": b"ub"},
    ],
)
def test_bytes_that_move_from_field_to_field_pass_in_reference_and_are_found_in_sealed(shifted: dict[str, Any]) -> None:
    message = order(partition=b"eu")
    reference, ours = secure(orders(profile="reference")), secure()
    reference.verify(reference.sign(message).clone(**shifted))
    with pytest.raises(SecurityError) as refused:
        ours.verify(ours.sign(message).clone(**shifted))
    assert refused.value.reason is SecurityReason.WRONG_SIGNATURE


def test_callbacks_cannot_be_shifted_either() -> None:
    security = secure()
    points = (MessageIdentifier(b"DONE", 1, b"eu"), MessageIdentifier(b"FAILED"))
    signed = security.sign(order(callback_point=points))
    for other in (points[::-1], points[:1], (MessageIdentifier(b"DONEeu"), points[1]), (*points, points[0])):
        with pytest.raises(SecurityError):
            security.verify(signed.clone(callback_point=other))


def test_no_stranger_decides_how_many_callbacks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[MessageIdentifier, ...], Any] = {}
    monkeypatch.setattr(sealed, "_known_points", known)
    monkeypatch.setattr(sealed, "_MOST_KNOWN_POINTS", 10)
    security = secure()
    for number in range(15):
        forged = order(callback_point=(MessageIdentifier(b"%d" % number),)).clone(domain="orders", signature=b"\1" * 49)
        with pytest.raises(SecurityError):
            security.verify(forged)
    assert len(known) == 5
    large = (MessageIdentifier(b"x" * 1024),)
    security.verify(security.sign(order(callback_point=large)))
    assert large not in known


def test_the_receipt_is_taken_off_on_the_way_and_nothing_else() -> None:
    security = secure()
    point = (MessageIdentifier(b"DONE"), RECEIPT, MessageIdentifier(b"KINO.EXCEPTION"))
    signed = security.sign(order(callback_point=point))
    security.verify(signed.without_callback(RECEIPT))
    with pytest.raises(SecurityError):
        security.verify(signed.without_callback(point[0]))


def test_a_message_on_its_way_keeps_its_signature_unless_someone_changed_it() -> None:
    origin, forwarder = secure(), secure()
    signed = origin.sign(order())
    assert forwarder.sign(signed) is signed
    assert forwarder.sign(signed.add_hop()).signature == signed.signature
    for changed in (signed.clone(bodies=(b"new",)), signed.clone(signature=b"x"), signed.clone(signature=bytes(49))):
        again = forwarder.sign(changed)
        assert again.signature != changed.signature
        origin.verify(again)


def test_a_version_as_a_number_is_not_the_same_as_text() -> None:
    security = secure()
    signed = security.sign(order(version=1))
    for other in (b"1", b"1.0", b"\x01\x00"):
        with pytest.raises(SecurityError):
            security.verify(signed.clone(version=other))


def test_the_frame_is_as_documented() -> None:
    signed = secure(clock=Clock(1_700_000_000.5)).sign(order())
    header, mac = signed.signature[:17], signed.signature[17:]
    assert header[:9] == b"\x01" + (1_700_000_000_500).to_bytes(8, "big")
    key = hmac.digest(KEY.reveal(), b"hopline sealed 1", "sha256")
    assert mac == hmac.digest(
        key, header + sealed.content(order(correlation_id=signed.correlation_id), "orders"), "sha256"
    )


def test_equal_messages_have_different_signatures() -> None:
    security, message = secure(), order()
    assert len({security.sign(message).signature for _ in range(2_000)}) == 2_000


def test_a_signature_of_profile_reference_is_none_of_profile_sealed_with_the_same_key() -> None:
    """Whoever gets a node to sign, as `reference`, bytes that are a sealed message's, has no sealed signature yet."""
    sealed_one = secure().sign(order())
    content = sealed_one.signature[:17] + sealed.content(sealed_one, "orders")
    signed = secure(orders(profile="reference", identities=[content[:50]])).sign(
        Message(content[:50], version=content[50:60], bodies=(content[60:],))
    )
    with pytest.raises(SecurityError):
        secure().verify(sealed_one.clone(signature=sealed_one.signature[:17] + signed.signature))


@pytest.mark.parametrize("changes", [{"callback_key": 2**70}, {"version": object()}, {"callback_point": (b"DONE",)}])
def test_what_no_format_can_carry_is_the_caller_s_mistake(changes: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="message: expected fields that can be transmitted"):
        secure().sign(order(**changes))


# -- laws -------------------------------------------------------------------------------------------------------------

FORMATS = [layouts.V4, layouts.V5, layouts.V6]


@pytest.mark.parametrize("layout", FORMATS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("profile", ["sealed", "reference"])
@given(data=st.data())
def test_what_is_protected_passes_after_any_transit(profile: str, layout: Layout, data: st.DataObject) -> None:
    sender = secure(orders(profile=profile))
    receiver = secure(orders(profile=profile, refuse_replays=profile == "sealed"))
    drawn = data.draw(messages(layout))
    points = (*drawn.callback_point, *data.draw(st.sampled_from([(), (RECEIPT,)])))
    message = sender.sign(drawn.clone(identity=b"ORDER", callback_point=points))
    for hop_layout in data.draw(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=4)):
        message = message.clone(
            hops=data.draw(U16),
            ttl_ticks=data.draw(I64),
            socket_identity=data.draw(BYTES),
            routing=tuple(data.draw(st.lists(st.builds(RoutingEntry, URIS, BYTES), max_size=3))),
        ).without_callback(RECEIPT)
        forwarder = secure(orders(profile=profile))
        message = decode(encode(forwarder.sign(message), hop_layout))
    receiver.verify(message)


@given(st.data())
def test_no_two_different_messages_have_the_same_content(data: st.DataObject) -> None:
    def covered(message: Message) -> list[Any]:
        return [getattr(message, field) for field in COVERED if field != "domain"]

    one, two = data.draw(messages(layouts.V5)), data.draw(messages(layouts.V5))
    assert (sealed.content(one, "a") == sealed.content(two, "a")) is (covered(one) == covered(two))
    assert sealed.content(one, "a") != sealed.content(one, "b")
