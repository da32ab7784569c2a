"""What is taken from the network, and the reason for each refusal."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import pytest

from hopline import ArgumentError, HoplineError, Message
from hopline.security import (
    LOCAL_ONLY,
    SERVICES,
    Domain,
    DomainSecurity,
    NoSecurity,
    Security,
    SecurityError,
    SecurityReason,
    new_key,
)
from hopline.security.services import COMMANDS
from hopline.wire import WireFormat, decode, encode, has_valid_signature, signature_of
from tests.security.domains import KEY, OTHER_KEY, Clock, order, orders, secure

PAYMENTS = Domain("payments", OTHER_KEY, ["PAYMENT"])
OPEN = Domain("open", identities=["NEWS"], unsigned=True)


def refusal(check: Callable[[Message], None], message: Message) -> SecurityReason:
    with pytest.raises(SecurityError) as refused:
        check(message)
    assert refused.value.domain == message.domain
    assert refused.value.identity == message.identity
    return refused.value.reason


def refused(security: Security, message: Message) -> SecurityReason:
    return refusal(security.verify, message)


def test_what_one_node_signs_another_accepts() -> None:
    message = secure().sign(order())
    assert message.domain == "orders"
    secure().verify(message)


def test_a_message_is_the_same_but_for_label_and_signature() -> None:
    plain = order()
    assert secure().sign(plain).clone(domain="", signature=b"") == plain


@pytest.mark.parametrize("profile", ["sealed", "reference"])
@pytest.mark.parametrize("plane", ["data", "control"])
def test_every_reason_of_a_bad_signature(profile: str, plane: str) -> None:
    security = secure(orders(profile=profile))
    check = security.verify if plane == "data" else security.verify_control
    signed = security.sign(order())
    check(signed)
    forged = secure(orders(profile=profile, keys=OTHER_KEY)).sign(order())
    other_profile = secure(orders(profile={"sealed": "reference", "reference": "sealed"}[profile])).sign(order())
    assert refusal(check, signed.clone(bodies=(b"2 espressos",))) is SecurityReason.WRONG_SIGNATURE
    assert refusal(check, forged) is SecurityReason.WRONG_SIGNATURE
    assert refusal(check, signed.clone(signature=b"")) is SecurityReason.UNSIGNED
    assert refusal(check, signed.clone(signature=signed.signature[:-1])) is SecurityReason.WRONG_PROFILE
    assert refusal(check, other_profile) is SecurityReason.WRONG_PROFILE
    assert refusal(check, signed.clone(domain="elsewhere")) is SecurityReason.UNKNOWN_DOMAIN
    assert refusal(check, signed.clone(domain="")) is SecurityReason.UNKNOWN_DOMAIN


def test_another_version_of_the_sealed_frame_is_another_profile() -> None:
    signed = secure().sign(order())
    assert refused(secure(), signed.clone(signature=b"\x02" + signed.signature[1:])) is SecurityReason.WRONG_PROFILE


def test_the_label_must_be_the_domain_of_the_identity() -> None:
    security = secure(orders(), PAYMENTS)
    # A member of orders, who has no key of payments, signs a payment with the key of orders.
    forged = secure(orders(identities=["PAYMENT"])).sign(order(identity=b"PAYMENT"))
    assert forged.domain == "orders"
    assert refused(security, forged) is SecurityReason.WRONG_DOMAIN


def test_the_label_of_an_unsigned_domain_does_not_open_a_signed_one() -> None:
    security = secure(orders(), OPEN)
    assert refused(security, order(domain="open")) is SecurityReason.WRONG_DOMAIN
    security.verify(order(identity=b"NEWS", domain="open"))


def test_an_identity_that_nobody_mapped_is_refused_both_ways() -> None:
    security = secure()
    assert refused(security, order(identity=b"OTHER", domain="orders")) is SecurityReason.UNMAPPED_IDENTITY
    for ask in (lambda: security.sign(order(identity=b"OTHER")), lambda: security.domain_of(b"OTHER")):
        with pytest.raises(SecurityError) as refused_here:
            ask()
        assert refused_here.value.reason is SecurityReason.UNMAPPED_IDENTITY


def test_an_identity_is_in_its_domain_in_any_version_and_partition() -> None:
    security = secure()
    for message in (order(version=2), order(partition=b"eu")):
        security.verify(security.sign(message))


@pytest.mark.parametrize("unsigned", [True, {"ORDER"}, [b"ORDER"]])
def test_what_a_domain_leaves_unsigned_is_labelled_and_accepted(unsigned: Any) -> None:
    security = secure(orders(unsigned=unsigned))
    message = security.sign(order())
    assert message.domain == "orders"
    assert not message.signature
    security.verify(message)
    security.verify(message.clone(signature=b"whatever"))
    assert security.sign(message) is message


def test_exceptions_from_signing_are_for_the_named_identities_only() -> None:
    security = secure(orders(identities=["ORDER", "NOTE"], unsigned=["NOTE"]))
    assert not security.sign(order(identity=b"NOTE")).signature
    assert refused(security, order(domain="orders")) is SecurityReason.UNSIGNED
    # Unlike in the reference, where it opens the whole domain.
    assert secure(orders(unsigned=[])).sign(order()).signature


# -- the protocol's own messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", [*sorted(SERVICES), b"HOPLINE.STATS"])
def test_service_messages_are_in_the_first_domain_unless_mapped(identity: bytes) -> None:
    assert secure(orders(), PAYMENTS).domain_of(identity) == "orders"
    mapped = Domain("payments", OTHER_KEY, ["PAYMENT", identity])
    assert secure(orders(), mapped).domain_of(identity) == "payments"


@pytest.mark.parametrize("identity", [b"KINO.EXCEPTION", b"HOPLINE.STATS"])
def test_service_messages_are_accepted_in_any_allowed_domain_if_signed_there(identity: bytes) -> None:
    here, peer = secure(orders(), PAYMENTS, OPEN), secure(PAYMENTS)
    answer = peer.sign(order(identity=identity))
    assert answer.domain == "payments"
    here.verify(answer)
    assert refused(here, answer.clone(domain="orders")) is SecurityReason.WRONG_SIGNATURE
    assert refused(here, answer.clone(signature=b"")) is SecurityReason.UNSIGNED
    assert refused(peer, here.sign(order(identity=identity))) is SecurityReason.UNKNOWN_DOMAIN


@pytest.mark.parametrize("question", [b"HOPLINE.REQSTATS", b"HOPLINE.PROBE", b"KINO.REQEXTROUTES"])
def test_a_first_domain_that_is_unsigned_does_not_let_strangers_ask_what_a_node_knows(question: bytes) -> None:
    security = secure(OPEN, orders())
    with pytest.raises(SecurityError) as refused:
        security.verify(Message(question, domain="open"))
    assert refused.value.reason is SecurityReason.WRONG_DOMAIN
    asked = security.sign(Message(question))
    assert asked.domain == "orders"
    security.verify(asked)
    secure(OPEN).verify(Message(question, domain="open"))  # where nothing is signed, nothing is secret


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_what_changes_a_node_is_for_members_of_the_first_signed_domain_only(command: bytes) -> None:
    here = secure(OPEN, orders(), PAYMENTS)
    here.verify(secure(orders()).sign(Message(command)))
    for domains in ((PAYMENTS,), (PAYMENTS, orders())):
        asked = secure(*domains).sign(Message(command))
        assert asked.domain == "payments"
        assert refused(here, asked) is SecurityReason.WRONG_DOMAIN
    assert refused(here, Message(command, domain="open")) is SecurityReason.WRONG_DOMAIN
    mapped = Domain("payments", OTHER_KEY, ["PAYMENT", command])
    secure(orders(), mapped).verify(secure(PAYMENTS).sign(Message(command)))


def test_an_unsigned_domain_does_not_open_service_messages_unless_they_are_mapped_to_it() -> None:
    forged = order(identity=b"KINO.EXCEPTION", domain="open")
    assert refused(secure(orders(), OPEN), forged) is SecurityReason.WRONG_DOMAIN
    secure(OPEN, orders()).verify(forged)
    secure(orders(), Domain("open", identities=["KINO.EXCEPTION"], unsigned=True)).verify(forged)


def test_a_service_message_answers_in_the_domain_that_it_is_labelled_with() -> None:
    here, peer = secure(orders(), PAYMENTS, OPEN), secure(PAYMENTS)
    peer.verify(here.sign(order(identity=b"KINO.EXCEPTION", domain="payments")))
    assert here.sign(order(identity=b"KINO.EXCEPTION", domain="elsewhere")).domain == "orders"
    assert here.sign(order(identity=b"KINO.EXCEPTION", domain="open")).domain == "orders"
    assert here.sign(order(identity=b"ORDER", domain="payments")).domain == "orders"


@pytest.mark.parametrize("identity", sorted(LOCAL_ONLY))
@pytest.mark.parametrize("security", [NoSecurity(), secure()], ids=["none", "domains"])
def test_nothing_that_belongs_inside_a_node_is_taken_from_outside(security: Security, identity: bytes) -> None:
    # Not even from a member: the signature is right.
    message = secure().sign_control(order(identity=identity), "orders")
    assert refusal(security.verify, message) is SecurityReason.LOCAL_ONLY
    assert refusal(security.verify_control, message) is SecurityReason.LOCAL_ONLY


def test_an_eviction_notice_above_all() -> None:
    notice = secure().sign_control(order(identity=b"KINO.UNREGUNREACHABLENODE"), "orders")
    for check in (secure().verify_control, NoSecurity().verify_control):
        assert refusal(check, notice) is SecurityReason.LOCAL_ONLY


def test_the_messages_that_need_no_mapping_are_those_of_the_protocol_s_data_plane() -> None:
    names = "PING EXCEPTION RCPTCONFIRM REQMSGROUTES MSGROUTES REQEXTROUTES EXTROUTES REQINTROUTES INTROUTES"
    assert {f"KINO.{name}".encode() for name in names.split()} == SERVICES


# -- control plane ----------------------------------------------------------------------------------------------------


def test_control_messages_are_signed_in_the_domain_that_they_speak_of() -> None:
    here, peer = secure(orders(), PAYMENTS), secure(PAYMENTS)
    announced = here.sign_control(order(identity=b"KINO.REGEXTROUTE"), "payments")
    peer.verify_control(announced)
    assert refusal(peer.verify_control, announced.clone(bodies=(b"other",))) is SecurityReason.WRONG_SIGNATURE
    assert refusal(secure(orders()).verify_control, announced) is SecurityReason.UNKNOWN_DOMAIN
    assert refused(peer, announced) is SecurityReason.UNMAPPED_IDENTITY


def test_a_control_message_of_a_domain_that_is_not_ours_cannot_be_sent() -> None:
    with pytest.raises(SecurityError) as refused_here:
        secure().sign_control(order(identity=b"KINO.REGEXTROUTE"), "payments")
    assert refused_here.value.reason is SecurityReason.UNKNOWN_DOMAIN


# -- no security ------------------------------------------------------------------------------------------------------


def test_without_security_there_is_one_domain_and_everything_is_allowed() -> None:
    security: Security = NoSecurity()
    assert security.domains == ("",)
    assert security.is_allowed("anything")
    assert security.domain_of(b"ANY") == ""
    message = order()
    assert security.sign(message) is message
    assert security.sign_control(message, "") is message
    assert security.sign_control(message, "orders") == message.clone(domain="orders")
    security.verify(message.clone(domain="x", signature=b"y"))
    security.verify_control(message)


def test_without_security_a_message_between_others_goes_on_as_it_came() -> None:
    secure().verify(NoSecurity().sign(secure().sign(order())))


# -- old networks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256", "sha512"])
def test_the_reference_profile_is_the_reference_s_signature(algorithm: str) -> None:
    domain = orders(keys=b"short", algorithm=algorithm, profile="reference")
    security = secure(domain)
    signed = security.sign(order())
    assert signed.signature == signature_of(signed, b"short", domain.algorithm)
    for wire_format in (WireFormat.V4, WireFormat.V5, WireFormat.V6):
        received = decode(encode(signed, wire_format))
        assert has_valid_signature(received, b"short", domain.algorithm)
        security.verify(received)


def test_the_first_format_carries_no_domain_and_is_refused() -> None:
    received = decode(encode(secure().sign(order()), WireFormat.FIRST))
    assert refused(secure(), received) is SecurityReason.UNKNOWN_DOMAIN


# -- definitions ------------------------------------------------------------------------------------------------------


def test_a_node_knows_its_domains() -> None:
    security = secure(orders(), PAYMENTS)
    assert security.domains == ("orders", "payments")
    assert security.is_allowed("payments")
    assert not security.is_allowed("")
    assert security.definitions == (orders(), PAYMENTS)


@pytest.mark.parametrize(
    ("domains", "field"),
    [
        ([], "domains"),
        ([orders(), orders(identities=["OTHER"])], "domains"),
        ([orders(), Domain("payments", OTHER_KEY, ["ORDER"])], "identities"),
    ],
)
def test_domains_that_contradict_each_other_are_named(domains: list[Domain], field: str) -> None:
    with pytest.raises(ArgumentError) as wrong:
        DomainSecurity(domains, clock=Clock())
    assert wrong.value.field == field


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": b"orders"}, "name"),
        ({"keys": ()}, "keys"),
        ({"keys": [KEY, KEY]}, "keys"),
        ({"keys": b"short"}, "keys"),
        ({"keys": b""}, "key"),
        ({"keys": "text of more than sixteen characters"}, "key"),
        ({"keys": [None]}, "key"),
        ({"identities": "ORDER"}, "identities"),
        ({"identities": [""]}, "identities"),
        ({"identities": [1]}, "identities"),
        ({"identities": ["ORDER", b"ORDER"]}, "identities"),
        ({"unsigned": "ORDER"}, "unsigned"),
        ({"algorithm": "crc"}, "algorithm"),
        ({"algorithm": "md5"}, "algorithm"),
        ({"profile": "open"}, "profile"),
        ({"profile": "reference", "refuse_replays": True}, "refuse_replays"),
        ({"window": 0}, "window"),
        ({"window": float("nan")}, "window"),
        ({"window": "30"}, "window"),
        ({"clock_skew": -1}, "clock_skew"),
        ({"clock_skew": True}, "clock_skew"),
        ({"replay_capacity": 1.5}, "replay_capacity"),
        ({"refuse_replays": "yes"}, "refuse_replays"),
        ({"replay_capacity": 0}, "replay_capacity"),
    ],
)
def test_a_definition_that_makes_no_sense_is_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ArgumentError) as wrong:
        Domain(**{"name": "orders", "keys": KEY, "identities": ["ORDER"], **settings})
    assert wrong.value.field == field


def test_a_domain_without_signatures_needs_neither_key_nor_name() -> None:
    security = secure(Domain("", identities=["ORDER"], unsigned=True))
    security.verify(security.sign(order()))


# -- rotation ---------------------------------------------------------------------------------------------------------


def test_the_newest_key_signs_and_any_key_verifies() -> None:
    old, new = new_key(), new_key()
    node, not_yet, just_verifying = (
        secure(orders(keys=[old])),
        secure(orders(keys=[old])),
        secure(orders(keys=[old, new])),
    )
    just_verifying.verify(node.sign(order()))
    node.rotate("orders", [new, old])
    just_verifying.verify(node.sign(order()))
    node.verify(not_yet.sign(order()))
    assert refused(not_yet, node.sign(order())) is SecurityReason.WRONG_SIGNATURE
    node.rotate("orders", new)
    assert refused(node, not_yet.sign(order())) is SecurityReason.WRONG_SIGNATURE


@pytest.mark.parametrize("profile", ["sealed", "reference"])
def test_keys_that_take_turns_all_verify(profile: str) -> None:
    keys = [new_key() for _ in range(3)]
    receiver = secure(orders(keys=keys, profile=profile))
    senders = [secure(orders(keys=key, profile=profile)) for key in keys]
    for turn in (2, 2, 0, 1, 2, 0, 0, 1):
        receiver.verify(senders[turn].sign(order()))
    senders[0].verify(receiver.sign(order()))  # whoever verified last, the first one signs


def test_the_key_that_verified_last_is_tried_first() -> None:
    keys = [new_key() for _ in range(3)]
    receiver, sender = secure(orders(keys=keys)), secure(orders(keys=keys[2]))
    scope = receiver._plan.first
    first, second, third = scope._verifiers
    receiver.verify(sender.sign(order()))
    assert scope._verifiers == (third, first, second)


def test_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return one == two

    monkeypatch.setattr(hmac, "compare_digest", compare)
    signed = secure().sign(order())
    secure().verify(signed)
    assert compared == [(signed.signature[17:],) * 2]


def test_a_rotation_that_fails_changes_nothing() -> None:
    security = secure(orders(), PAYMENTS)
    before = security.definitions
    with pytest.raises(ArgumentError):
        security.rotate("elsewhere", new_key())
    with pytest.raises(ArgumentError):
        security.rotate_all({"orders": [new_key()], "payments": []})
    with pytest.raises(ArgumentError):
        security.rotate("orders", b"")
    with pytest.raises(ArgumentError):
        security.replace([orders(), orders()])
    assert security.definitions == before
    secure().verify(security.sign(order()))


def test_other_domains_take_the_place_of_the_old_ones() -> None:
    security = secure(orders())
    security.replace([PAYMENTS])
    assert security.domains == ("payments",)
    security.verify(secure(PAYMENTS).sign(order(identity=b"PAYMENT")))
    assert refused(security, secure().sign(order())) is SecurityReason.UNKNOWN_DOMAIN


# -- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_says_what_and_why_on_one_line_whatever_a_stranger_wrote() -> None:
    error = SecurityError(SecurityReason.UNKNOWN_DOMAIN, "a\nb\x1b[0m" * 100, b"\xff\n" * 100)
    assert isinstance(error, HoplineError)
    text = str(error)
    assert text.startswith("unknown_domain: message '\\xff\\n")
    assert text.isprintable()
    assert len(text) < 500


@pytest.mark.parametrize("reason", SecurityReason)
def test_every_reason_has_a_meaning(reason: SecurityReason) -> None:
    assert reason.meaning in str(SecurityError(reason, "orders", b"ORDER"))
    assert reason.value == reason.name.lower()
