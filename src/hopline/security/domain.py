"""The definition of a domain: a name, the keys that its members share, and the messages that belong to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from hopline.checks import Range, require, require_flag, require_numbers
from hopline.errors import ArgumentError, ArgumentTypeError
from hopline.security.key import MIN_KEY_SIZE, Key, problem_of
from hopline.wire import MacAlgorithm

DEFAULT_WINDOW = 30.0
"""Seconds between signing a message and receiving it, at most, where replays are refused."""
DEFAULT_CLOCK_SKEW = 5.0
"""Seconds that the clocks of two nodes may differ, where replays are refused."""
DEFAULT_REPLAY_CAPACITY = 200_000
"""Messages that the replay cache of a domain holds: about 20 MB when full."""

STRONG_ALGORITHMS = frozenset({MacAlgorithm.SHA256, MacAlgorithm.SHA512})
"""The algorithms that profile `sealed` accepts."""


class Profile(StrEnum):
    """What a signature covers. All nodes of a domain must use the same profile."""

    REFERENCE = "reference"
    """The five fields that kino signs: for domains that have kino nodes."""
    SEALED = "sealed"
    """Every field that does not change in transit, with a time and a nonce: for domains of Hopline nodes only."""


@dataclass(frozen=True, slots=True, init=False)
class Domain:
    """A group of message identities, and the keys that its members share.

    Args:
        name: The label that messages of the domain carry.
        keys: The first one signs, each of them verifies.
        identities: The messages that belong to the domain, in any version and partition.
        algorithm: The hash of the signatures. Profile `sealed` needs ``sha256`` or ``sha512``.
        profile: What signatures cover.
        unsigned: True for a domain without signatures, which needs no keys; or the identities that are not signed.
        refuse_replays: Whether a message that was received before is refused. Needs profile `sealed`.
        window: Seconds between signing a message and receiving it, at most, where replays are refused.
        clock_skew: Seconds that the clocks of two nodes may differ, where replays are refused.
        replay_capacity: Messages that are remembered to refuse replays.

    Raises:
        ArgumentError: A value cannot be used, or two do not fit together.
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
        del keys  # from here on no variable holds a secret that a traceback could show
        if isinstance(made, ArgumentError):
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
            raise ArgumentTypeError("name", "text", self.name)
        require_numbers(self, _ACCEPTED)
        require(isinstance(self.replay_capacity, int), "replay_capacity", "a whole number", self.replay_capacity)
        require_flag("refuse_replays", self.refuse_replays)
        if self.unsigned is not True:
            is_named = bool(self.name.strip())
            require(is_named, "name", "a name that is not blank, because messages of the domain are signed", self.name)
            require(bool(self.keys), "keys", f"a key for domain {self.name!r}, or unsigned=True", "none")
        if self.profile is Profile.SEALED:
            self._validate_sealed()
        else:
            expected = "profile 'sealed', whose signatures have a time"
            require(not self.refuse_replays, "refuse_replays", expected, str(self.profile))

    def _validate_sealed(self) -> None:
        is_strong = self.algorithm in STRONG_ALGORITHMS
        require(is_strong, "algorithm", "sha256 or sha512 in profile 'sealed'", str(self.algorithm))
        for key in self.keys:
            is_long = len(key) >= MIN_KEY_SIZE
            expected = f"at least {MIN_KEY_SIZE} bytes a key in profile 'sealed'"
            require(is_long, "keys", expected, f"{key} of {len(key)} bytes")


_ACCEPTED = {
    "window": Range(0.001, allows_infinity=True),
    "clock_skew": Range(0, allows_infinity=True),
    "replay_capacity": Range(1),
}


def keys_of(keys: Key | bytes | Iterable[Key | bytes]) -> tuple[Key, ...] | ArgumentError:
    """Return the keys, or the error: raised from here, its traceback could show the secrets."""
    secrets = (keys,) if isinstance(keys, (Key, bytes, str)) else tuple(keys)
    made: list[Key] = []
    for secret in secrets:
        if isinstance(secret, Key):
            made.append(secret)
            continue
        problem = problem_of(secret)
        if problem:
            return problem
        made.append(Key(secret))
    if len(set(made)) != len(made):
        fingerprints = ", ".join(key.fingerprint for key in made)
        return ArgumentError("keys", "each key once", fingerprints)
    return tuple(made)


def _identities(field: str, identities: Iterable[str | bytes]) -> list[bytes]:
    if isinstance(identities, (str, bytes)):  # iterating over it would make an identity of each letter
        raise ArgumentTypeError(field, "several identities, such as a list", identities)
    encoded: list[bytes] = []
    for identity in identities:
        if not identity or not isinstance(identity, (str, bytes)):
            raise ArgumentError(field, "identities of at least one byte, as text or bytes", identity)
        encoded.append(identity.encode() if isinstance(identity, str) else identity)
    require(len(set(encoded)) == len(encoded), field, "each identity once", encoded)
    return encoded


_Choice = TypeVar("_Choice", bound=StrEnum)


def _one_of(kind: type[_Choice], field: str, value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise ArgumentError(field, f"one of {', '.join(kind)}", value) from None
