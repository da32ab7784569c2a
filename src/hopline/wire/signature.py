"""Message signatures: what they cover, how they are made and checked. Whose key, is for `hopline.security`."""

from __future__ import annotations

import hmac
from enum import StrEnum

from hopline.message import Message, version_to_text
from hopline.wire.layout import Type
from hopline.wire.writer import as_bytes, in_range

# The stream that the reference of summer 2016 filled, and then signed with whatever lay behind its content.
_FIRST_CAPACITY = 2048


class MacAlgorithm(StrEnum):
    """The keyed hash. MD5 is what old networks use; the value is the name in `hashlib`."""

    MD5 = "md5"
    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


def mac_input(message: Message, *, text_version: bool = False, padded: bool = False) -> bytes:
    """Return the bytes that a signature covers: identity, version, partition, body, callback receiver, concatenated.

    Nothing else is covered, not even the domain. All body frames are, should there be several. `text_version` is for
    peers that write the message version as text (V4B, V4C), which sign that text. `padded` is the erratum of July and
    August 2016, when it was text too: the writer signed its stream's whole buffer (GetBuffer), zeros included.
    """
    version = message.version
    if text_version or padded:
        version = version_to_text(version)
    elif version == 1 and version.__class__ is int:  # as in nearly every message
        version = b"\x01\x00"
    elif not isinstance(version, bytes):
        version = in_range("version", version, Type.U16).to_bytes(2, "little")
    parts = (message.identity, version, message.partition, *message.bodies, message.callback_receiver_identity)
    content = b"".join(parts)
    if not padded:
        return content
    capacity, filled = _FIRST_CAPACITY, 0
    for part in parts:
        filled += len(part)
        if filled > capacity:
            capacity = max(filled, 2 * capacity)
    return content.ljust(capacity, b"\0")


def signature_of(
    message: Message,
    key: bytes,
    algorithm: MacAlgorithm = MacAlgorithm.SHA256,
    *,
    text_version: bool = False,
    padded: bool = False,
) -> bytes:
    """Compute the signature that the message should have."""
    content = mac_input(message, text_version=text_version, padded=padded)
    return hmac.digest(as_bytes("key", key), content, algorithm)


def sign(message: Message, key: bytes, algorithm: MacAlgorithm = MacAlgorithm.SHA256) -> Message:
    """Return the message with its signature."""
    return message.clone(signature=signature_of(message, key, algorithm))


def has_valid_signature(
    message: Message,
    key: bytes,
    algorithm: MacAlgorithm = MacAlgorithm.SHA256,
    *,
    text_version: bool = False,
    padded: bool = False,
) -> bool:
    """Return whether the signature was made with the key. Takes the same time for every wrong signature."""
    signature = signature_of(message, key, algorithm, text_version=text_version, padded=padded)
    return hmac.compare_digest(signature, message.signature)
