"""The other side of a connection, written by hand from the RFCs: what it sends, and how it reads what we send.

Nothing here uses hopline.zmtp's own encoders, so that a mistake in them cannot agree with itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from hopline.zmtp import Connection, Event, Limits, SocketType, Version

MORE, LONG, COMMAND = 1, 2, 4

SIGNATURE = b"\xff\0\0\0\0\0\0\0\0\x7f"
NUMBERS = {"PAIR": 0, "PUB": 1, "SUB": 2, "REQ": 3, "REP": 4, "DEALER": 5}
NUMBERS |= {"ROUTER": 6, "PULL": 7, "PUSH": 8, "XPUB": 9, "XSUB": 10}

SMALL = Limits(frame_size=400, message_size=1000, frames=4, command_size=120)


def frame(content: bytes, flags: int = 0) -> bytes:
    """Return a frame: short if it can be, unless the flags say that it is long."""
    if flags & LONG or len(content) > 255:
        return struct.pack(">BQ", flags | LONG, len(content)) + content
    return bytes((flags, len(content))) + content


def message(*frames: bytes) -> bytes:
    return b"".join(frame(content, MORE) for content in frames[:-1]) + frame(frames[-1])


def command(name: bytes, content: bytes = b"", flags: int = COMMAND) -> bytes:
    return frame(bytes((len(name),)) + name + content, flags)


def a_property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + struct.pack(">I", len(value)) + value


def greeting(major: int = 3, minor: int = 1, mechanism: bytes = b"NULL") -> bytes:
    return SIGNATURE + bytes((major, minor)) + mechanism.ljust(20, b"\0") + b"\0" + bytes(31)


def ready(socket_type: str = "DEALER", identity: bytes = b"") -> bytes:
    properties = a_property(b"Socket-Type", socket_type.encode()) + a_property(b"Identity", identity)
    return command(b"READY", properties)


def opening(version: Version, socket_type: str = "DEALER", identity: bytes = b"", revision: int = 1) -> bytes:
    """Return all that a peer of a version sends before its first message."""
    if version is Version.V2_0:
        return SIGNATURE + bytes((revision, NUMBERS[socket_type])) + frame(identity)
    return greeting(minor=1 if version is Version.V3_1 else 0) + ready(socket_type, identity)


def connected(
    version: Version = Version.V3_1,
    ours: SocketType = SocketType.ROUTER,
    theirs: str = "DEALER",
    limits: Limits | None = None,
) -> Connection:
    """Return a connection after the handshake, whose output was taken."""
    connection = Connection(ours, limits=limits or Limits())
    connection.receive(opening(version, theirs))
    assert connection.is_ready
    connection.take_output()
    return connection


def received(connection: Connection, pieces: Iterable[bytes]) -> list[Event]:
    return [event for piece in pieces for event in connection.receive(piece)]


def chunks(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut bytes into pieces of these sizes, again and again."""
    pieces = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
        turn += 1
    return pieces


def read_messages(stream: bytes) -> list[list[bytes]]:
    """Read what we sent after the handshake, as a peer would; commands are left out."""
    messages = []
    frames: list[bytes] = []
    at = 0
    while at < len(stream):
        flags = stream[at]
        assert not flags & ~(MORE | LONG | COMMAND)
        size, start = (
            (struct.unpack_from(">Q", stream, at + 1)[0], at + 9) if flags & LONG else (stream[at + 1], at + 2)
        )
        content, at = stream[start : start + size], start + size
        assert len(content) == size
        if flags & COMMAND:
            continue
        frames.append(content)
        if not flags & MORE:
            messages.append(frames)
            frames = []
    assert not frames
    return messages
