"""What a domain is: a name, the keys that its members share, and the messages that belong to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from hopline.message import LocalError
from hopline.security.key import MIN_KEY_SIZE, Key, problem_of
from hopline.wire import MacAlgorithm

DEFAULT_WINDOW = 30.0
"""Seconds that a message may be under way, from its first node to its last, where replays are refused."""
DEFAULT_CLOCK_SKEW = 5.0
"""Seconds that the clocks of two nodes may differ, where replays are refused."""
DEFAULT_REPLAY_CAPACITY = 200_000
"""Messages that are remembered to refuse replays: about 20 MB a domain when full."""

_STRONG = frozenset({MacAlgorithm.SHA256, MacAlgorithm.SHA512})


class Profile(StrEnum):
    """What a signature covers. Every node of a domain must be set to the same."""

    REFERENCE = "reference"
    """The five fields that kino signs: what a domain that has kino nodes needs."""
    SEALED = "sealed"
    """Every field that does not change on the way, with a time and a nonce: for domains of Hopline nodes."""


@dataclass(frozen=True, slots=True, init=False)
class Domain:
    """A group of message identities whose members share keys.

    `keys`: the first one signs, each of them verifies. `identities` are in the domain in any version and partition.
    `unsigned` leaves the whole domain without signatures (True), or some identities; such a domain needs no keys.
    """

    name: str
    keys: tuple[Key, ...]
    identities: frozenset[bytes]
    algorithm: MacAlgorithm
    profile: Profile
    unsigned: bool | frozenset[bytes]
    refuse_replays: bool
    window: float
    clock_skew: float
    replay_capacity: int

    def __init__(
        self,
        name: str,
        keys: Key | bytes | Iterable[Key | bytes] = (),
        identities: Iterable[str | bytes] = (),
        *,
        algorithm: MacAlgorithm | str = MacAlgorithm.SHA256,
        profile: Profile | str = Profile.SEALED,
        unsigned: bool | Iterable[str | bytes] = False,
        refuse_replays: bool = False,
        window: float = DEFAULT_WINDOW,
        clock_skew: float = DEFAULT_CLOCK_SKEW,
        replay_capacity: int = DEFAULT_REPLAY_CAPACITY,
    ) -> None:
        made = keys_of(keys)
        del keys  # first of all: from here on no variable holds a secret, which a traceback could show
        if isinstance(made, LocalError):
            raise made
        values = {
            "name": name,
            "keys": made,
            "identities": frozenset(_identities("identities", identities)),
            "algorithm": _one_of(MacAlgorithm, "algorithm", algorithm),
            "profile": _one_of(Profile, "profile", profile),
            "unsigned": unsigned if isinstance(unsigned, bool) else frozenset(_identities("unsigned", unsigned)),
            "refuse_replays": refuse_replays,
            "window": window,
            "clock_skew": clock_skew,
            "replay_capacity": replay_capacity,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)
        self._validate()

    def _validate(self) -> None:
        if not isinstance(self.name, str):
            raise LocalError("name", "text", self.name)
        if self.unsigned is not True:
            if not self.name.strip():
                raise LocalError(
                    "name", "a name that is not blank, because messages of the domain are signed", self.name
                )
            if not self.keys:
                raise LocalError("keys", f"a key for domain {self.name!r}, or unsigned=True", "none")
        if self.profile is Profile.SEALED:
            self._validate_sealed()
        elif self.refuse_replays:
            raise LocalError("refuse_replays", "profile 'sealed', whose signatures have a time", str(self.profile))
        for field, smallest in (("window", 0.001), ("clock_skew", 0)):
            seconds = getattr(self, field)
            if not _is_number(seconds, (int, float)) or not seconds >= smallest:
                raise LocalError(field, f"seconds, at least {smallest}", seconds)
        if not _is_number(self.replay_capacity, int) or self.replay_capacity < 1:
            raise LocalError("replay_capacity", "a number of messages, at least 1", self.replay_capacity)
        if not isinstance(self.refuse_replays, bool):
            raise LocalError("refuse_replays", "True or False", self.refuse_replays)

    def _validate_sealed(self) -> None:
        if self.algorithm not in _STRONG:
            raise LocalError("algorithm", "sha256 or sha512 in profile 'sealed'", str(self.algorithm))
        for key in self.keys:
            if len(key) < MIN_KEY_SIZE:
                raise LocalError(
                    "keys", f"at least {MIN_KEY_SIZE} bytes a key in profile 'sealed'", f"{key} of {len(key)} bytes"
                )


def keys_of(keys: Key | bytes | Iterable[Key | bytes]) -> tuple[Key, ...] | LocalError:
    """Make keys of what is given, or give the error: raised from here, a traceback could show the variables."""
    given = (keys,) if isinstance(keys, (Key, bytes, str)) else tuple(keys)
    for key in given:
        problem = None if isinstance(key, Key) else problem_of(key)
        if problem:
            return problem
    made = tuple(key if isinstance(key, Key) else Key(key) for key in given)
    if len(set(made)) != len(made):
        return LocalError("keys", "each key once", ", ".join(key.fingerprint for key in made))
    return made


def _identities(field: str, identities: Iterable[str | bytes]) -> list[bytes]:
    if isinstance(identities, (str, bytes)):  # whose letters would all be identities
        raise LocalError(field, "several identities, such as a list", identities)
    given: list[bytes] = []
    for identity in identities:
        given.append(identity.encode() if isinstance(identity, str) else identity)
        if not identity or not isinstance(identity, (str, bytes)):
            raise LocalError(field, "identities of at least one byte, as text or bytes", identity)
    if len(set(given)) != len(given):
        raise LocalError(field, "each identity once", given)
    return given


def _is_number(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


_Choice = TypeVar("_Choice", bound=StrEnum)


def _one_of(kind: type[_Choice], field: str, value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise LocalError(field, f"one of {', '.join(kind)}", value) from None
