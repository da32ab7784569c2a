"""Signatures as the reference makes them, through its recorded cases."""

from __future__ import annotations

from typing import Any

import pytest

from hopline import Message
from hopline.errors import LocalError
from hopline.wire import MacAlgorithm, decode, encode, has_valid_signature, layouts, mac_input, sign, signature_of
from tests.wire.vectors import bytes_of, frames_of, load, message_of

CASES = load("signatures")["cases"]
PADDED = load("signatures")["padded_history"]["cases"]
SIGNED = [case for case in CASES if "mac" in case]


def algorithm_of(case: dict[str, Any]) -> MacAlgorithm:
    return MacAlgorithm(case["algorithm"].removeprefix("HMAC").lower())


def key_of(case: dict[str, Any]) -> bytes:
    return next(bytes_of(entry["key"]) for entry in case["keys"] if entry["domain_utf8"] == case["domain_utf8"])


def name_of(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", [case for case in CASES if "mac_input" in case], ids=name_of)
def test_the_mac_input_is_the_buffer_that_the_reference_signs(case: dict[str, Any]) -> None:
    assert mac_input(message_of(case["fields"], layouts.V5)) == bytes_of(case["mac_input"])


@pytest.mark.parametrize("case", SIGNED, ids=name_of)
def test_a_signed_message_is_the_frames_that_the_reference_sent(case: dict[str, Any]) -> None:
    signature = signature_of(message_of(case["fields"], layouts.V5), key_of(case), algorithm_of(case))
    assert signature == bytes_of(case["signature"])
    for name, layout in (("frames_v5", layouts.V5), ("frames_v6", layouts.V6)):
        frames = frames_of(case[name])
        received = decode(frames)
        assert has_valid_signature(received, key_of(case), algorithm_of(case))
        assert received.domain == case["domain"]
        signed = sign(received.clone(signature=b"", socket_identity=frames[0]), key_of(case), algorithm_of(case))
        assert encode(signed, layout) == frames


@pytest.mark.parametrize("case", [case for case in CASES if case["should_sign"] is False], ids=name_of)
def test_a_message_of_an_unsigned_domain_has_no_signature(case: dict[str, Any]) -> None:
    received = decode(frames_of(case["frames_v5"]))
    assert received.signature == b""
    assert not has_valid_signature(received, key_of(case), algorithm_of(case))


@pytest.mark.parametrize("case", PADDED, ids=name_of)
def test_the_padded_buffer_of_2016_is_reproduced(case: dict[str, Any]) -> None:
    # The version was text then, and covered as such: what reads as 1 today was signed as 1.0.
    message = message_of(case["fields"], layouts.V4C).clone(signature=bytes_of(case["signature"]))
    received = decode(encode(message, layouts.V4C))
    assert mac_input(received, padded=True) == bytes_of(case["mac_input"])
    assert has_valid_signature(received, key_of(case), algorithm_of(case), padded=True)
    is_padded = bytes_of(case["mac_input"]).endswith(b"\0")
    assert has_valid_signature(received, key_of(case), algorithm_of(case), text_version=True) is not is_padded
    assert not has_valid_signature(received, key_of(case), algorithm_of(case))


MESSAGE = sign(Message(b"ORDER", bodies=(b"1", b"2"), callback_receiver_identity=b"\0hub", domain="orders"), b"key")


@pytest.mark.parametrize("field", ["identity", "partition", "callback_receiver_identity"])
def test_a_change_to_a_covered_field_breaks_the_signature(field: str) -> None:
    assert has_valid_signature(MESSAGE, b"key")
    assert not has_valid_signature(MESSAGE.clone(**{field: b"forged"}), b"key")
    assert not has_valid_signature(MESSAGE.clone(version=2), b"key")
    assert not has_valid_signature(MESSAGE.clone(bodies=(b"1", b"3")), b"key")


def test_another_key_algorithm_or_length_does_not_verify() -> None:
    assert not has_valid_signature(MESSAGE, b"other")
    assert not has_valid_signature(MESSAGE, b"key", MacAlgorithm.SHA512)
    assert not has_valid_signature(MESSAGE.clone(signature=MESSAGE.signature[:16]), b"key")


def test_fields_that_the_reference_does_not_cover_may_change() -> None:
    assert has_valid_signature(MESSAGE.add_hop().clone(domain="other", correlation_id=b"x", ttl_ticks=1), b"key")


def test_a_key_is_bytes() -> None:
    with pytest.raises(LocalError, match="key: expected bytes"):
        sign(MESSAGE, "secret")  # type: ignore[arg-type]


def test_a_version_that_no_format_can_carry_cannot_be_signed() -> None:
    with pytest.raises(LocalError, match="version"):
        mac_input(Message(b"ORDER", version=70_000))


def test_a_version_that_is_text_is_covered_as_text() -> None:
    assert mac_input(Message(b"ORDER", version=b"1.1", bodies=(b"body",))) == b"ORDER1.1body"
    assert mac_input(Message(b"ORDER", version=1, bodies=(b"body",)), text_version=True) == b"ORDER1.0body"
