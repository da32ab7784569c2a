"""The routing decision: a function of the message and of what the node knows.

Theory of operation. A message goes to

* the receiver that it names, if it names one: on the node that it names, or where the receiver is known to be;
* every handler of its kind, if it is a broadcast; only the node where it started sends it to other nodes;
* one handler of its kind otherwise. Handlers on this node take turns, and so do nodes. A message that came from another
  node stays here if it can; else this node and the others are balanced.

`decide` is the whole rule. Nearly every message is one of four simple cases, which `fast_receiver` and `fast_node`
decide without building a `Decision`; they return None for everything else. The law that holds them together is tested
with random tables and messages: where a fast function returns an answer, `decide` returns the same one, and the tables
are the same afterwards (whose turn is next, which destination was used last). Both run for every message, and therefore
bind the tables' lookups to local names before they call them: calling an attribute of an instance is slower.
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
    node = message.receiver_node_identity
    receiver = message.receiver_identity
    if node:
        if node != tables.node_identity:
            return None
        has_hub = tables.internal.has_hub
        return receiver if has_hub(receiver) else None
    if receiver or message.distribution == _BROADCAST:
        return None
    handlers = tables.internal.handlers
    ring = handlers(identifier)
    if ring is None:
        return None
    handlers_elsewhere = tables.external.handlers
    if not message.hops and handlers_elsewhere(identifier) is not None:
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
        handlers_elsewhere = external.handlers
        ring = handlers_elsewhere(identifier)
        if ring is None or message.receiver_identity:
            return None
        handlers = tables.internal.handlers
        if message.distribution == _BROADCAST or handlers(identifier):
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
        if node not in tables.external or node in unreachable:
            return _NO_ROUTE
        return _away(message, tables, (node,))
    is_broadcast = message.distribution == _BROADCAST
    if is_broadcast and not message.receiver_identity:
        return _broadcast(message, tables, unreachable)
    return _unicast(message, tables, unreachable)


def _broadcast(message: Message, tables: Tables, unreachable: Container[bytes]) -> Decision:
    """Choose every local handler, and every other node if the message started here."""
    identifier = message.identifier
    actors = tables.internal.handlers(identifier) or ()
    local = tuple(actors)
    if message.hops:
        return _local(local)
    nodes = tables.external.handlers(identifier) or ()
    remote = tuple(node for node in nodes if node not in unreachable)
    if not local and not remote:
        return _NO_ROUTE
    return Decision(local, remote)


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
    (receiver,) = local
    (node,) = remote
    destination = tables.balance.pick(receiver, node)
    if destination == receiver:
        return _local(local)
    return _away(message, tables, remote)


def _local_unicast(message: Message, tables: Tables) -> tuple[bytes, ...]:
    """Return the receiver on this node that a message names, or the next of its handlers here; empty if none is."""
    receiver = message.receiver_identity
    internal = tables.internal
    if not receiver:
        ring = internal.handlers(message.identifier)
        if ring is None:
            return ()
        return (ring.rotate(),)
    if internal.has_hub(receiver):  # a hub takes any message
        return (receiver,)
    if message.wire_format is WireFormat.FIRST:  # it names receivers without their nodes
        is_here = internal.has_actor(receiver)
    else:
        is_here = internal.handles(receiver, message.identifier)
    return (receiver,) if is_here else ()


def _remote_unicast(
    message: Message,
    tables: Tables,
    unreachable: Container[bytes],
) -> tuple[bytes, ...]:
    """Return the next node that handles a message; in the first format, the node of the receiver that it names."""
    external = tables.external
    receiver = message.receiver_identity
    if receiver and message.wire_format is WireFormat.FIRST:
        home = external.home_of(receiver)
        if home is None or home in unreachable:
            return ()
        return (home,)
    ring = external.handlers(message.identifier)
    if ring is None:
        return ()
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
    if message.hops >= tables.hop_limit:
        return _HOP_LIMIT
    return Decision(remote=nodes)
