"""Typed payloads: what a class says of itself, and how it travels."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from hopline import JSON, PROTOBUF, RAW, Message, MessageIdentifier, PayloadError, from_message, payload, to_message
from hopline.errors import ArgumentTypeError, LocalError
from hopline.message import Serializer, payload_type


@payload("ORDER.PRICE")
class PriceOrder(msgspec.Struct):
    sku: int
    pieces: int = 1


@payload(b"ORDER.PRICED", version=2, partition=b"eu", serializer=JSON)
@dataclasses.dataclass
class Priced:
    cents: int


@payload("BLOB", serializer=RAW)
class Blob(bytes):
    pass


def test_a_payload_becomes_a_message_of_its_kind_and_back() -> None:
    message = to_message(PriceOrder(4711), ttl=timedelta(seconds=1))
    assert message.identifier == MessageIdentifier(b"ORDER.PRICE", 1)
    assert message.ttl == timedelta(seconds=1)
    assert msgspec.msgpack.decode(message.body) == {"sku": 4711, "pieces": 1}
    assert from_message(message, PriceOrder) == PriceOrder(4711)


def test_version_partition_and_serializer_are_the_class_s_own() -> None:
    message = to_message(Priced(100))
    assert message.identifier == MessageIdentifier(b"ORDER.PRICED", 2, b"eu")
    assert message.body == b'{"cents":100}'
    assert from_message(message, Priced) == Priced(100)


def test_what_happens_to_the_object_later_does_not_matter() -> None:
    order = PriceOrder(4711)
    message = to_message(order)
    order.sku = 0
    assert from_message(message, PriceOrder).sku == 4711


def test_raw_bytes_are_the_body() -> None:
    message = to_message(Blob(b"\x00\x01"))
    assert message.body == b"\x00\x01"
    assert from_message(message, Blob) == Blob(b"\x00\x01")
    with pytest.raises(LocalError, match="payload: expected bytes"):
        RAW.encode("text")


def test_protobuf_classes_are_payloads_too() -> None:
    text = payload("TEXT", serializer=PROTOBUF)(StringValue)
    message = to_message(text(value="hello"))
    assert from_message(message, text).value == "hello"
    with pytest.raises(PayloadError, match="not a valid StringValue"):
        from_message(Message(b"TEXT", bodies=(b"\xff\xff\xff",)), text)
    with pytest.raises(LocalError, match="a protobuf message"):
        PROTOBUF.encode(object())


def test_a_serializer_of_ones_own_needs_two_methods() -> None:
    class Upper:
        def encode(self, payload: object) -> bytes:
            return str(payload).upper().encode()

        def decode(self, body: bytes, kind: type[str]) -> str:
            return kind(body.decode().lower())

    serializer: Serializer = Upper()  # type: ignore[assignment]

    @payload("SHOUT", serializer=serializer)
    class Shout(str):
        __slots__ = ()

    message = to_message(Shout("hello"))
    assert message.body == b"HELLO"
    assert from_message(message, Shout) == "hello"


@pytest.mark.parametrize("body", [b"", b"\xc1", msgspec.msgpack.encode({"sku": "text"}), msgspec.msgpack.encode([1])])
def test_a_body_of_another_kind_is_a_payload_error_that_shows_it(body: bytes) -> None:
    with pytest.raises(PayloadError, match="not a valid PriceOrder: ") as caught:
        from_message(Message(b"ORDER.PRICE", bodies=(body,)), PriceOrder)
    assert caught.value.body == body
    assert caught.value.kind is PriceOrder


def test_a_body_that_is_nested_too_deeply_is_a_payload_error() -> None:
    @payload("ANY")
    class Anything(msgspec.Struct):
        inside: object

    with pytest.raises(PayloadError):
        from_message(Message(b"ANY", bodies=(b"\x81\xa6inside" + b"\x91" * 100_000,)), Anything)


def test_what_a_serializer_cannot_hold_is_the_callers_mistake() -> None:
    with pytest.raises(LocalError, match="something that MessagePack can hold"):
        to_message(PriceOrder(object()))  # type: ignore[arg-type]


def test_a_class_that_says_nothing_of_itself_is_no_payload() -> None:
    with pytest.raises(ArgumentTypeError, match="or with the decorator @payload"):
        to_message(object())
    assert payload_type(PriceOrder).identifier.identity == b"ORDER.PRICE"


def test_bare_the_decorator_takes_the_name_of_the_class() -> None:
    @payload
    class Plain(msgspec.Struct):
        number: int

    assert to_message(Plain(1)).identifier == MessageIdentifier(b"Plain")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"identity": 3}, "payload identity: expected text or bytes"),
        ({"identity": "X", "version": "1"}, "payload version: expected a number"),
        ({"identity": "X", "partition": 3}, "payload partition: expected text or bytes"),
        ({"identity": "X", "serializer": "json"}, "payload serializer: expected an object with encode and decode"),
    ],
)
def test_a_decorator_that_makes_no_sense_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentTypeError, match=says):
        payload(**wrong)
