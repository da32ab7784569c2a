"""The first bytes of a connection, by which two peers find the newest version that both speak."""

from __future__ import annotations

from enum import Enum


class Version(Enum):
    """A version of the protocol that is spoken here."""

    V2_0 = "2.0"
    V3_0 = "3.0"
    V3_1 = "3.1"

    @property
    def has_commands(self) -> bool:
        """Return whether frames may be commands."""
        return self is not Version.V2_0

    @property
    def has_heartbeats(self) -> bool:
        """Return whether the peer knows PING, and SUBSCRIBE and CANCEL as commands (RFC 37)."""
        return self is Version.V3_1


# RFC 23, "The Greeting": ten bytes of signature that no ZMTP 1.0 peer takes for a short frame. The eight in the middle
# are padding; older implementations write the size of their identity there.
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
SIGNATURE_START = 0xFF
SIGNATURE_END = 9  # the index of its last byte, whose lowest bit is set
MAJOR = 10  # the index of the version's first byte; called revision in ZMTP 2.0 (RFC 15)
MAJOR_3 = 3
REVISION_2_0 = 1

# A peer may send no more than this before it knows the other's version: what follows depends on it.
OPENING = SIGNATURE + bytes((MAJOR_3,))

# ZMTP 3.x goes on with the minor version, the mechanism (20 bytes, padded with zeros), as-server and 31 filler bytes.
_MINOR = 11
_MECHANISM = slice(12, 32)
_NULL = b"NULL".ljust(20, b"\0")
SIZE_3 = 64
REST_3 = b"\x01" + _NULL + b"\0" + bytes(31)

# ZMTP 2.0 goes on with the type of the socket, and a frame that holds the identity.
SOCKET_TYPE_2_0 = 11
SIZE_2_0 = 12


class GreetingError(Exception):
    """The peer's greeting is none that can be answered."""


def check_opening(data: bytes) -> None:
    """Raise `GreetingError` as soon as the first bytes cannot be the beginning of a greeting."""
    if data and data[0] != SIGNATURE_START:
        raise GreetingError("this is not ZMTP, or ZMTP 1.0")
    if len(data) > SIGNATURE_END and not data[SIGNATURE_END] & 1:
        raise GreetingError("this is ZMTP 1.0, which is too old")
    if len(data) > MAJOR and data[MAJOR] < REVISION_2_0:
        raise GreetingError("this is ZMTP 1.0, which is too old")


def version_of(greeting: bytes) -> Version:
    """Return the version to speak with the sender of a whole greeting of ZMTP 3.x."""
    if greeting[_MECHANISM] != _NULL:
        raise GreetingError("the security mechanism is not NULL")
    return Version.V3_0 if greeting[MAJOR] == MAJOR_3 and greeting[_MINOR] == 0 else Version.V3_1
