"""The AsyncAPI document of an application.

There is no well kept validator of AsyncAPI 3 for Python, so the rules of its specification that concern our documents
are written down here, in `require_valid`. The JSON Schemas inside are checked by `jsonschema`, against the bodies that
the payloads really have.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from uuid import UUID

import jsonschema
import msgspec
import pydantic
import pytest

from hopline import (
    JSON,
    PROTOBUF,
    RAW,
    Actor,
    Context,
    Message,
    MessageIdentifier,
    Payload,
    Request,
    handler,
    payload,
    to_message,
)
from hopline.cluster.messages.service_pb2 import DiscoverMessageRoute, Health, RegisterExternalMessageRoute
from hopline.errors import SchemaConflictError
from hopline.schemas.asyncapi import asyncapi_document
from hopline.schemas.fingerprint import fingerprint, fingerprint_text

# -- an application with every kind of payload -------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(msgspec.Struct):
    sku: int
    price: tuple[int, str] = (0, "EUR")


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


class Priced(Payload):
    cents: int
    colour: Colour = Colour.RED
    children: list[Priced] = msgspec.field(default_factory=list)


@payload("ORDER.REFUSED", version=2, partition=b"eu", serializer=JSON)
@dataclass
class Refused:
    reason: str
    at: datetime | None = None


class Order(Request[Priced | Refused]):
    """An order of one customer."""

    items: list[Item]
    shape: Circle | Square | None = None
    customer: UUID | None = None


@payload("Bill", serializer=JSON)
class Bill(pydantic.BaseModel):
    class Item(pydantic.BaseModel):  # of the same name as the struct, and another class
        text: str

    items: list[Item]
    pair: tuple[int, str] = (1, "a")


@payload("Picture", serializer=RAW)
class Picture(bytes):
    pass


Announcement = payload("ANNOUNCEMENT", serializer=PROTOBUF)(RegisterExternalMessageRoute)
ROUTES = MessageIdentifier(b"some routes/of a node", 3)


class Shop(Actor):
    @handler
    def order(self, order: Order) -> Priced | Refused:
        """Price an order.

        It may be refused.
        """
        return Priced(len(order.items))

    @handler
    async def bill(self, bill: Bill) -> AsyncIterator[Priced]:
        yield Priced(len(bill.items))

    @handler(keep_local=True)
    def show(self, picture: Picture, context: Context) -> list[Announcement]:  # type: ignore[valid-type]
        return []

    @handler(partition=b"eu")
    @handler(partition=b"us")
    def announce(self, announcement: Announcement) -> None:  # type: ignore[valid-type]
        pass

    @handler(ROUTES)
    def routes(self, message: Message) -> Message:
        return message


class Till(Actor):
    @handler
    def order(self, order: Order) -> Message:
        return to_message(Priced(1))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncapi_document([Shop(), Shop(), Till()], "Shop", "2.1.0", "Sells things.")


# -- the rules of AsyncAPI 3 -------------------------------------------------------------------------------------------

KEY = re.compile(r"^[a-zA-Z0-9.\-_]+$")
ROOT = {"asyncapi", "id", "info", "servers", "defaultContentType", "channels", "operations", "components"}
CHANNEL = {"address", "messages", "title", "summary", "description", "servers", "parameters", "tags", "bindings"}
OPERATION = {"action", "channel", "title", "summary", "description", "tags", "bindings", "messages", "reply"}
REPLY = {"address", "channel", "messages"}
MESSAGE = {"headers", "payload", "correlationId", "contentType", "name", "title", "summary", "description", "examples"}


def require_valid(document: dict[str, Any]) -> None:
    require_fields(document, ROOT, {"asyncapi", "info"})
    assert document["asyncapi"] == "3.0.0"
    require_fields(document["info"], {"title", "version", "description"}, {"title", "version"})
    require_fields(document["components"], {"messages", "schemas"})
    for message in entries(document["components"]["messages"]):
        require_fields(message, MESSAGE)
    for channel in entries(document["channels"]):
        require_fields(channel, CHANNEL)
        for reference in entries(channel["messages"]):
            require_reference(document, reference, "#/components/messages/")
    for operation in entries(document["operations"]):
        require_fields(operation, OPERATION, {"action", "channel"})
        assert operation["action"] in ("send", "receive")
        require_messages_of_channel(document, operation)
        reply = operation.get("reply")
        if reply is not None:
            require_fields(reply, REPLY)
            require_messages_of_channel(document, reply)
    for name, schema in document["components"]["schemas"].items():
        assert KEY.match(name)
        jsonschema.Draft7Validator.check_schema(schema)
    for path in references(document):
        require_reference(document, {"$ref": path}, "#/")


def entries(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of a map whose keys have to be usable in references."""
    for key, value in fields.items():
        assert KEY.match(key), key
        yield value


