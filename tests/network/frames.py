"""Frames of the reference, written and read by hand from the protocol's documents: nothing here is Hopline's.

`live` gives what a running network of the reference said. A scripted peer says the same with other addresses, names and
numbers, so that every byte that is not one of those is the reference's own.
"""

from __future__ import annotations

import hmac
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

LIVE = Path(__file__).parent.parent / "data" / "vectors" / "live.json"
NO_FLOW = b"00000000-0000-0000-0000-000000000000"
V4, V5_INT32, V5, V6 = "v4", "v5_int32", "v5", "v6"
ANNOUNCEMENT = b"KINO.REGEXTROUTE"
DECLARATION = b"\x81\xa5reads\x95\xa5first\xa2v4\xa8v5_int32\xa2v5\xa2v6"  # what Hopline adds to it, in MessagePack
BOTH = (V5, V6)  # those that the reference of today writes

_VERSION_FRAMES = {V4: bytes.fromhex("04000000"), V5_INT32: bytes.fromhex("05000000"), V5: bytes.fromhex("0500")}
_WORDS = struct.Struct("<4H")
_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_FIXED_FRAMES = 17

Callback = tuple[bytes, int, bytes]  # partition, version, identity
Hop = tuple[bytes, bytes]  # uri, node


@dataclass(frozen=True)
class Fields:
    """A message, field by field, in the order of V6's meta frame. Its envelope is the sockets' business."""

    identity: bytes
    body: bytes = b""
    partition: bytes = b""
    version: int = 1
    receiver: bytes = b""
    receiver_node: bytes = b""
    trace: int = 0
    distribution: int = 0
    callback_node: bytes = b""
    key: int = 0
    domain: bytes = b""
    signature: bytes = b""
    hops: int = 0
    routing: tuple[Hop, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    callback_receiver: bytes = b""
    correlation: bytes = NO_FLOW
    ttl: int = 0

    def but(self, **changes: Any) -> Fields:
        """The same with other values."""
        return replace(self, **changes)


# -- writing -----------------------------------------------------------------------------------------------------------


def write(wire: str, message: Fields) -> list[bytes]:
    """Write everything below the envelope."""
    return _write_v6(message) if wire == V6 else _write_v5(message, _VERSION_FRAMES[wire])


def _write_v5(message: Fields, version_frame: bytes) -> list[bytes]:
    callbacks, hops = len(message.callbacks), len(message.routing)
    routing_offset = _FIXED_FRAMES + 1 + 3 * callbacks if hops else 0
    body_offset = _FIXED_FRAMES + 1 + 3 * callbacks + 2 * hops
    return [
        message.body,
        *(frame for uri, node in message.routing for frame in (uri, node)),
        *(
            frame
            for partition, version, identity in message.callbacks
            for frame in (partition, _U16.pack(version), identity)
        ),
        message.callback_node,
        _I64.pack(message.key),
        message.domain,
        message.signature,
        _WORDS.pack(routing_offset, hops, 2, message.hops),
        _WORDS.pack(_FIXED_FRAMES + 1 if callbacks else 0, callbacks, 3, 0),
        message.receiver,
        message.callback_receiver,
        message.receiver_node,
        message.partition,
        _U16.pack(message.version),
        message.identity,
        _WORDS.pack(message.trace, message.distribution, 0, 0),
        message.correlation,
        _I64.pack(message.ttl),
        _WORDS.pack(body_offset, 1, 0, 0),
        version_frame,
    ]


def _write_v6(message: Fields) -> list[bytes]:
    routing = b"".join(_sized(_sized(uri) + _sized(node)) for uri, node in message.routing)
    callbacks = b"".join(
        _sized(_sized(partition) + _U16.pack(version) + _sized(identity))
        for partition, version, identity in message.callbacks
    )
    meta = (
        _U16.pack(6)
        + _sized(message.partition)
        + _U16.pack(message.version)
        + _sized(message.identity)
        + _sized(message.receiver)
        + _sized(message.receiver_node)
        + _WORDS.pack(message.trace, message.distribution, 0, 0)
        + _sized(message.callback_node)
        + _I64.pack(message.key)
        + _sized(message.domain)
        + _sized(message.signature)
        + _WORDS.pack(len(message.routing), message.hops, 0, 0)
        + routing
        + _U16.pack(len(message.callbacks))
        + callbacks
        + _sized(message.callback_receiver)
        + _sized(message.correlation)
        + _I64.pack(message.ttl)
        + _WORDS.pack(2, 1, 0, 0)
    )
    return [message.body, meta]


def _sized(value: bytes) -> bytes:
    return _I32.pack(len(value)) + value


# -- reading -----------------------------------------------------------------------------------------------------------


def wire_of(frames: Sequence[bytes]) -> str:
    """Tell the format of a message by its last frame."""
    return {version_frame: wire for wire, version_frame in _VERSION_FRAMES.items()}.get(frames[-1], V6)


def read(wire: str, frames: Sequence[bytes]) -> Fields:
    """Read a message from its end, whatever stands in front. The lists stay in the order of the frames."""
    return _read_v6(frames) if wire == V6 else _read_v5(frames)


def without_declaration(wire: str, frames: Sequence[bytes]) -> list[bytes]:
    """Take off what Hopline adds to an announcement, and check that it is there: the rest is the reference's.

    In V5 that is one frame above the fixed ones, which moves the body by one, and in V6 the end of the meta frame.
    """
    assert read(wire, frames).identity == ANNOUNCEMENT
    if wire == V6:
        assert frames[-1].endswith(DECLARATION)
        return [*frames[:-1], frames[-1][: -len(DECLARATION)]]
    at = len(frames) - _FIXED_FRAMES - 1
    assert frames[at] == DECLARATION
    body_offset, *words = _WORDS.unpack(frames[-2])
    return [*frames[:at], *frames[at + 1 : -2], _WORDS.pack(body_offset - 1, *words), frames[-1]]


def _read_v5(frames: Sequence[bytes]) -> Fields:
    routing_offset, hop_count, hop_size, hops = _WORDS.unpack(frames[-13])
    callback_offset, callback_count, callback_size, _ = _WORDS.unpack(frames[-12])
    trace, distribution, _, _ = _WORDS.unpack(frames[-5])
    body_offset, body_count, _, _ = _WORDS.unpack(frames[-2])
    assert (hop_size, callback_size, body_count) == (2, 3, 1)
    at = [len(frames) - routing_offset - 2 * (hop_count - 1 - index) for index in range(hop_count)]
    routing = tuple((frames[bottom - 1], frames[bottom]) for bottom in at)
    at = [len(frames) - callback_offset - 3 * (callback_count - 1 - index) for index in range(callback_count)]
    callbacks = tuple((frames[bottom - 2], _U16.unpack(frames[bottom - 1])[0], frames[bottom]) for bottom in at)
    return Fields(
        identity=frames[-6],
        body=frames[-body_offset],
        partition=frames[-8],
        version=_U16.unpack(frames[-7])[0],
        receiver=frames[-11],
        receiver_node=frames[-9],
        trace=trace,
        distribution=distribution,
        callback_node=frames[-17],
        key=_I64.unpack(frames[-16])[0],
        domain=frames[-15],
        signature=frames[-14],
        hops=hops,
        routing=routing,
        callbacks=callbacks,
        callback_receiver=frames[-10],
        correlation=frames[-4],
        ttl=_I64.unpack(frames[-3])[0],
    )


class _Meta:
    """A place in a meta frame."""

    def __init__(self, meta: bytes) -> None:
        self.meta = meta
        self.at = 0

    def number(self, shape: struct.Struct) -> int:
        return int(self.numbers(shape)[0])

    def numbers(self, shape: struct.Struct) -> tuple[int, ...]:
        values = shape.unpack_from(self.meta, self.at)
        self.at += shape.size
        return values

    def bytes(self) -> bytes:
        size = self.number(_I32)
        assert 0 <= size <= len(self.meta) - self.at
        self.at += size
        return self.meta[self.at - size : self.at]


def _read_v6(frames: Sequence[bytes]) -> Fields:
    meta = _Meta(frames[-1])
    assert meta.number(_U16) == 6
    partition, version, identity = meta.bytes(), meta.number(_U16), meta.bytes()
    receiver, receiver_node = meta.bytes(), meta.bytes()
    trace, distribution, _, _ = meta.numbers(_WORDS)
    callback_node, key, domain, signature = meta.bytes(), meta.number(_I64), meta.bytes(), meta.bytes()
    hop_count, hops, _, _ = meta.numbers(_WORDS)
    routing = []
    for _ in range(hop_count):
        hop = _Meta(meta.bytes())
        routing.append((hop.bytes(), hop.bytes()))
    callbacks = []
    for _ in range(meta.number(_U16)):
        callback = _Meta(meta.bytes())
        callbacks.append((callback.bytes(), callback.number(_U16), callback.bytes()))
    callback_receiver, correlation, ttl = meta.bytes(), meta.bytes(), meta.number(_I64)
    body_offset, body_count, _, _ = meta.numbers(_WORDS)
    assert (body_offset, body_count) == (2, 1)
    assert meta.at == len(frames[-1]) or identity == ANNOUNCEMENT  # nothing else has anything behind its last field
    return Fields(
        identity=identity,
        body=frames[-2],
        partition=partition,
        version=version,
        receiver=receiver,
        receiver_node=receiver_node,
        trace=trace,
        distribution=distribution,
        callback_node=callback_node,
        key=key,
        domain=domain,
        signature=signature,
        hops=hops,
        routing=tuple(routing),
        callbacks=tuple(callbacks),
        callback_receiver=callback_receiver,
        correlation=correlation,
        ttl=ttl,
    )


def signature(message: Fields, key: bytes) -> bytes:
    """Sign as the reference does unless it is told otherwise: the fields end to end, with HMAC-MD5."""
    signed = message.identity + _U16.pack(message.version) + message.partition + message.body
    return hmac.digest(key, signed + message.callback_receiver, "md5")


# -- what the reference said -------------------------------------------------------------------------------------------


@cache
def _captures() -> list[dict[str, Any]]:
    captures: list[dict[str, Any]] = json.loads(LIVE.read_text(encoding="utf-8"))["captures"]
    return captures


def every_live_message() -> Iterator[tuple[str, list[bytes]]]:
    """Give the format and the frames of everything that was captured."""
    for capture in _captures():
        for message in capture["messages"]:
            yield capture["wire"], [bytes.fromhex(frame) for frame in message["frames"]]


def live_frames(wire: str, node: str, direction: str, identity: str) -> list[bytes]:
    """Give the first message of a kind that a node sent or received. One of 2018 differs from V5 in the number only."""
    if wire == V5_INT32:
        return [*live_frames(V5, node, direction, identity)[:-1], _VERSION_FRAMES[V5_INT32]]
    for capture in _captures():
        if (capture["wire"], capture["node"]) == (wire, node):
            for message in capture["messages"]:
                if (message["dir"], message["identity"]) == (direction, identity):
                    return [bytes.fromhex(frame) for frame in message["frames"]]
    raise LookupError((wire, node, direction, identity))


def live(wire: str, node: str, direction: str, identity: str) -> Fields:
    """Give the same, read."""
    return read(wire, live_frames(wire, node, direction, identity))


# -- bodies: protobuf, by hand -----------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    written = b""
    while number > 0x7F:
        written += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return written + bytes((number,))


def number(tag: int, value: int) -> bytes:
    """Write a number, unless it is zero."""
    return _varint(tag << 3) + _varint(value) if value else b""


def text(tag: int, value: bytes) -> bytes:
    """Write bytes, a text or a message inside; also when it is empty."""
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


def timespan(milliseconds: int) -> bytes:
    """Write a duration in its largest exact unit; the value is zigzag."""
    unit, scale = next(
        (unit, scale)
        for unit, scale in ((86_400_000, 0), (3_600_000, 1), (60_000, 2), (1_000, 3), (1, 4))
        if milliseconds % unit == 0
    )
    return number(1, 2 * (milliseconds // unit)) + number(2, scale)


def contract(identity: bytes, version: int = 1, partition: bytes = b"") -> bytes:
    """Name a kind of message."""
    return number(1, version) + text(2, identity) + text(3, partition)


Routes = Sequence[tuple[bytes, Sequence[bytes]]]  # receivers, and what each handles; a hub handles nothing


def _routes(routes: Routes) -> bytes:
    return b"".join(
        text(3, text(1, receiver) + b"".join(text(2, contract(identity)) for identity in identities))
        for receiver, identities in routes
    )


def registration(uri: str, node: bytes, routes: Routes, health_uri: str, interval: int) -> bytes:
    """REGEXTROUTE; the interval is in milliseconds."""
    health = text(1, health_uri.encode()) + text(2, timespan(interval))
    return text(1, uri.encode()) + text(2, node) + _routes(routes) + text(4, health)


def unregistration(uri: str, node: bytes, routes: Routes) -> bytes:
    """UNREGMSGROUTE."""
    return text(1, uri.encode()) + text(2, node) + _routes(routes)


def address_of(uri: str, node: bytes) -> bytes:
    """UNREGNODE, REQCLUSTROUTES and REQNODEROUTES: the same bytes."""
    return text(1, uri.encode()) + text(2, node)


def discovery(uri: str, node: bytes, identity: bytes | None = None, receiver: bytes | None = None) -> bytes:
    """DISCOVMSGROUTE, for a message or a hub."""
    return (
        text(1, node)
        + text(2, uri.encode())
        + (b"" if receiver is None else text(3, receiver))
        + (b"" if identity is None else text(4, contract(identity)))
    )


def heartbeat(interval: int, node: bytes | None = None, health_uri: str | None = None) -> bytes:
    """HEARTBEAT: of a rendezvous server, or of a node."""
    return (
        text(1, timespan(interval))
        + (b"" if node is None else text(2, node))
        + (b"" if health_uri is None else text(3, health_uri.encode()))
    )


def rendezvous_node(broadcast: str, unicast: str, partner: str) -> bytes:
    """Where a server is found."""
    return text(1, broadcast.encode()) + text(2, unicast.encode()) + text(3, partner.encode())


# -- bodies: BSON, by hand ---------------------------------------------------------------------------------------------


def exception_document(padding: int = 0, **texts: str) -> bytes:
    """Write what the reference writes of an exception: a nested document first, then the texts, then zeros."""
    nested = _document(_element("ClassName", "System.Exception") + b"\x10HResult\0" + _I32.pack(-2146233088))
    elements = b"\x03Exception\0" + nested + b"".join(_element(key, value) for key, value in texts.items())
    elements += b"\x10Version\0" + _I32.pack(1) + b"\x05Identity\0" + _I32.pack(14) + b"\0KINO.EXCEPTION"
    elements += b"\x0aPartition\0"
    return _document(elements) + bytes(padding)


def _document(elements: bytes) -> bytes:
    return _I32.pack(len(elements) + 5) + elements + b"\0"


def _element(key: str, value: str) -> bytes:
    encoded = value.encode() + b"\0"
    return b"\x02" + key.encode() + b"\0" + _I32.pack(len(encoded)) + encoded


def exception_fields(body: bytes) -> dict[str, Any]:
    """Read a document of texts, numbers, nulls and documents, as strictly as can be."""
    (size,) = _I32.unpack_from(body)
    assert size <= len(body)
    assert body[size - 1] == 0
    fields: dict[str, Any] = {}
    at = 4
    while at < size - 1:
        kind = body[at]
        end = body.index(b"\0", at + 1)
        key, value_at = body[at + 1 : end].decode(), end + 1
        if kind == 0x0A:
            fields[key], at = None, value_at
            continue
        (number,) = _I32.unpack_from(body, value_at)
        if kind == 0x10:
            fields[key], at = number, value_at + 4
        elif kind == 0x03:
            at = value_at + number
            fields[key] = exception_fields(body[value_at:at])
        else:
            assert kind == 0x02
            at = value_at + 4 + number
            assert body[at - 1] == 0
            fields[key] = body[value_at + 4 : at - 1].decode()
    return fields
