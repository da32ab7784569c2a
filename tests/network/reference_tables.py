"""The routing tables of a node of the reference: what announcements and withdrawals were seen to do to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from .frames import Fields
from .protobuf_fields import protobuf_fields

_ACTOR = 0x01


def _one(body: bytes, tag: int) -> bytes:
    value = dict(protobuf_fields(body)).get(tag, b"")
    assert isinstance(value, bytes)
    return value


def _routes(body: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Return each receiver with the identities of its messages."""
    for tag, route in protobuf_fields(body):
        if tag == 3 and isinstance(route, bytes):
            contracts = [one for inner, one in protobuf_fields(route) if inner == 2 and isinstance(one, bytes)]
            yield _one(route, 1), [_one(contract, 2) for contract in contracts]


class ReferenceTables:
    """The external routing table of the reference, with its weakness.

    A withdrawal that names an actor takes the node out of a message's list only for the actor's last message. Nothing
    takes it out of the other lists any more, not even the goodbye of the node, which goes by what its actors handle.
    """

    def __init__(self) -> None:
        self.addresses: dict[bytes, str] = {}
        self._actors: dict[bytes, dict[bytes, list[bytes]]] = {}
        self._hubs: dict[bytes, set[bytes]] = {}
        self._nodes: dict[bytes, deque[bytes]] = {}  # by message, in turn

    def take(self, message: Fields) -> None:
        """Take a message about routes."""
        node = _one(message.body, 2)
        if message.identity == b"KINO.REGEXTROUTE":
            self._register(node, message.body)
        elif message.identity == b"KINO.UNREGMSGROUTE":
            for receiver, identities in _routes(message.body):
                self._withdraw(node, receiver, identities)
        elif message.identity == b"KINO.UNREGNODE":
            self._forget(node)

    def _register(self, node: bytes, body: bytes) -> None:
        self.addresses[node] = _one(body, 1).decode()
        for receiver, identities in _routes(body):
            if receiver[0] != _ACTOR:
                self._hubs.setdefault(node, set()).add(receiver)
                continue
            handled = self._actors.setdefault(node, {}).setdefault(receiver, [])
            for identity in identities:
                if identity not in handled:
                    handled.append(identity)
                if node not in self._nodes.setdefault(identity, deque()):
                    self._nodes[identity].append(node)

    def _withdraw(self, node: bytes, receiver: bytes, identities: list[bytes]) -> None:
        actors = self._actors.get(node, {})
        for identity in identities:
            if not receiver:
                for handled in actors.values():
                    if identity in handled:
                        handled.remove(identity)
                self._unlist(node, identity)
            elif receiver in actors and identity in actors[receiver]:
                actors[receiver].remove(identity)
                if not actors[receiver]:
                    self._unlist(node, identity)
        self._hubs.get(node, set()).discard(receiver)

    def _forget(self, node: bytes) -> None:
        for handled in self._actors.pop(node, {}).values():
            for identity in handled:
                self._unlist(node, identity)
        self._hubs.pop(node, None)
        self.addresses.pop(node, None)

    def _unlist(self, node: bytes, identity: bytes) -> None:
        if node in self._nodes.get(identity, ()):
            self._nodes[identity].remove(node)

    def knows_hub_of(self, node: bytes) -> bool:
        """Return whether an answer to a hub of the node would be sent; one to an unknown hub is dropped."""
        return node in self.addresses and bool(self._hubs.get(node))

    def nodes_for(self, identity: bytes) -> list[bytes]:
        """Return the nodes in a message's list, dead ones too."""
        return list(self._nodes.get(identity, ()))

    def pick(self, identity: bytes) -> tuple[bytes, str]:
        """Return the node whose turn it is, and its address. Raise `KeyError` for one that is gone: a lost message."""
        nodes = self._nodes[identity]
        node = nodes[0]
        nodes.rotate(-1)
        return node, self.addresses[node]
