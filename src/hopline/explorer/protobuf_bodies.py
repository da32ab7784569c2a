"""Bodies that are protobuf messages, shown by the descriptors of their types.

`protoc --include_imports --descriptor_set_out=orders.desc orders.proto` writes such a file. A body does not say which
type it has: the type whose name is that of the message's kind, apart from case and separators, is tried, and any other
can be chosen on the page.
"""

from __future__ import annotations

import re
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory

from hopline.message import HoplineError, printable_json

LARGEST_FILE = 64 << 20
_SEPARATORS = re.compile(r"[^a-z0-9]")


class DescriptorError(HoplineError):
    """A file of descriptors cannot be read."""


class ProtobufTypes:
    """The types of a file of descriptors."""

    def __init__(self, file: Path | None = None) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self.names: tuple[str, ...] = ()
        if file is not None:
            self.names = tuple(sorted(self._read(file)))

    def _read(self, file: Path) -> list[str]:
        try:
            content = file.read_bytes()
            if len(content) > LARGEST_FILE:
                raise DescriptorError(f"{file}: too large for descriptors")
            files = descriptor_pb2.FileDescriptorSet.FromString(content)
            names = []
            for described in files.file:
                self._pool.Add(described)
                prefix = f"{described.package}." if described.package else ""
                names += [f"{prefix}{type_.name}" for type_ in described.message_type]
            for name in names:
                self._pool.FindMessageTypeByName(name)
        except OSError as error:
            raise DescriptorError(f"{file}: {error.strerror or error}") from None
        except (message.DecodeError, KeyError, TypeError, ValueError):
            raise DescriptorError(
                f"{file}: no file of descriptors; protoc --include_imports --descriptor_set_out={file} makes one"
            ) from None
        if not names:
            raise DescriptorError(f"{file}: no message types in it")
        return names

    def type_of(self, identity: str | None) -> str | None:
        """Return the type whose name is that of a kind of message; None if there is no such type, or several."""
        kind = _plain(identity or "")
        if not kind:
            return None
        matches = []
        for name in self.names:
            _, _, last_part = name.rpartition(".")
            if kind in (_plain(name), _plain(last_part)):
                matches.append(name)
        return matches[0] if len(matches) == 1 else None

    def text(self, type_name: str, body: bytes) -> str | None:
        """Return a body of a type as JSON; None where it is not of that type."""
        if type_name not in self.names:
            return None
        descriptor = self._pool.FindMessageTypeByName(type_name)
        message_class = message_factory.GetMessageClass(descriptor)
        parsed = message_class()
        try:
            parsed.ParseFromString(body)
            document = json_format.MessageToJson(
                parsed,
                preserving_proto_field_name=True,
                descriptor_pool=self._pool,
            )
        except (message.DecodeError, json_format.Error, ValueError):
            return None
        return "\n".join(printable_json(line) for line in document.splitlines())


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())
