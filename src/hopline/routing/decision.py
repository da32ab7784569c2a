"""The routing decision: a function of the message and of what is known."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

import msgspec

from hopline.message import Distribution, Message, MessageIdentifier, WireFormat
from hopline.routing.balance import Balance
from hopline.routing.external import ExternalTable
from hopline.routing.internal import InternalTable
from hopline.routing.outcome import Outcome

DEFAULT_HOP_LIMIT = 32

_BROADCAST = int(Distribution.BROADCAST)  # looking up a member of an enum takes its time


@dataclass(slots=True)
class Tables:
    """What a node knows. Its own identity is empty when it stands alone."""

    node_identity: bytes = b""
    internal: InternalTable = field(default_factory=InternalTable)
    external: ExternalTable = field(default_factory=ExternalTable)
    balance: Balance = field(default_factory=Balance)
    hop_limit: int = DEFAULT_HOP_LIMIT


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Who gets the message: receivers on this node, other nodes, or nobody and why."""

    local: tuple[bytes, ...] = ()
    remote: tuple[bytes, ...] = ()
    undeliverable: Outcome | None = None


_NO_ROUTE = Decision(undeliverable=Outcome.UNROUTABLE)
_HOP_LIMIT = Decision(undeliverable=Outcome.HOP_LIMIT)


def sole_receiver(message: Message, identifier: MessageIdentifier, tables: Tables) -> bytes | None:
    """Give the local receiver, and the next one its turn, in the two cases that nearly every message is that stays.

    It goes home to a hub of this node, or to an actor while no other node would do. None means to `decide`.
    """
    node, receiver = message.receiver_node_identity, message.receiver_identity
    if node:
        has_hub = tables.internal.has_hub
        return receiver if node == tables.node_identity and has_hub(receiver) else None
    if receiver or message.distribution == _BROADCAST:
        return None
    handlers, handlers_elsewhere = tables.internal.handlers, tables.external.handlers
    ring = handlers(identifier)
    if ring is None or not (message.hops or handlers_elsewhere(identifier) is None):
        return None
    return ring.only or ring.rotate()


def sole_node(message: Message, identifier: MessageIdentifier, tables: Tables) -> bytes | None:
    """Give the other node, in the two cases that nearly every message is that leaves.

    Its receiver is there, or no other node handles it, nor does this one. None means to `decide`.
    """
    node: bytes | None = message.receiver_node_identity
    external = tables.external
    if node:
        is_known = external.is_known
        if node == tables.node_identity or not is_known(node):
            return None
    else:
        handlers, handlers_elsewhere = tables.internal.handlers, external.handlers
        ring = handlers_elsewhere(identifier)
        if ring is None or message.receiver_identity or message.distribution == _BROADCAST or handlers(identifier):
            return None
        node = ring.only
    return node if message.hops < tables.hop_limit else None


def decide(message: Message, tables: Tables, *, unreachable: Container[bytes] = ()) -> Decision:
    """Decide who gets a message, and give the next one its turn.

    `unreachable` are nodes that were tried in vain: asking again leaves them out, which is how a failed sending goes on
    to the next node.
    """
    node = message.receiver_node_identity
    if node:
        if node == tables.node_identity:
            return _local(_local_unicast(message, tables))
        reachable = node in tables.external and node not in unreachable
        return _away(message, tables, (node,) if reachable else ())
    if not message.receiver_identity and message.distribution == _BROADCAST:
        return _broadcast(message, tables, unreachable)
    return _unicast(message, tables, unreachable)


def _broadcast(message: Message, tables: Tables, unreachable: Container[bytes]) -> Decision:
    """Deliver to every local actor; only the node where it started sends it to the others."""
    local = tuple(tables.internal.handlers(message.identifier) or ())
    if message.hops:
        return _local(local)
    nodes = tables.external.handlers(message.identifier) or ()
    remote = tuple(node for node in nodes if node not in unreachable)
    return Decision(local, remote) if local or remote else _NO_ROUTE


def _unicast(message: Message, tables: Tables, unreachable: Container[bytes]) -> Decision:
    """Deliver to one: the local one if the message comes from elsewhere, else whoever was used least recently."""
    local = _local_unicast(message, tables)
    remote = _remote_unicast(message, tables, unreachable)
    if local and remote and not message.hops:
        is_local = tables.balance.pick(local[0], remote[0]) == local[0]
        return _local(local) if is_local else _away(message, tables, remote)
    return _local(local) if local else _away(message, tables, remote)


def _local_unicast(message: Message, tables: Tables) -> tuple[bytes, ...]:
    receiver, internal = message.receiver_identity, tables.internal
    if not receiver:
        ring = internal.handlers(message.identifier)
        return (ring.rotate(),) if ring is not None else ()
    if internal.has_hub(receiver):  # a hub takes any message
        return (receiver,)
    if message.wire_format is WireFormat.FIRST:  # whose receiver is found by its identity alone
        return (receiver,) if internal.has_actor(receiver) else ()
    return (receiver,) if internal.handles(receiver, message.identifier) else ()


def _remote_unicast(message: Message, tables: Tables, unreachable: Container[bytes]) -> tuple[bytes, ...]:
    """Find a node: by the message, and for the first format by the receiver, which its messages have no node for."""
    if message.wire_format is WireFormat.FIRST and message.receiver_identity:
        home = tables.external.home_of(message.receiver_identity)
        return (home,) if home is not None and home not in unreachable else ()
    ring = tables.external.handlers(message.identifier)
    if ring is not None:
        for _ in range(len(ring)):
            node = ring.rotate()
            if node not in unreachable:
                return (node,)
    return ()


def _local(receivers: tuple[bytes, ...]) -> Decision:
    return Decision(local=receivers) if receivers else _NO_ROUTE


def _away(message: Message, tables: Tables, nodes: tuple[bytes, ...]) -> Decision:
    if not nodes:
        return _NO_ROUTE
    return Decision(remote=nodes) if message.hops < tables.hop_limit else _HOP_LIMIT
