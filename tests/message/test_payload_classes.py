"""What may be a payload besides msgspec structs: dataclasses, pydantic models, protobuf classes, bytes, a mixture."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from hopline import JSON, MSGPACK, PROTOBUF, RAW, Message, Payload, PayloadError, from_message, payload, to_message
from hopline.errors import ArgumentTypeError, LocalError
from hopline.message import MessageIdentifier, payload_type


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(alias="streetName")
    code: bytes = b"\xff\x00"


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    since: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    credit: Decimal = Decimal("1.10")
    tags: set[str] = {"new"}
    addresses: list[Address] = []


class Text(pydantic.BaseModel):
    text: str
    word: bytes = b"plain"


@payload
@dataclass(frozen=True)
class Visit:
    customer: Customer
    number: int


class Order(Payload):
    customer: Customer
    notes: dict[str, Text]


CUSTOMER = Customer(name="Ada", addresses=[Address(streetName="Main")])


def test_a_model_travels_as_a_map_of_its_fields() -> None:
    customer = payload("CUSTOMER")(Customer)
    message = to_message(CUSTOMER)
    body = msgspec.msgpack.decode(message.body)
    assert body["name"] == "Ada"
    assert body["addresses"] == [{"streetName": "Main", "code": b"\xff\x00"}]
    assert from_message(message, customer) == CUSTOMER


def test_a_model_in_json_is_what_pydantic_writes() -> None:
    text = payload("TEXT.JSON", serializer=JSON)(Text)
    message = to_message(Text(text="hello"))
    assert message.body == b'{"text":"hello","word":"plain"}'
    assert from_message(message, text) == Text(text="hello")


@pytest.mark.parametrize("content", [Visit(CUSTOMER, 3), Order(CUSTOMER, {"a": Text(text="b")})])
def test_models_may_be_parts_of_other_payloads(content: Visit | Order) -> None:
    assert from_message(to_message(content), type(content)) == content


@pytest.mark.parametrize("fields", [{"name": ""}, {"name": "Ada", "addresses": [{}]}, {}])
def test_what_a_model_refuses_is_no_payload(fields: dict[str, Any]) -> None:
    customer = payload("CUSTOMER")(Customer)
    with pytest.raises(PayloadError, match="not a valid Customer"):
        from_message(Message(b"CUSTOMER", bodies=(msgspec.msgpack.encode(fields),)), customer)
    body = msgspec.msgpack.encode({"customer": fields, "number": 1})
    with pytest.raises(PayloadError, match="not a valid Visit"):
        from_message(Message(b"Visit", bodies=(body,)), Visit)


class Opaque:
    pass


def test_what_msgspec_and_pydantic_do_not_know_cannot_be_written_or_read() -> None:
    @payload
    @dataclass
    class Holds:
        thing: Opaque

    with pytest.raises(LocalError, match="objects of type Opaque cannot be encoded"):
        to_message(Holds(Opaque()))
    with pytest.raises(PayloadError, match="Expected `Opaque`"):
        from_message(Message(b"Holds", bodies=(msgspec.msgpack.encode({"thing": {}}),)), Holds)


def test_the_serializer_follows_the_class_unless_it_is_named() -> None:
    class Blob(bytes):
        pass

    class Struct(msgspec.Struct):
        number: int

    assert payload_type(payload("A")(Blob)).serializer is RAW
    assert payload_type(payload("B")(StringValue)).serializer is PROTOBUF
    assert payload_type(payload("C")(Struct)).serializer is MSGPACK
    assert payload_type(payload("D", serializer=JSON)(Struct)).serializer is JSON


def test_pydantic_is_imported_only_by_those_who_have_models() -> None:
    program = """
import sys
from hopline import Payload, from_message, to_message

class Greet(Payload):
    name: str

assert from_message(to_message(Greet("Ada")), Greet) == Greet("Ada")
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_names_may_be_text() -> None:
    class Greet(Payload):
        name: str

    named = payload("GRÜSSE", partition="zürich")(Greet)
    message = to_message(named("Ada"))
    assert message.identifier == MessageIdentifier.of("GRÜSSE", partition="zürich")
    assert message.partition == "zürich".encode()
    moved = to_message(named("Ada"), partition="basel", version=2)
    assert moved.identifier == MessageIdentifier(named_identity := "GRÜSSE".encode(), 2, b"basel")
    assert Message.create("GRÜSSE", partition="p").identity == named_identity
    assert Message.flow_start("GRÜSSE").with_receiver_node("node").receiver_node_identity == b"node"
    with pytest.raises(ArgumentTypeError, match="partition: expected text or bytes"):
        to_message(named("Ada"), partition=3)  # type: ignore[arg-type]
