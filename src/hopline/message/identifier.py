"""The identifier of a message: the (identity, version, partition) triple that routes and callbacks match on."""

from __future__ import annotations

import re
from typing import Self, TypeAlias

import msgspec

from hopline.errors import ArgumentTypeError
from hopline.message.printable import printable_name

# A u16 in every format since late 2016. The first format carries text, "1.0" by convention: that is 1 here, so that
# both generations have the same identifier; any other text stays the bytes that it was.
Version: TypeAlias = int | bytes

MAX_VERSION = 0xFFFF

_CONVENTIONAL_TEXT = re.compile(rb"(0|[1-9][0-9]{0,4})\.0")

# Nearly every version as text; the fast paths of the first format accept no others.
COMMON_VERSIONS = {b"%d.0" % number: number for number in range(256)}
COMMON_VERSION_TEXTS: dict[Version, bytes] = {number: text for text, number in COMMON_VERSIONS.items()}


def version_from_text(text: bytes) -> Version:
    """Return the version that a text of the first format means: ``b"1.0"`` is 1, ``b"1.1"`` stays ``b"1.1"``."""
    common = COMMON_VERSIONS.get(text)
    if common is not None:
        return common
    match = _CONVENTIONAL_TEXT.fullmatch(text)
    if match is None:
        return text
    number = int(match[1])
    return number if number <= MAX_VERSION else text


def version_to_text(version: Version) -> bytes:
    """Return a version as text of the first format; the inverse of `version_from_text`."""
    return version if isinstance(version, bytes) else b"%d.0" % version


def as_bytes(name: str | bytes, field: str) -> bytes:
    """Return an identity or a partition as the bytes that travel. Text is encoded in UTF-8.

    Raises:
        ArgumentTypeError: It is neither text nor bytes; the error names the `field`.
    """
    if isinstance(name, str):
        return name.encode()
    if not isinstance(name, bytes):
        raise ArgumentTypeError(field, "text or bytes", name)
    return name


class MessageIdentifier(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The kind of a message. Two are equal if all three parts are, byte for byte."""

    identity: bytes
    version: Version = 1
    partition: bytes = b""

    @classmethod
    def of(cls, identity: str | bytes, *, version: Version = 1, partition: str | bytes = b"") -> Self:
        """Return the identifier with these parts, which may be text."""
        return cls(as_bytes(identity, "identity"), version, as_bytes(partition, "partition"))

    def redirected(self, partition: str | bytes | None, version: Version | None) -> Self:
        """Return the identifier with another partition and another version, where they are given."""
        if partition is None and version is None:
            return self
        return type(self)(
            self.identity,
            self.version if version is None else version,
            self.partition if partition is None else as_bytes(partition, "partition"),
        )

    def __str__(self) -> str:
        """Return it as logs, errors and terminals show it: ``NAME/VERSION/PARTITION``, printable and bounded."""
        version = self.version if isinstance(self.version, int) else printable_name(self.version)
        text = f"{printable_name(self.identity)}/{version}"
        return f"{text}/{printable_name(self.partition)}" if self.partition else text
