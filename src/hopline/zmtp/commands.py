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
    content = _property(b"Socket-Type", socket_type.wire_name) + _property(b"Identity", identity)
    return encode_command(READY, content)


def _property(name: bytes, value: bytes) -> bytes:
    name_size = bytes((len(name),))
    value_size = _VALUE_SIZE.pack(len(value))
    return name_size + name + value_size + value


def read_properties(content: bytes) -> dict[bytes, bytes]:
    """Return the properties of a READY command, by their names in lower case."""
    properties: dict[bytes, bytes] = {}
    end = len(content)
    at = 0
    while at < end:
        name_start = at + 1
        name_end = name_start + content[at]
        value_start = name_end + _VALUE_SIZE.size
        if value_start > end:
            raise CommandError("a property that is cut off")
        (value_size,) = _VALUE_SIZE.unpack_from(content, name_end)
        value_end = value_start + value_size
        if value_end > end:
            raise CommandError("a property that is cut off")
        name = content[name_start:name_end].lower()
        if not name or name in properties:
            raise CommandError("a property without a name, or twice")
        properties[name] = content[value_start:value_end]
        at = value_end
    return properties


def error(reason: str) -> bytes:
    """Return an ERROR command. RFC 23: sent instead of READY, by a peer that refuses the connection."""
    encoded = reason.encode("ascii", "replace")
    text = encoded[:_LONGEST_REASON]
    size = bytes((len(text),))
    return encode_command(ERROR, size + text)


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
    tenths = max(least, time_to_live * _TENTHS_PER_SECOND)
    bounded = round(min(tenths, _MOST_TENTHS))
    return encode_command(PING, _TIME_TO_LIVE.pack(bounded) + context)


def read_ping(content: bytes) -> tuple[float, bytes]:
    """Return the time to live of a PING in seconds, and the context that the PONG repeats."""
    least = _TIME_TO_LIVE.size
    most = least + _LONGEST_PING_CONTEXT
    if not least <= len(content) <= most:
        raise CommandError("a PING of the wrong size")
    (tenths,) = _TIME_TO_LIVE.unpack_from(content)
    context = content[least:]
    return tenths / _TENTHS_PER_SECOND, context


def pong(context: bytes) -> bytes:
    """Return a PONG command, which repeats the context of the PING."""
    return encode_command(PONG, context)