def require_fields(value: dict[str, Any], allowed: set[str], required: frozenset[str] | set[str] = frozenset()) -> None:
    own = {name for name in value if not name.startswith("x-")}
    assert own <= allowed, own - allowed
    assert required <= own, required - own


def require_messages_of_channel(document: dict[str, Any], value: dict[str, Any]) -> None:
    """The messages of an operation or a reply must be references to messages of its channel, not to components."""
    channel = value["channel"]["$ref"]
    require_reference(document, value["channel"], "#/channels/")
    assert value["messages"]
    for reference in value["messages"]:
        require_reference(document, reference, f"{channel}/messages/")


def require_reference(document: dict[str, Any], reference: dict[str, str], prefix: str) -> None:
    assert reference["$ref"].startswith(prefix)
    found: Any = document
    for part in reference["$ref"].removeprefix("#/").split("/"):
        found = found[part]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_a_document_follows_the_rules_of_asyncapi(document: dict[str, Any]) -> None:
    require_valid(document)
    require_valid(msgspec.json.decode(msgspec.json.encode(document)))


@pytest.mark.parametrize("mistake", ["operation", "reference", "channel", "schema"])
def test_the_rules_can_be_broken(document: dict[str, Any], mistake: str) -> None:
    broken = msgspec.json.decode(msgspec.json.encode(document))
    match mistake:
        case "operation":
            broken["operations"]["Shop.order"]["reply"]["callback"] = 1
        case "reference":
            broken["operations"]["Shop.order"]["messages"] = [{"$ref": "#/components/messages/Order"}]
        case "channel":
            broken["channels"]["a b"] = broken["channels"]["Order"]
        case "schema":
            broken["components"]["schemas"]["Item"]["properties"] = []
    with pytest.raises((AssertionError, jsonschema.SchemaError)):
        require_valid(broken)


def test_an_application_without_payloads_has_a_valid_document_too() -> None:
    class Idle(Actor):
        pass

    require_valid({**asyncapi_document([Idle()], "Idle", "1"), "components": {"messages": {}, "schemas": {}}})


# -- what the document says --------------------------------------------------------------------------------------------


def test_the_head_names_the_application(document: dict[str, Any]) -> None:
    assert document["info"] == {"title": "Shop", "version": "2.1.0", "description": "Sells things."}
    assert document["defaultContentType"] == "application/msgpack"


def test_every_handler_is_an_operation_once(document: dict[str, Any]) -> None:
    assert list(document["operations"]) == [
        "Shop.announce",
        "Shop.announce_2",
        "Shop.bill",
        "Shop.order",
        "Shop.routes",
        "Shop.show",
        "Till.order",
    ]
    order = document["operations"]["Shop.order"]
    assert order["summary"] == "Price an order."
    assert order["channel"] == {"$ref": "#/channels/Order"}
    assert document["operations"]["Shop.show"]["x-hopline"] == {"keepLocal": True}


def test_every_kind_of_message_that_is_handled_has_a_channel(document: dict[str, Any]) -> None:
    channels = {key: channel["address"] for key, channel in document["channels"].items()}
    addresses = {key: address for key, address in channels.items() if address is not None}
    assert addresses == {
        "ANNOUNCEMENT_1_eu": "ANNOUNCEMENT/1/eu",
        "ANNOUNCEMENT_1_us": "ANNOUNCEMENT/1/us",
        "Bill": "Bill/1",
        "Order": "Order/1",
        "Picture": "Picture/1",
        "some_routes_of_a_node_3": "some routes/of a node/3",
    }
    assert [key for key, address in channels.items() if address is None] == [
        "Shop.bill.reply",
        "Shop.order.reply",
        "Shop.show.reply",
        "Till.order.reply",
    ]


@pytest.mark.parametrize("operation", ["Shop.order", "Till.order"])
def test_an_answer_is_what_the_handler_returns_or_the_request_names(document: dict[str, Any], operation: str) -> None:
    reply = document["operations"][operation]["reply"]
    assert [message["$ref"] for message in reply["messages"]] == [
        f"#/channels/{operation}.reply/messages/Priced",
        f"#/channels/{operation}.reply/messages/ORDER.REFUSED_2_eu",
    ]


def test_what_handlers_do_not_return_is_no_reply(document: dict[str, Any]) -> None:
    for operation in ("Shop.announce", "Shop.routes"):
        assert "reply" not in document["operations"][operation]


