"""What commands contain."""

from __future__ import annotations

import struct

from hopline.zmtp.framing import encode_command
from hopline.zmtp.socket_types import SocketType

READY = b"READY"
ERROR = b"ERROR"
PING = b"PING"
PONG = b"PONG"
SUBSCRIBE = b"SUBSCRIBE"
CANCEL = b"CANCEL"

SOCKET_TYPE = b"socket-type"  # names of properties may be in any case
IDENTITY = b"identity"

_LONGEST_IDENTITY = 255
IDENTITY_RULE = f"at most {_LONGEST_IDENTITY} bytes that do not begin with zero"
_LONGEST_PING_CONTEXT = 16
_LONGEST_REASON = 255
_TENTHS_PER_SECOND = 10
_MOST_TENTHS = 0xFFFF

_VALUE_SIZE = struct.Struct(">I")
_TIME_TO_LIVE = struct.Struct(">H")


class CommandError(Exception):
    """A command does not contain what its name promises."""


def split(body: bytes) -> tuple[bytes, bytes]:
    """Return the name of a command, and what follows it."""
    if not body or len(body) < 1 + body[0]:
        raise CommandError("a command without a name")
    end = 1 + body[0]
    return body[1:end], body[end:]


def is_identity(identity: bytes) -> bool:
    """Return whether a peer may call itself that; empty if it does not say."""
    return len(identity) <= _LONGEST_IDENTITY and not identity.startswith(b"\0")


def ready(socket_type: SocketType, identity: bytes) -> bytes:
    """Return a READY command. RFC 23, "The NULL Mechanism": both peers send one, with their properties."""
    properties = ((b"Socket-Type", socket_type.wire_name), (b"Identity", identity))
    content = [bytes((len(name),)) + name + _VALUE_SIZE.pack(len(value)) + value for name, value in properties]
    return encode_command(READY, b"".join(content))


def read_properties(content: bytes) -> dict[bytes, bytes]:
    """Return the properties of a READY command, by their names in lower case."""
    properties: dict[bytes, bytes] = {}
    at = 0
    while at < len(content):
        name_end = at + 1 + content[at]
        value_start = name_end + _VALUE_SIZE.size
        if value_start > len(content):
            raise CommandError("a property that is cut off")
        value_end = value_start + _VALUE_SIZE.unpack_from(content, name_end)[0]
        if value_end > len(content):
            raise CommandError("a property that is cut off")
        name = content[at + 1 : name_end].lower()
        if not name or name in properties:
            raise CommandError("a property without a name, or twice")
        properties[name] = content[value_start:value_end]
        at = value_end
    return properties


def error(reason: str) -> bytes:
    """Return an ERROR command. RFC 23: sent instead of READY, by a peer that refuses the connection."""
    text = reason.encode("ascii", "replace")[:_LONGEST_REASON]
    return encode_command(ERROR, bytes((len(text),)) + text)


def read_reason(content: bytes) -> str:
    """Return the reason that an ERROR command names."""
    if not content or len(content) != 1 + content[0]:
        raise CommandError("an ERROR without its reason")
    return content[1:].decode("ascii", "replace")


def ping(time_to_live: float, context: bytes = b"") -> bytes:
    """Return a PING command. RFC 37, "Connection Heartbeating": the time to live is in tenths of a second.

    Zero means forever, so a time to live that is shorter than a tenth is rounded up to one.
    """
    least = 1 if time_to_live > 0 else 0
    tenths = round(min(max(least, time_to_live * _TENTHS_PER_SECOND), _MOST_TENTHS))
    return encode_command(PING, _TIME_TO_LIVE.pack(tenths) + context)


def read_ping(content: bytes) -> tuple[float, bytes]:
    """Return the time to live of a PING in seconds, and the context that the PONG repeats."""
    if not _TIME_TO_LIVE.size <= len(content) <= _TIME_TO_LIVE.size + _LONGEST_PING_CONTEXT:
        raise CommandError("a PING of the wrong size")
    return _TIME_TO_LIVE.unpack_from(content)[0] / _TENTHS_PER_SECOND, content[_TIME_TO_LIVE.size :]


def pong(context: bytes) -> bytes:
    """Return a PONG command, which repeats the context of the PING."""
    return encode_command(PONG, context)
