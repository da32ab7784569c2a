"""What peers say, by chance: whole conversations that keep the rules, and ways to damage them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from hopline.zmtp import Connection, Event, Limits, SocketType, Version, Violation
from tests.zmtp.peers import COMMAND, LONG, MORE, SMALL, command, frame, greeting, opening, received

TINY = Limits(frame_size=300, message_size=500, frames=2, command_size=40)
LIMITS = (Limits(), SMALL, TINY)
SIZES = (0, 1, 2, 3, 10, 100, 254, 255, 256, 257, 300, 400, 401, 600)
PARTNERS = (
    (SocketType.ROUTER, "DEALER"),
    (SocketType.DEALER, "ROUTER"),
    (SocketType.PUB, "SUB"),
    (SocketType.SUB, "PUB"),
)


@dataclass(frozen=True)
class Conversation:
    """Whom the peer talks to, and what it says: parts that belong together, frames above all."""

    ours: SocketType
    limits: Limits
    parts: tuple[bytes, ...]

    @property
    def stream(self) -> bytes:
        return b"".join(self.parts)


def any_command(rng: random.Random) -> bytes:
    context = rng.randbytes(rng.choice((0, 1, 16)))
    return rng.choice(
        (
            command(b"PING", rng.randbytes(2) + context),
            command(b"PONG", context),
            command(b"SUBSCRIBE", context),
            command(b"CANCEL", context),
            command(b"UNKNOWN", context),
            command(b"PONG", context, COMMAND | LONG),
        )
    )


def conversation(rng: random.Random, limits: Limits | None = None) -> Conversation:
    """Return a conversation that keeps the rules, though not always the limits."""
    ours, theirs = rng.choice(PARTNERS)
    version = rng.choice(list(Version))
    identity = rng.choice((b"", b"me", b"i" * 30))
    start = opening(version, theirs, identity, rng.choice((1, 2)))
    parts = [start[:10], start[10:11], start[11:12], start[12:64], start[64:]]
    for _ in range(rng.randrange(8)):
        count = rng.choice((1, 1, 2, 3, 4, 5))
        for index in range(count):
            if version.has_commands and rng.random() < 0.3:
                parts.append(any_command(rng))
            flags = (MORE if index < count - 1 else 0) | rng.choice((0, 0, 0, LONG))
            parts.append(frame(rng.choice((b"", b"\0", b"\1")) + rng.randbytes(rng.choice(SIZES)), flags))
    if version.has_commands and rng.random() < 0.1:
        parts.append(command(b"ERROR", b"\x03No!"))
    return Conversation(ours, rng.choice(LIMITS) if limits is None else limits, tuple(parts))


# -- damage ------------------------------------------------------------------------------------------------------------

Parts = list[bytes]


def _pick(parts: Parts, rng: random.Random) -> int:
    return rng.randrange(len(parts))


def flip_a_bit(parts: Parts, rng: random.Random) -> None:
    """Prefer the first bytes of a part, where flags and sizes are."""
    at = _pick(parts, rng)
    if parts[at]:
        content = bytearray(parts[at])
        content[rng.randrange(min(len(content), rng.choice((1, 2, 9, 1000))))] ^= 1 << rng.randrange(8)
        parts[at] = bytes(content)


def set_a_byte(parts: Parts, rng: random.Random) -> None:
    at = _pick(parts, rng)
    if parts[at]:
        content = bytearray(parts[at])
        content[rng.randrange(min(len(content), rng.choice((1, 2, 9, 1000))))] = rng.choice((0, 1, 2, 3, 4, 6, 8, 255))
        parts[at] = bytes(content)


def cut_a_part(parts: Parts, rng: random.Random) -> None:
    at = _pick(parts, rng)
    parts[at] = parts[at][: rng.randrange(len(parts[at]) + 1)]


def drop_a_part(parts: Parts, rng: random.Random) -> None:
    del parts[_pick(parts, rng)]


def repeat_a_part(parts: Parts, rng: random.Random) -> None:
    parts.insert(rng.randrange(len(parts) + 1), parts[_pick(parts, rng)])


def swap_two_parts(parts: Parts, rng: random.Random) -> None:
    one, other = _pick(parts, rng), _pick(parts, rng)
    parts[one], parts[other] = parts[other], parts[one]


def insert_noise(parts: Parts, rng: random.Random) -> None:
    parts.insert(rng.randrange(len(parts) + 1), rng.randbytes(rng.choice((1, 2, 9, 64))))


def insert_a_command(parts: Parts, rng: random.Random) -> None:
    parts.insert(rng.randrange(len(parts) + 1), any_command(rng))


def end_early(parts: Parts, rng: random.Random) -> None:
    stream = b"".join(parts)
    parts[:] = [stream[: rng.randrange(len(stream) + 1)]]


def greet_otherwise(parts: Parts, rng: random.Random) -> None:
    parts[0] = greeting(rng.randrange(6), rng.randrange(3), rng.choice((b"NULL", b"NULL", b"PLAIN")))


MUTATIONS: tuple[Callable[[Parts, random.Random], None], ...] = (
    flip_a_bit,
    flip_a_bit,
    set_a_byte,
    set_a_byte,
    cut_a_part,
    drop_a_part,
    repeat_a_part,
    swap_two_parts,
    insert_noise,
    insert_a_command,
    end_early,
    greet_otherwise,
)


def damaged(source: Conversation, rng: random.Random) -> Conversation:
    """Return a damaged copy."""
    parts = list(source.parts)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if parts:
            rng.choice(MUTATIONS)(parts, rng)
    return Conversation(source.ours, source.limits, tuple(parts))


# -- what must hold ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a connection made of bytes."""

    events: list[Event]
    output: bytes
    is_ready: bool
    is_closed: bool


def outcome(ours: SocketType, limits: Limits, pieces: list[bytes]) -> Outcome:
    connection = Connection(ours, b"us", limits)
    events = received(connection, pieces)
    return Outcome(events, connection.take_output(), connection.is_ready, connection.is_closed)


def random_chunks(data: bytes, rng: random.Random) -> list[bytes]:
    """Cut bytes anywhere, into pieces that are mostly small; some are empty."""
    pieces = []
    widest = rng.choice((1, 2, 3, 12, 70, 1000))
    at = 0
    while at < len(data):
        size = rng.randrange(widest + 1) if rng.random() < 0.1 else rng.randint(1, widest)
        pieces.append(data[at : at + size])
        at += size
    return pieces


def summary(result: Outcome) -> str:
    """Return how a conversation went: the kind of violation, or how far it came."""
    last = result.events[-1] if result.events else None
    if isinstance(last, Violation):
        return "".join(letter for letter in last.reason.split(":")[0] if not letter.isdigit())[:40]
    if result.is_closed:
        return "refused by the peer"
    return "ready" if result.is_ready else "unfinished"