def test_a_message_says_what_it_is_called_and_how_it_is_written(document: dict[str, Any]) -> None:
    messages = document["components"]["messages"]
    assert messages["ORDER.REFUSED_2_eu"] == {
        "name": "ORDER.REFUSED",
        "title": "Refused",
        "contentType": "application/json",
        "payload": {"$ref": "#/components/schemas/Refused"},
        "x-hopline": {
            "identity": "ORDER.REFUSED",
            "version": 2,
            "partition": "eu",
            "fingerprint": fingerprint_text(fingerprint(Refused) or 0),
        },
    }
    assert messages["some_routes_of_a_node_3"] == {
        "name": "some routes/of a node",
        "contentType": "application/octet-stream",
        "x-hopline": {"identity": "some routes/of a node", "version": 3},
    }
    assert "payload" not in messages["Picture"]
    types = {key: message["contentType"].removeprefix("application/") for key, message in messages.items()}
    assert types["Order"] == "msgpack"
    assert types["ANNOUNCEMENT"] == types["ANNOUNCEMENT_1_eu"] == "protobuf"
    assert types["Picture"] == "octet-stream"


# -- the schemas -------------------------------------------------------------------------------------------------------


def validator_of(document: dict[str, Any], message: str) -> jsonschema.Draft7Validator:
    schema = document["components"]["messages"][message]["payload"]
    return jsonschema.Draft7Validator({**schema, "components": document["components"]})


CONTENTS = [
    ("Order", Order([Item(1), Item(2, (3, "USD"))], Square(2.0), UUID(int=7))),
    ("Order", Order([])),
    ("Priced", Priced(1, Colour.BLUE, [Priced(2)])),
    ("ORDER.REFUSED_2_eu", Refused("too much", datetime(2026, 1, 1, tzinfo=UTC))),
    ("Bill", Bill(items=[Bill.Item(text="lamp")], pair=(2, "b"))),
]


@pytest.mark.parametrize(("message", "content"), CONTENTS)
def test_what_a_payload_becomes_fits_its_schema(document: dict[str, Any], message: str, content: Any) -> None:
    body = content.model_dump(mode="json") if isinstance(content, Bill) else content
    validator_of(document, message).validate(msgspec.json.decode(msgspec.json.encode(body)))


def test_the_json_form_of_a_protobuf_message_fits_its_schema(document: dict[str, Any]) -> None:
    from google.protobuf.json_format import MessageToDict

    announcement = RegisterExternalMessageRoute(uri="tcp://10.0.0.5:5101", node_identity=b"\x00\xff", health=Health())
    announcement.routes.add(receiver_identity=b"r").message_contracts.add(version=7, identity=b"Order")
    announcement.health.heart_beat_interval.value = -5
    validator_of(document, "ANNOUNCEMENT").validate(MessageToDict(announcement))


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Order", {}),
        ("Order", {"items": [{"sku": "1"}]}),
        ("Order", {"items": [{"sku": 1, "price": [1, "EUR", 2]}]}),
        ("Order", {"items": [], "shape": {"type": "Triangle"}}),
        ("Priced", {"cents": 1, "children": [{"cents": None}]}),
        ("Priced", {"cents": 1, "colour": "green"}),
        ("ORDER.REFUSED_2_eu", {"at": None}),
        ("Bill", {"items": [{"sku": 1}]}),
        ("ANNOUNCEMENT", {"uri": 7}),
        ("ANNOUNCEMENT", {"routes": [{"messageContracts": [{"version": "x"}]}]}),
    ],
)
def test_another_body_does_not_fit(document: dict[str, Any], message: str, body: Any) -> None:
    assert not validator_of(document, message).is_valid(body)


def test_enumerations_maps_and_defaults_of_protobuf_are_described() -> None:
    from google.protobuf.struct_pb2 import Struct

    struct = payload("STRUCT", serializer=PROTOBUF)(Struct)
    query = payload("DISCOVER", serializer=PROTOBUF)(DiscoverMessageRoute)

    class Reader(Actor):
        @handler(struct)
        def read(self, content: Any) -> None:
            pass

        @handler(query)
        def discover(self, content: Any) -> None:
            pass

    document = asyncapi_document([Reader()], "Reader", "1")
    require_valid(document)
    schemas = document["components"]["schemas"]
    assert schemas["google.protobuf.Struct"]["properties"]["fields"] == {
        "type": "object",
        "additionalProperties": {"$ref": "#/components/schemas/google.protobuf.Value"},
    }
    assert schemas["google.protobuf.Value"]["properties"]["nullValue"] == {"enum": ["NULL_VALUE"]}


def test_two_classes_of_one_name_and_different_schemas_are_an_error_here_too() -> None:
    @payload("Priced")
    class Other(msgspec.Struct):
        cents: str

    class OtherShop(Actor):
        @handler(Other)
        def price(self, content: Other) -> None:
            pass

    with pytest.raises(SchemaConflictError, match="cents is integer in the first, text in the second"):
        asyncapi_document([Shop(), OtherShop()], "Shop", "1")
