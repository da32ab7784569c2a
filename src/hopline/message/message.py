"""The message: an immutable value. Whatever changes in transit (hops, trace, receivers) makes a new one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import IntEnum, IntFlag
from typing import Any, Self

import msgspec

from hopline.errors import ArgumentTypeError, LocalError
from hopline.message.flow_ids import new_flow_id
from hopline.message.identifier import MessageIdentifier, Version, as_bytes
from hopline.message.wire_format import WireFormat

# The correlation id of messages that belong to no flow: never empty, and never that of a flow.
NO_FLOW = b"00000000-0000-0000-0000-000000000000"

TICKS_PER_MICROSECOND = 10
_MICROSECOND = timedelta(microseconds=1)
_NOT_CONTENT = frozenset({"socket_identity", "wire_format"})


class Distribution(IntEnum):
    """To one receiver or to all. What the protocol calls "direct" is unicast with a receiver node."""

    UNICAST = 0
    BROADCAST = 1


class TraceOptions(IntFlag):
    """What nodes record in the message while they forward it."""

    NONE = 0
    ROUTING = 1


class RoutingEntry(msgspec.Struct, frozen=True, gc=False):
    """A node that the message passed: its address and its identity."""

    uri: str
    identity: bytes


class Message(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Everything that travels in one message. Empty bytes mean "not set".

    `distribution` and `trace_options` are plain integers, because a peer may send values that the enums do not have.
    `wire_format` is the format that the message was decoded from, and `socket_identity` the peer that a socket sends it
    to; neither is part of equality, because the same message may arrive in any format and over any socket.
    `extension` is a MessagePack map that only Hopline nodes read, such as a trace context: see `write_extension`.
    """

    identity: bytes
    version: Version = 1
    partition: bytes = b""
    bodies: tuple[bytes, ...] = (b"",)
    distribution: int = Distribution.UNICAST
    correlation_id: bytes = NO_FLOW
    ttl_ticks: int = 0
    trace_options: int = TraceOptions.NONE
    hops: int = 0
    receiver_identity: bytes = b""
    receiver_node_identity: bytes = b""
    callback_point: tuple[MessageIdentifier, ...] = ()
    callback_key: int = 0
    callback_receiver_identity: bytes = b""
    callback_receiver_node_identity: bytes = b""
    socket_identity: bytes = b""
    signature: bytes = b""
    domain: str = ""
    routing: tuple[RoutingEntry, ...] = ()
    extension: bytes = b""
    wire_format: WireFormat | None = None

    # -- construction -----------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        identity: str | bytes,
        body: bytes = b"",
        *,
        version: Version = 1,
        partition: str | bytes = b"",
        distribution: Distribution = Distribution.UNICAST,
        correlation_id: bytes = NO_FLOW,
        ttl: timedelta = timedelta(0),
    ) -> Self:
        """Return a message that starts no flow: a result, a service message, a broadcast."""
        return cls(
            identity=as_bytes(identity, "identity"),
            version=version,
            partition=as_bytes(partition, "partition"),
            bodies=(body,),
            distribution=distribution,
            correlation_id=correlation_id,
            ttl_ticks=ticks(ttl),
        )

    @classmethod
    def flow_start(
        cls,
        identity: str | bytes,
        body: bytes = b"",
        *,
        version: Version = 1,
        partition: str | bytes = b"",
        correlation_id: bytes | None = None,
        ttl: timedelta = timedelta(0),
    ) -> Self:
        """Return the first message of a flow: unicast, with a new correlation id unless one is given."""
        return cls.create(
            identity,
            body,
            version=version,
            partition=partition,
            correlation_id=new_flow_id() if correlation_id is None else correlation_id,
            ttl=ttl,
        )

    def clone(self, **changes: Any) -> Self:
        """Return a copy of the message with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def redirected(self, partition: str | bytes | None, version: Version | None) -> Self:
        """Return the message with another partition and another version, where they are given."""
        if partition is None and version is None:
            return self
        identifier = self.identifier.redirected(partition, version)
        return self.clone(version=identifier.version, partition=identifier.partition)

    # -- properties -------------------------------------------------------------------------------------------------

    @property
    def identifier(self) -> MessageIdentifier:
        """Identity, version and partition."""
        return MessageIdentifier(self.identity, self.version, self.partition)

    @property
    def body(self) -> bytes:
        """The first body frame, the only one that most writers ever send."""
        return self.bodies[0] if self.bodies else b""

    @property
    def ttl(self) -> timedelta:
        """The remaining lifetime; zero is no limit. `ttl_ticks` has the exact 100 ns count.

        Rounded away from zero to a microsecond, so that a lifetime that is nearly over does not become unlimited.
        """
        if self.ttl_ticks > 0:
            microseconds = -(-self.ttl_ticks // TICKS_PER_MICROSECOND)
        else:
            microseconds = self.ttl_ticks // TICKS_PER_MICROSECOND
        return _MICROSECOND * microseconds

    # -- receivers --------------------------------------------------------------------------------------------------

    def with_receiver_node(self, node: str | bytes) -> Self:
        """Return the message addressed to one node, for any actor there that handles it."""
        return self._addressed(node, b"")

    def with_receiver_actor(self, node: str | bytes, actor: bytes) -> Self:
        """Return the message addressed to one actor on one node."""
        return self._addressed(node, actor)

    def _addressed(self, node: str | bytes, receiver: bytes) -> Self:
        if self.distribution == Distribution.BROADCAST:
            raise LocalError("receiver_node_identity", "no receiver on a broadcast", node)
        return self.clone(receiver_node_identity=as_bytes(node, "receiver node"), receiver_identity=receiver)

    # -- callbacks --------------------------------------------------------------------------------------------------

    def register_callback_point(
        self, node: bytes, receiver: bytes, identifiers: Iterable[MessageIdentifier], key: int
    ) -> Self:
        """Return the message with a callback point: the hub that waits for some messages of this flow.

        It replaces a callback point that the message had. If this message is itself one of those waited for, it is
        addressed to the hub, whatever receiver it had. Messages are matched here only, never on arrival.

        Args:
            node: The node of the hub.
            receiver: The hub.
            identifiers: The messages that the hub waits for.
            key: The number of the promise at the hub.
        """
        callback_point = tuple(identifiers)
        if self.identifier in callback_point:
            receivers = {"receiver_identity": receiver, "receiver_node_identity": node}
        else:
            receivers = {}
        return self.clone(
            callback_receiver_node_identity=node,
            callback_receiver_identity=receiver,
            callback_point=callback_point,
            callback_key=key,
            **receivers,
        )

    def without_callback(self, identifier: MessageIdentifier) -> Self:
        """Return the message without the first callback that equals `identifier`; itself if it has none."""
        if identifier not in self.callback_point:
            return self
        at = self.callback_point.index(identifier)
        return self.clone(callback_point=self.callback_point[:at] + self.callback_point[at + 1 :])

    # -- in transit -------------------------------------------------------------------------------------------------

    def add_hop(self) -> Self:
        """Return the message with one hop more."""
        return self.clone(hops=self.hops + 1)

    def push_router_address(self, uri: str, node: bytes) -> Self:
        """Return the message with a node appended to its trace."""
        return self.clone(routing=(*self.routing, RoutingEntry(uri, node)))

    # -- equality ---------------------------------------------------------------------------------------------------

    def _content(self) -> list[Any]:
        return [getattr(self, name) for name in self.__struct_fields__ if name not in _NOT_CONTENT]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._content() == other._content()

    def __ne__(self, other: object) -> bool:  # otherwise msgspec's own would compare identities
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self._content()))


def ticks(duration: timedelta) -> int:
    """Return a duration in the wire's unit of 100 ns."""
    if not isinstance(duration, timedelta):
        raise ArgumentTypeError("ttl", "a timedelta", duration)
    return duration // _MICROSECOND * TICKS_PER_MICROSECOND
