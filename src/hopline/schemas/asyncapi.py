"""The AsyncAPI 3 document of some actors: what they handle, what they answer, and the schemas of both.

How Hopline is expressed in AsyncAPI's terms:

* Every kind of message that is handled has a *channel*, whose address is the kind: ``Greet/1``.
* Every handler is an *operation* that receives from it. If it returns payloads, the operation has a *reply*, whose
  channel has no address: an answer goes to the hub that asked.
* Every payload class is a *message* with its content type and its JSON Schema. Handlers that take any other body have a
  message without a payload.
* What AsyncAPI has no word for is in ``x-hopline``: identity, version, partition, and the fingerprint by which nodes
  compare their schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from hopline.actors import Actor
from hopline.message import MessageIdentifier, payload_type, printable_name
from hopline.schemas.book import SchemaBook
from hopline.schemas.contracts import Contract, contracts_of, payloads_of
from hopline.schemas.fingerprint import OPAQUE, content_type, fingerprint, fingerprint_text
from hopline.schemas.json_schema import Schemas, schemas_of

Document: TypeAlias = dict[str, Any]

ASYNCAPI_VERSION = "3.0.0"
_SCHEMAS = "#/components/schemas/"
_NOT_IN_KEYS = re.compile(r"[^\w.\-]", re.ASCII)


def asyncapi_document(actors: Iterable[Actor], title: str, version: str, description: str = "") -> Document:
    """Return the AsyncAPI 3 document of some actors.

    Args:
        actors: The actors. Several of one class are one.
        title: The title of the application.
        version: The version of the application.
        description: What the application does.

    Raises:
        SchemaConflictError: Two payload classes of one name have different schemas.
    """
    actors = list(actors)
    _require_one_schema_each(actors)
    contracts = _contracts(actors)
    classes = dict.fromkeys(cls for contract in contracts for cls in (contract.content, *contract.answers) if cls)
    schemas = schemas_of(classes, _SCHEMAS)
    document = _Document(schemas)
    for contract in contracts:
        document.add(contract)
    info = {"title": title, "version": version} | ({"description": description} if description else {})
    components = {"messages": document.messages, "schemas": schemas.components}
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": info,
        "defaultContentType": "application/msgpack",
        "channels": document.channels,
        "operations": document.operations,
        "components": {name: entries for name, entries in components.items() if entries},
    }


def _require_one_schema_each(actors: Iterable[Actor]) -> None:
    book = SchemaBook()
    for actor in actors:
        book.add(actor.identity, payloads_of(actor))


def _contracts(actors: Iterable[Actor]) -> list[Contract]:
    found = dict.fromkeys(contract for actor in actors for contract in contracts_of(actor))
    return sorted(found, key=lambda contract: (contract.actor, contract.method, str(contract.identifier)))


class _Document:
    """Collects the channels, operations and messages of contracts, each under a key of its own."""

    def __init__(self, schemas: Schemas) -> None:
        self.channels: Document = {}
        self.operations: Document = {}
        self.messages: Document = {}
        self._schemas = schemas
        self._keys: dict[object, str] = {}  # of channels and messages, by what they are for

    def add(self, contract: Contract) -> None:
        """Add the operation of a contract, and what it refers to."""
        channel = self._channel(contract)
        message = self._message(contract.identifier, contract.content)
        operation: Document = {
            "action": "receive",
            "channel": _ref("channels", channel),
            "messages": [_ref("channels", channel, "messages", message)],
        }
        if contract.description:
            operation["summary"] = contract.description
        key = _unique_key(f"{contract.actor}.{contract.method}", self.operations)
        if contract.answers:
            operation["reply"] = self._reply(contract, f"{key}.reply")
        if contract.keep_local:
            operation["x-hopline"] = {"keepLocal": True}
        self.operations[key] = operation

    def _channel(self, contract: Contract) -> str:
        """Return the key of the channel of a kind, which holds every message that is handled under it."""
        kind = contract.identifier
        key = self._keys.get(kind)
        if key is None:
            key = self._keys[kind] = _unique_key(_kind_key(kind), self.channels)
            self.channels[key] = {"address": str(kind), "messages": {}}
        message = self._message(kind, contract.content)
        self.channels[key]["messages"][message] = _ref("components", "messages", message)
        return key

    def _reply(self, contract: Contract, wanted_key: str) -> Document:
        key = _unique_key(wanted_key, self.channels)
        messages = [self._message(payload_type(answer).identifier, answer) for answer in contract.answers]
        self.channels[key] = {
            "address": None,
            "description": "Answers go to the hub that sent the request.",
            "messages": {message: _ref("components", "messages", message) for message in messages},
        }
        return {
            "channel": _ref("channels", key),
            "messages": [_ref("channels", key, "messages", message) for message in messages],
        }

    def _message(self, kind: MessageIdentifier, cls: type | None) -> str:
        """Return the key of the message of a payload class, or of a kind whose body is not described."""
        key = self._keys.get((kind, cls))
        if key is None:
            key = self._keys[kind, cls] = _unique_key(_kind_key(kind), self.messages)
            self.messages[key] = self._describe(kind, cls)
        return key

    def _describe(self, kind: MessageIdentifier, cls: type | None) -> Document:
        name = printable_name(kind.identity)
        hopline: Document = {"identity": name, "version": _version(kind)}
        if kind.partition:
            hopline["partition"] = printable_name(kind.partition)
        if cls is None:
            return {"name": name, "contentType": OPAQUE, "x-hopline": hopline}
        value = fingerprint(cls)
        if value is not None:
            hopline["fingerprint"] = fingerprint_text(value)
        message: Document = {"name": name, "title": cls.__name__, "contentType": content_type(payload_type(cls))}
        schema = self._schemas.by_class[cls]
        if schema:
            message["payload"] = schema
        return message | {"x-hopline": hopline}


def _version(kind: MessageIdentifier) -> int | str:
    return kind.version if isinstance(kind.version, int) else printable_name(kind.version)


def _kind_key(kind: MessageIdentifier) -> str:
    """Return a kind as a key: without its version if that is 1."""
    name = str(kind).removesuffix("/1")
    return _NOT_IN_KEYS.sub("_", name)


def _unique_key(wanted: str, taken: Document) -> str:
    wanted = _NOT_IN_KEYS.sub("_", wanted)
    key, number = wanted, 1
    while key in taken:
        number += 1
        key = f"{wanted}_{number}"
    return key


def _ref(*path: str) -> Document:
    return {"$ref": "#/" + "/".join(path)}
