"""What a contender is asked, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

SEQUENTIAL, PIPELINED, ONE_WAY = "sequential", "1,000 in flight", "one way"
MEASURES = (SEQUENTIAL, PIPELINED, ONE_WAY)
IN_FLIGHT = 1_000

Options = Mapping[str, str]
Addresses = Mapping[str, str]  # of the roles that run already
Channel = Connection  # to the one who measures


@dataclass(frozen=True)
class Contender:
    """One way to ask an actor, or whatever comes close, in another process.

    Its `module` has the functions that `roles` names, which take a channel, the addresses of the roles before, and the
    options. Each first sends its own address (or an empty text); the last is the client, which then carries out orders.
    """

    name: str
    module: str
    roles: tuple[str, ...] = ("server", "client")
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """What to measure, with bodies of so many bytes, for so many seconds."""

    measure: str
    size: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """How much both nodes are to record from now on; what they recorded before is wholly written then."""

    level: str


@dataclass(frozen=True)
class Taken:
    """How long a message took. One after the other: half of them, and all but one in a hundred, took at most that."""

    seconds: float
    p99: float = 0.0


@dataclass(frozen=True)
class Failed:
    """Why a process could not do its part."""

    reason: str


def check(count: int, expected: int, what: str) -> None:
    """Insist that nothing was lost or doubled."""
    if count != expected:
        raise AssertionError(f"{count:,} {what} of {expected:,}")
