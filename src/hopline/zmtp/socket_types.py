"""The kinds of sockets that this protocol knows, and which of them may talk to each other."""

from __future__ import annotations

from enum import Enum


class SocketType(Enum):
    """What a peer is: the name that ZMTP 3.x sends, and the number that ZMTP 2.0 sends."""

    # RFC 15, "The Socket Type": one octet.      RFC 23, "The READY command": the property Socket-Type.
    PAIR = (0, b"PAIR")
    PUB = (1, b"PUB")
    SUB = (2, b"SUB")
    REQ = (3, b"REQ")
    REP = (4, b"REP")
    DEALER = (5, b"DEALER")
    ROUTER = (6, b"ROUTER")
    PULL = (7, b"PULL")
    PUSH = (8, b"PUSH")
    XPUB = (9, b"XPUB")
    XSUB = (10, b"XSUB")

    @property
    def number(self) -> int:
        """Return the type in the greeting of ZMTP 2.0."""
        return self.value[0]

    @property
    def wire_name(self) -> bytes:
        """Return the type in the READY command of ZMTP 3.x."""
        return self.value[1]

    def can_talk_to(self, other: SocketType) -> bool:
        """Return whether a socket of this type may be connected to one of the other type."""
        return other in _PARTNERS[self]


# RFC 23, "Socket Type Property": combinations that are not listed must be refused by both sides.
_PARTNERS: dict[SocketType, frozenset[SocketType]] = {
    SocketType.PAIR: frozenset({SocketType.PAIR}),
    SocketType.PUB: frozenset({SocketType.SUB, SocketType.XSUB}),
    SocketType.SUB: frozenset({SocketType.PUB, SocketType.XPUB}),
    SocketType.REQ: frozenset({SocketType.REP, SocketType.ROUTER}),
    SocketType.REP: frozenset({SocketType.REQ, SocketType.DEALER}),
    SocketType.DEALER: frozenset({SocketType.REP, SocketType.DEALER, SocketType.ROUTER}),
    SocketType.ROUTER: frozenset({SocketType.REQ, SocketType.DEALER, SocketType.ROUTER}),
    SocketType.PULL: frozenset({SocketType.PUSH}),
    SocketType.PUSH: frozenset({SocketType.PULL}),
    SocketType.XPUB: frozenset({SocketType.SUB, SocketType.XSUB}),
    SocketType.XSUB: frozenset({SocketType.PUB, SocketType.XPUB}),
}

BY_NUMBER = {socket_type.number: socket_type for socket_type in SocketType}
BY_NAME = {socket_type.wire_name: socket_type for socket_type in SocketType}
