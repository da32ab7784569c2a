"""What a fingerprint depends on, and what it does not depend on."""

from __future__ import annotations

import enum
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from hopline import JSON, MSGPACK, PROTOBUF, RAW, payload
from hopline.message import payload_type
from hopline.schemas.fingerprint import content_type, differences, fingerprint, fingerprint_text

Reserve = payload("RESERVE")


class Item(msgspec.Struct):
    sku: int
    note: str | None = None


@Reserve
class Struct(msgspec.Struct):
    """Reserves some items."""

    items: list[Item]
    customer: str
    at: datetime | None = None
    tags: list[str] = []
    urgent: bool = False


def changed(**changes: Any) -> type:
    """Return a class as `Struct` with some fields changed; `...` removes a field, a type makes it a required one."""
    fields: dict[str, Any] = {
        "items": list[Item],
        "customer": str,
        "at": (datetime | None, None),
        "tags": (list[str], []),
        "urgent": (bool, False),
    }
    fields |= changes
    entries = [(name, *value) if isinstance(value, tuple) else (name, value) for name, value in fields.items()]
    return Reserve(msgspec.defstruct("Changed", [entry for entry in entries if entry[1] is not ...], kw_only=True))


# -- what makes no difference ------------------------------------------------------------------------------------------


@dataclass
class ItemData:
    sku: int
    note: str | None = None


@Reserve
@dataclass
class Data:
    """A dataclass, with another text."""

    customer: str
    items: list[ItemData]
    urgent: bool = False
    tags: list[str] = field(default_factory=list)
    at: datetime | None = None


class ItemModel(pydantic.BaseModel):
    note: str | None = None
    sku: int


@Reserve
class Model(pydantic.BaseModel):
    """A model of pydantic."""

    items: list[ItemModel]
    customer: Annotated[str, pydantic.Field(description="who")]
    at: datetime | None = None
    tags: list[str] = pydantic.Field(default_factory=list)
    urgent: bool = False


@Reserve
class Limited(msgspec.Struct, forbid_unknown_fields=True):
    customer: Annotated[str, msgspec.Meta(min_length=1, description="who", title="Customer")]
    items: tuple[Item, ...]
    urgent: bool = False
    tags: list[str] = msgspec.field(default_factory=list)
    at: datetime | None = None


@Reserve
class Renamed(msgspec.Struct):
    things: list[Item] = msgspec.field(name="items")
    customer: str
    at: datetime | None = None
    tags: list[str] = []
    urgent: bool = False


@pytest.mark.parametrize("cls", [Data, Model, Limited, Renamed, changed()])
def test_names_texts_order_limits_and_the_library_make_no_difference(cls: type) -> None:
    assert differences(Struct, cls) == []
    assert fingerprint(cls) == fingerprint(Struct)


def test_an_enumeration_is_its_values() -> None:
    class Colour(enum.Enum):
        RED = "red"
        BLUE = "blue"

    one = Reserve(msgspec.defstruct("One", [("colour", Colour)]))
    other = Reserve(msgspec.defstruct("Other", [("colour", Literal["blue", "red"])]))
    assert fingerprint(one) == fingerprint(other)


def test_partition_and_version_are_no_part_of_it() -> None:
    one = payload("RESERVE")(msgspec.defstruct("One", [("a", int)]))
    other = payload("RESERVE.ELSE", version=2, partition=b"eu")(msgspec.defstruct("Other", [("a", int)]))
    assert fingerprint(one) == fingerprint(other)


# -- what makes one ----------------------------------------------------------------------------------------------------


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"customer": bytes}, "customer is text in the first, bytes in the second"),
    ({"customer": ...}, "customer is in the first only"),
    ({"address": str}, "address is in the second only"),
    ({"customer": (str, "nobody")}, 'customer is required in the first, has the default "nobody" in the second'),
    ({"urgent": (bool, True)}, "urgent has the default false in the first, has the default true in the second"),
    ({"urgent": bool}, "urgent has the default false in the first, is required in the second"),
    ({"at": (str | None, None)}, "at is datetime or null in the first, null or text in the second"),
    ({"tags": (list[int], [])}, "tags is array of text in the first, array of integer in the second"),
    ({"tags": (dict[str, int], {})}, "tags is array of text in the first, map of integer in the second"),
    ({"tags": (Literal["a", "b"], "a")}, 'tags is array of text in the first, one of "a", "b" in the second'),
    ({"items": list[ItemModel | None]}, "items is array of object with sku, note in the first"),
    ({"items": Item}, "items is array of object with sku, note in the first, object with sku, note in the second"),
]


@pytest.mark.parametrize(("changes", "text"), CHANGES)
def test_fields_types_and_defaults_make_a_difference_that_can_be_named(changes: dict[str, Any], text: str) -> None:
    other = changed(**changes)
    assert fingerprint(other) != fingerprint(Struct)
    assert differences(Struct, other)[0].startswith(text)


def test_a_difference_inside_is_named_with_its_place() -> None:
    class Address(msgspec.Struct):
        town: str

    class House(msgspec.Struct):
        town: int

    one = Reserve(msgspec.defstruct("One", [("address", Address)]))
    other = Reserve(msgspec.defstruct("Other", [("address", House)]))
    assert differences(one, other) == ["address.town is text in the first, integer in the second"]


def test_another_serializer_makes_a_difference() -> None:
    packed = payload("A", serializer=MSGPACK)(msgspec.defstruct("One", [("a", int)]))
    text = payload("A", serializer=JSON)(msgspec.defstruct("Other", [("a", int)]))
    assert fingerprint(packed) != fingerprint(text)
    assert differences(packed, text) == ["the body is application/msgpack in the first, application/json in the second"]


