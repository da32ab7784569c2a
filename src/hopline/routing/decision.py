"""The routing decision: a function of the message and of what the node knows.

Theory of operation. A message goes to

* the receiver that it names, if it names one: on the node that it names, or where the receiver is known to be;
* every handler of its kind, if it is a broadcast; only the node where it started sends it to other nodes;
* one handler of its kind otherwise. Handlers on this node take turns, and so do nodes. A message that came from another
  node stays here if it can; else this node and the others are balanced.

`decide` is the whole rule. Nearly every message is one of four simple cases, which `fast_receiver` and `fast_node`
decide without building a `Decision`; they return None for everything else. The law that holds them together is tested
with random tables and messages: where a fast function returns an answer, `decide` returns the same one, and the tables
are the same afterwards (whose turn is next, who was used last).
"""

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

_BROADCAST = int(Distribution.BROADCAST)  # a constant: looking up the member of an enum is slow


@dataclass(slots=True)
class Tables:
    """What a node knows of receivers, here and on other nodes. Its own identity is empty if it has no network."""

    node_identity: bytes = b""
    internal: InternalTable = field(default_factory=InternalTable)
    external: ExternalTable = field(default_factory=ExternalTable)
    balance: Balance = field(default_factory=Balance)
    hop_limit: int = DEFAULT_HOP_LIMIT


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The receivers of a message: on this node, by node elsewhere, or none and the outcome."""

    local: tuple[bytes, ...] = ()
    remote: tuple[bytes, ...] = ()
    undeliverable: Outcome | None = None


_NO_ROUTE = Decision(undeliverable=Outcome.UNROUTABLE)
_HOP_LIMIT = Decision(undeliverable=Outcome.HOP_LIMIT)


def fast_receiver(message: Message, identifier: MessageIdentifier, tables: Tables) -> bytes | None:
    """Return the receiver of a message that stays on this node, and advance the turn of its handlers.

    Covers messages to a hub of this node, and messages that only actors of this node can get. Return None to fall back
    to `decide`.
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


def fast_node(message: Message, identifier: MessageIdentifier, tables: Tables) -> bytes | None:
    """Return the node that a message leaves for.

    Covers messages that name another node, and messages that only one other node handles, and no actor of this one.
    Return None to fall back to `decide`.
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
    """Return the receivers of a message, and advance the turns of those that were considered.

    Args:
        message: The message.
        tables: What the node knows; the order of turns in it changes.
        unreachable: Nodes to leave out, because sending to them failed.
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
    """Choose every local handler, and every other node if the message started here."""
    local = tuple(tables.internal.handlers(message.identifier) or ())
    if message.hops:
        return _local(local)
    nodes = tables.external.handlers(message.identifier) or ()
    remote = tuple(node for node in nodes if node not in unreachable)
    return Decision(local, remote) if local or remote else _NO_ROUTE


def _unicast(message: Message, tables: Tables, unreachable: Container[bytes]) -> Decision:
    """Choose one receiver: a local one if the message came from another node, else the least recently used."""
    local = _local_unicast(message, tables)
    if local and message.hops:
        return _local(local)
    remote = _remote_unicast(message, tables, unreachable)
    if not local:
        return _away(message, tables, remote)
    if not remote:
        return _local(local)
    is_local = tables.balance.pick(local[0], remote[0]) == local[0]
    return _local(local) if is_local else _away(message, tables, remote)


def _local_unicast(message: Message, tables: Tables) -> tuple[bytes, ...]:
    receiver, internal = message.receiver_identity, tables.internal
    if not receiver:
        ring = internal.handlers(message.identifier)
        return (ring.rotate(),) if ring is not None else ()
    if internal.has_hub(receiver):  # a hub takes any message
        return (receiver,)
    if message.wire_format is WireFormat.FIRST:  # it names receivers without their nodes
        return (receiver,) if internal.has_actor(receiver) else ()
    return (receiver,) if internal.handles(receiver, message.identifier) else ()


def _remote_unicast(message: Message, tables: Tables, unreachable: Container[bytes]) -> tuple[bytes, ...]:
    """Return the next node that handles a message; in the first format, the node of the receiver that it names."""
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
