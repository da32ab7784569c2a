"""The same fields through other people's codecs."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from hopline import Message, MessageIdentifier
from hopline.message import RoutingEntry

BYTES = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
INT = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
UINT = descriptor_pb2.FieldDescriptorProto.TYPE_UINT32
GROUP = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE

FIELDS: tuple[tuple[str, int], ...] = (
    ("identity", BYTES),
    ("version", UINT),
    ("partition", BYTES),
    ("bodies", BYTES),
    ("distribution", UINT),
    ("correlation_id", BYTES),
    ("ttl_ticks", INT),
    ("trace_options", UINT),
    ("hops", UINT),
    ("receiver_identity", BYTES),
    ("receiver_node_identity", BYTES),
    ("callback_point", GROUP),
    ("callback_key", INT),
    ("callback_receiver_identity", BYTES),
    ("callback_receiver_node_identity", BYTES),
    ("socket_identity", BYTES),
    ("signature", BYTES),
    ("domain", STRING),
    ("routing", GROUP),
)
ENTRIES = {
    "callback_point": ("Identifier", (("identity", BYTES), ("version", UINT), ("partition", BYTES))),
    "routing": ("Router", (("uri", STRING), ("identity", BYTES))),
}
SCALARS = tuple(name for name, kind in FIELDS if kind != GROUP and name != "bodies")


class ProtobufCodec:
    """Protobuf with the message's fields: fill and serialise, parse and take out."""

    def __init__(self) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
        for type_name, fields in [("Message", FIELDS), *ENTRIES.values()]:
            declared = file.message_type.add(name=type_name)
            for number, (name, kind) in enumerate(fields, start=1):
                repeated = name in ENTRIES or name == "bodies"
                added = declared.field.add(name=name, number=number, type=kind, label=3 if repeated else 1)
                if kind == GROUP:
                    added.type_name = f".bench.{ENTRIES[name][0]}"
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        classes = {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bench.{name}"))
            for name in ("Message", "Identifier", "Router")
        }
        self._message, self._identifier, self._router = classes["Message"], classes["Identifier"], classes["Router"]

    def encode(self, message: Message) -> bytes:
        """Write a message."""
        identifier, router = self._identifier, self._router
        filled = self._message(
            bodies=message.bodies,
            callback_point=[
                identifier(identity=point.identity, version=point.version, partition=point.partition)
                for point in message.callback_point
            ],
            routing=[router(uri=entry.uri, identity=entry.identity) for entry in message.routing],
            **{name: getattr(message, name) for name in SCALARS},
        )
        return bytes(filled.SerializeToString())

    def decode(self, content: bytes) -> Message:
        """Read a message."""
        parsed: Any = self._message.FromString(content)
        return Message(
            bodies=tuple(parsed.bodies),
            callback_point=tuple(
                [MessageIdentifier(point.identity, point.version, point.partition) for point in parsed.callback_point]
            ),
            routing=tuple([RoutingEntry(entry.uri, entry.identity) for entry in parsed.routing]),
            **{name: getattr(parsed, name) for name in SCALARS},
        )


class _Identifier(msgspec.Struct, frozen=True, array_like=True):
    identity: bytes
    version: int
    partition: bytes


class _Router(msgspec.Struct, frozen=True, array_like=True):
    uri: str
    identity: bytes


class _ArrayMessage(msgspec.Struct, frozen=True, array_like=True):
    """The message's fields without their names on the wire: msgspec at its leanest."""

    identity: bytes
    version: int
    partition: bytes
    bodies: tuple[bytes, ...]
    distribution: int
    correlation_id: bytes
    ttl_ticks: int
    trace_options: int
    hops: int
    receiver_identity: bytes
    receiver_node_identity: bytes
    callback_point: tuple[_Identifier, ...]
    callback_key: int
    callback_receiver_identity: bytes
    callback_receiver_node_identity: bytes
    socket_identity: bytes
    signature: bytes
    domain: str
    routing: tuple[_Router, ...]
    extension: bytes


class MsgspecArrayCodec:
    """msgspec MessagePack with fields by position; messages are made ready before the clock starts."""

    def __init__(self) -> None:
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder(_ArrayMessage).decode

    @staticmethod
    def prepare(message: Message) -> _ArrayMessage:
        """Turn a message into the struct that is encoded."""
        values = msgspec.structs.asdict(message)
        del values["wire_format"]
        values["callback_point"] = tuple(
            _Identifier(*msgspec.structs.astuple(point)) for point in message.callback_point
        )
        values["routing"] = tuple(_Router(*msgspec.structs.astuple(entry)) for entry in message.routing)
        return _ArrayMessage(**values)
