"""The profile `sealed`: what its signatures cover, and the frame that carries one.

The frame is one version byte, 8 bytes of time (milliseconds since 1970, big-endian), 8 random bytes, and the MAC of
all these and of the covered fields. Each field is written as MessagePack, one array of them all: with its type and its
length, so that nothing can be moved from one field to the next.
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Iterator

import msgspec

from hopline.message import RECEIPT, LocalError, Message, MessageIdentifier

COVERED = (
    "domain",
    "identity",
    "version",
    "partition",
    "bodies",
    "distribution",
    "correlation_id",
    "trace_options",
    "receiver_identity",
    "receiver_node_identity",
    "callback_point",
    "callback_key",
    "callback_receiver_identity",
    "callback_receiver_node_identity",
)
"""The fields of a message that a sealed signature covers, in the order in which they are written.

Of the callback points all but the receipt's: the first node that gets the message confirms it, and takes that one off
before the message goes on.
"""

IN_TRANSIT = {
    "hops": "each sending counts one",
    "routing": "each router appends itself",
    "ttl_ticks": "the time that the message waited is subtracted, after signing too",
    "socket_identity": "belongs to the socket that sends it next, and is never transmitted as a field",
    "extension": "is never needed, and a node on the way may add to it or have no format for it",
    "wire_format": "is how the message was read, not what it says",
    "signature": "cannot cover itself",
}
"""The fields that it cannot cover, and why."""

VERSION = b"\x01"
HEADER_SIZE = 17

_header = struct.Struct(">cQ8s")
_encode = msgspec.msgpack.Encoder().encode
_NONCES_AT_ONCE = 512
_RECEIPT = RECEIPT.identity

# Cache of encoded lists of callback points. Bounded, because the lists come from the network.
_MOST_KNOWN_POINTS = 1_024
_LARGEST_KNOWN_POINTS = 1_024  # bytes
_known_points: dict[tuple[MessageIdentifier, ...], msgspec.Raw] = {}


def header(milliseconds: int) -> bytes:
    """Return the start of a signature: version, time and a new nonce, so that no two signatures are equal."""
    return _header.pack(VERSION, milliseconds, _nonces.new())


def read_header(signature: bytes) -> tuple[int, bytes]:
    """Return the time (milliseconds) and the nonce of a signature that has been verified."""
    _, milliseconds, nonce = _header.unpack_from(signature)
    return milliseconds, nonce


def derived_key(secret: bytes) -> bytes:
    """Return the key for sealed signatures; it differs from the secret, so that no signature fits both profiles."""
    return hmac.digest(secret, b"hopline sealed 1", "sha256")


def content(message: Message, domain: str) -> bytes:
    """Return the covered fields as bytes. The domain is an argument: a message is labelled while it is signed."""
    try:
        try:
            points = _known_points[message.callback_point]  # a network has few lists of them
        except (KeyError, TypeError):  # a list cannot be looked up
            points = _covered_points(message.callback_point)
        return _encode(
            (
                domain,
                message.identity,
                message.version,
                message.partition,
                message.bodies,
                message.distribution,
                message.correlation_id,
                message.trace_options,
                message.receiver_identity,
                message.receiver_node_identity,
                points,
                message.callback_key,
                message.callback_receiver_identity,
                message.callback_receiver_node_identity,
            )
        )
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise LocalError("message", f"fields that can be transmitted ({error})", message.identity) from None


def _covered_points(callback_point: tuple[MessageIdentifier, ...]) -> msgspec.Raw:
    """Return the covered callback points as bytes, and cache them."""
    covered = [point for point in callback_point if point.identity != _RECEIPT]
    entries = [(point.identity, point.version, point.partition) for point in covered]
    points = msgspec.Raw(_encode(entries))
    if len(points) <= _LARGEST_KNOWN_POINTS and isinstance(callback_point, tuple):
        if len(_known_points) >= _MOST_KNOWN_POINTS:
            _known_points.clear()
        _known_points[callback_point] = points
    return points


class _Nonces:
    """Random nonces, drawn in blocks: a system call for each would take longer than the MAC."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.new = self._draw().__next__

    @staticmethod
    def _draw() -> Iterator[bytes]:
        while True:
            for (nonce,) in struct.iter_unpack("8s", os.urandom(8 * _NONCES_AT_ONCE)):
                yield nonce


_nonces = _Nonces()
if hasattr(os, "register_at_fork"):  # otherwise a child process would use the nonces of its parent
    os.register_at_fork(after_in_child=_nonces.renew)