def test_the_order_of_fields_counts_where_they_have_no_names() -> None:
    one = Reserve(msgspec.defstruct("One", [("a", int), ("b", str)], array_like=True))
    other = Reserve(msgspec.defstruct("Other", [("b", str), ("a", int)], array_like=True))
    named = Reserve(msgspec.defstruct("Named", [("a", int), ("b", str)]))
    assert len({fingerprint(cls) for cls in (one, other, named)}) == 3
    assert differences(one, named) == ["the payload is tuple of 2 in the first, object with a, b in the second"]


def test_a_tag_is_a_field() -> None:
    plain = Reserve(msgspec.defstruct("Plain", [("a", int)]))
    tagged = Reserve(msgspec.defstruct("Tagged", [("a", int)], tag="t"))
    assert differences(plain, tagged) == ["type is in the second only"]


# -- special classes ---------------------------------------------------------------------------------------------------


@Reserve
class Tree(msgspec.Struct):
    children: list[Tree] = []


@Reserve
class Forest(pydantic.BaseModel):
    children: list[Forest] = []


@Reserve
class Chain(msgspec.Struct):
    children: list[Chain | None] = []


def test_a_class_may_contain_itself() -> None:
    assert fingerprint(Tree) == fingerprint(Forest)
    assert fingerprint(Tree) != fingerprint(Chain)


def test_raw_bodies_and_classes_that_nobody_can_describe_have_none() -> None:
    class Blob(bytes):
        pass

    class Unreadable(msgspec.Struct):
        field: Missing  # type: ignore[name-defined]  # noqa: F821

    assert fingerprint(payload("BLOB", serializer=RAW)(Blob)) is None
    assert fingerprint(payload("UNREADABLE")(Unreadable)) is None
    assert differences(Blob, Struct) == []


def test_a_type_of_the_applications_own_does_not_hide_the_other_fields() -> None:
    class Money:
        pass

    one = Reserve(msgspec.defstruct("One", [("price", Money), ("sku", int)]))
    other = Reserve(msgspec.defstruct("Other", [("price", Money), ("sku", str)]))
    assert differences(one, other) == ["sku is integer in the first, text in the second"]


def test_a_default_that_is_made_anew_is_not_called() -> None:
    def make() -> str:
        raise AssertionError("called")

    made = Reserve(msgspec.defstruct("Made", [("a", str, msgspec.field(default_factory=make))]))
    required = Reserve(msgspec.defstruct("Required", [("a", str)]))
    assert differences(made, required) == ["a may be missing in the first, is required in the second"]


def protobuf(*fields: tuple[str, int, int]) -> type:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="test", syntax="proto2")
    message = file.message_type.add(name="Order")
    for name, number, kind in fields:
        message.field.add(name=name, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("test.Order")
    return payload("ORDER", serializer=PROTOBUF)(message_factory.GetMessageClass(descriptor))


TEXT, NUMBER = 9, 5


def test_fields_of_protobuf_are_their_numbers() -> None:
    order = protobuf(("sku", 1, TEXT), ("count", 2, NUMBER))
    renamed = protobuf(("count_of_items", 2, NUMBER), ("article", 1, TEXT))
    renumbered = protobuf(("sku", 1, TEXT), ("count", 3, NUMBER))
    other_type = protobuf(("sku", 1, TEXT), ("count", 2, TEXT))
    assert fingerprint(order) == fingerprint(renamed)
    assert differences(order, renumbered) == ["2 is in the first only", "3 is in the second only"]
    assert differences(order, other_type) == ["2 is int32 in the first, string in the second"]


# -- the same everywhere -----------------------------------------------------------------------------------------------


@payload("EVERYTHING", serializer=JSON)
@dataclass
class Everything:
    class Point(NamedTuple):
        x: float
        y: float = 0.5

    class Options(TypedDict, total=False):
        colour: Literal["red", "blue"]

    point: Point
    options: Options
    identity: UUID
    price: Decimal
    anything: Any
    pair: tuple[int, str]
    children: dict[str, Item]
    names: frozenset[str] = frozenset({"a", "b", "c", "d", "e"})
    picture: bytes = b"\x00\xff"


def test_a_fingerprint_is_the_same_on_every_version_of_python() -> None:
    """Announcements carry these numbers: a change of one is a change of the protocol between Hopline nodes."""
    texts = [fingerprint_text(fingerprint(cls) or 0) for cls in (Struct, Everything, Tree)]
    assert texts == ["6161a569", "f1d44d9b", "acf196b5"]


def test_a_fingerprint_can_be_computed_by_hand() -> None:
    greet = payload("Greet")(msgspec.defstruct("Greet", [("name", str)]))
    described = b'application/msgpack\0{"object":{"name":{"type":"text"}}}'
    assert fingerprint(greet) == int.from_bytes(hashlib.sha256(described).digest()[:4], "big")


def test_a_fingerprint_does_not_depend_on_the_hashes_of_a_process() -> None:
    program = "from tests.schemas.test_fingerprint import Everything, fingerprint; print(fingerprint(Everything))"
    root = Path(__file__).parents[2]
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{fingerprint(Everything)}\n"}


def test_a_serializer_of_the_applications_own_may_name_its_content_type() -> None:
    class Avro:
        content_type = "application/avro"

        def encode(self, payload: Any) -> bytes:
            return b""

        def decode(self, body: bytes, kind: Callable[[], Any]) -> Any:
            return kind()

    cls = payload("AVRO", serializer=Avro())(msgspec.defstruct("One", [("a", int)]))
    assert content_type(payload_type(cls)) == "application/avro"
