"""Serializers: from a payload to the body of a message, and back. Nothing is ever pickled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from hopline.errors import LocalError, PayloadError
from hopline.message import pydantic_models

Payload = TypeVar("Payload")


class Serializer(Protocol):
    """Turns payloads into bytes and back."""

    def encode(self, payload: Any) -> bytes:
        """Return the body for a payload, or raise `LocalError`."""
        ...

    def decode(self, body: bytes, kind: type[Payload]) -> Payload:
        """Return the payload that a body holds, or raise `PayloadError`."""
        ...


_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _MsgspecSerializer:
    """A format of msgspec: structs, dataclasses, attrs classes, typed dicts, plain types, and pydantic models anywhere.

    Decoding checks the types.
    """

    def __init__(self, name: str, codec: Any, dump: Callable[[Any], Any]) -> None:
        self.name = name
        self.write: Callable[[Any], bytes] = codec.Encoder(enc_hook=dump).encode  # raises msgspec's own errors
        self._decode = codec.decode
        self._decoder = codec.Decoder

    def encode(self, payload: Any) -> bytes:
        try:
            return self.write(payload)
        except (TypeError, ValueError, OverflowError) as error:
            raise LocalError("payload", f"something that {self.name} can hold ({error})", payload) from None

    def decode(self, body: bytes, kind: type[Payload]) -> Payload:
        try:
            read: Payload = self._decode(body, type=kind, dec_hook=pydantic_models.load)
        except _UNREADABLE as error:
            raise PayloadError(kind, str(error), body) from None
        return read

    def reader(self, kind: type[Payload]) -> Callable[[bytes], Payload]:
        decode: Callable[[bytes], Payload] | None = None

        def read(body: bytes) -> Payload:
            nonlocal decode
            if decode is None:  # with the first body, because annotations may name classes that are defined later
                decode = self._decoder(kind, dec_hook=pydantic_models.load).decode
            try:
                return decode(body)
            except _UNREADABLE as error:
                raise PayloadError(kind, str(error), body) from None

        return read


class _ProtobufSerializer:
    """Protobuf, as networks of the reference use it; the kind is a generated message class."""

    name = "protobuf"

    def encode(self, payload: Any) -> bytes:
        try:
            return bytes(payload.SerializeToString())
        except (AttributeError, ValueError) as error:
            raise LocalError("payload", f"a protobuf message ({error})", payload) from None

    def decode(self, body: bytes, kind: type[Payload]) -> Payload:
        # Generated classes raise errors of protobuf's own; catching them by name would import protobuf for everyone.
        try:
            read: Payload = kind.FromString(body)  # type: ignore[attr-defined]
        except Exception as error:
            raise PayloadError(kind, str(error), body) from None
        return read


class _RawSerializer:
    """The payload is the body: bytes, or a class whose constructor takes bytes."""

    name = "raw"

    def encode(self, payload: Any) -> bytes:
        if not isinstance(payload, bytes):
            raise LocalError("payload", "bytes", payload)
        return bytes(payload)

    def decode(self, body: bytes, kind: type[Payload]) -> Payload:
        return kind(body)  # type: ignore[call-arg]


def reader_of(serializer: Serializer, kind: type[Payload]) -> Callable[[bytes], Payload]:
    """Return a function that decodes payloads of one class, prepared once for many."""
    if isinstance(serializer, _MsgspecSerializer):
        return serializer.reader(kind)
    return lambda body: serializer.decode(body, kind)


def writer_of(serializer: Serializer) -> Callable[[Any], bytes]:
    """Return the fastest function that encodes payloads; if it fails, call `encode` for a `LocalError`."""
    return serializer.write if isinstance(serializer, _MsgspecSerializer) else serializer.encode


MSGPACK: Serializer = _MsgspecSerializer("MessagePack", msgspec.msgpack, pydantic_models.dump)
JSON: Serializer = _MsgspecSerializer("JSON", msgspec.json, pydantic_models.dump_for_json)
PROTOBUF: Serializer = _ProtobufSerializer()
RAW: Serializer = _RawSerializer()


def default_serializer(cls: type) -> Serializer:
    """Return the serializer of payload classes that name none."""
    if issubclass(cls, bytes):
        return RAW
    is_generated = hasattr(cls, "SerializeToString") and hasattr(cls, "FromString")
    return PROTOBUF if is_generated else MSGPACK
