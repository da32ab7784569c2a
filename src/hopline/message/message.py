"""The message: a value. What changes on its way (hops, trace, receivers) changes by making a new one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import IntEnum, IntFlag
from typing import Any, Self

import msgspec

from hopline.message.errors import LocalError
from hopline.message.flow_ids import new_flow_id
from hopline.message.identifier import MessageIdentifier, Version
from hopline.message.wire_format import WireFormat

# What `Message.create` puts where a flow start has its own GUID: never empty, and never a flow.
NO_FLOW = b"00000000-0000-0000-0000-000000000000"

TICKS_PER_MICROSECOND = 10
_MICROSECOND = timedelta(microseconds=1)
_NOT_CONTENT = frozenset({"socket_identity", "wire_format"})


class Distribution(IntEnum):
    """Who gets the message. "Direct" is unicast with a receiver node."""

    UNICAST = 0
    BROADCAST = 1


class TraceOptions(IntFlag):
    """What to record on the way."""

    NONE = 0
    ROUTING = 1


class RoutingEntry(msgspec.Struct, frozen=True, gc=False):
    """One router that the message passed: where it listens and who it is."""

    uri: str
    identity: bytes


class Message(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Everything that travels in one message. Empty bytes mean "not set".

    `distribution` and `trace_options` keep values that no enum names, because the wire may carry them.
    `wire_format` is the format that the message was read from, and `socket_identity` where a socket sends it next;
    neither is part of equality, because the same message may come in any format and over any socket.
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

    # -- making one -------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        identity: bytes,
        body: bytes = b"",
        *,
        version: Version = 1,
        partition: bytes = b"",
        distribution: Distribution = Distribution.UNICAST,
        correlation_id: bytes = NO_FLOW,
        ttl: timedelta = timedelta(0),
    ) -> Self:
        """Make a message that starts no flow of its own: a result, a service message, a broadcast."""
        return cls(
            identity=identity,
            version=version,
            partition=partition,
            bodies=(body,),
            distribution=distribution,
            correlation_id=correlation_id,
            ttl_ticks=ticks(ttl),
        )

    @classmethod
    def flow_start(
        cls,
        identity: bytes,
        body: bytes = b"",
        *,
        version: Version = 1,
        partition: bytes = b"",
        correlation_id: bytes | None = None,
        ttl: timedelta = timedelta(0),
    ) -> Self:
        """Make the first message of a flow: always unicast, with a correlation id of its own unless one is given."""
        return cls.create(
            identity,
            body,
            version=version,
            partition=partition,
            correlation_id=new_flow_id() if correlation_id is None else correlation_id,
            ttl=ttl,
        )

    def clone(self, **changes: Any) -> Self:
        """Copy the message with some fields changed. Nothing of the copy is shared that could change."""
        return msgspec.structs.replace(self, **changes)

    # -- what it says -----------------------------------------------------------------------------------------------

    @property
    def identifier(self) -> MessageIdentifier:
        """The kind of this message."""
        return MessageIdentifier(self.identity, self.version, self.partition)

    @property
    def body(self) -> bytes:
        """The first body frame, the only one that most writers ever send."""
        return self.bodies[0] if self.bodies else b""

    @property
    def ttl(self) -> timedelta:
        """The remaining lifetime; zero is no limit. `ttl_ticks` has the exact 100 ns count.

        It is rounded away from zero to a microsecond, so that what is nearly over is not taken for unlimited.
        """
        ticks, per_microsecond = self.ttl_ticks, TICKS_PER_MICROSECOND
        return _MICROSECOND * (-(-ticks // per_microsecond) if ticks > 0 else ticks // per_microsecond)

    # -- receivers --------------------------------------------------------------------------------------------------

    def with_receiver_node(self, node: bytes) -> Self:
        """Address one node; whoever handles the message there gets it."""
        return self._addressed(node, b"")

    def with_receiver_actor(self, node: bytes, actor: bytes) -> Self:
        """Address one actor on one node."""
        return self._addressed(node, actor)

    def _addressed(self, node: bytes, receiver: bytes) -> Self:
        if self.distribution == Distribution.BROADCAST:
            raise LocalError("receiver_node_identity", "no receiver on a broadcast", node)
        return self.clone(receiver_node_identity=node, receiver_identity=receiver)

    # -- callbacks --------------------------------------------------------------------------------------------------

    def register_callback_point(
        self, node: bytes, receiver: bytes, identifiers: Iterable[MessageIdentifier], key: int
    ) -> Self:
        """Say who waits for which messages of this flow, replacing whoever waited before.

        When this message is itself one of them it is addressed to the one who waits, over any receiver that it had.
        The list stays on the message: matching happens here only, never on arrival.
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
        """Drop the first callback that equals `identifier`; a message that has none comes back as it is."""
        if identifier not in self.callback_point:
            return self
        at = self.callback_point.index(identifier)
        return self.clone(callback_point=self.callback_point[:at] + self.callback_point[at + 1 :])

    # -- on the way -------------------------------------------------------------------------------------------------

    def add_hop(self) -> Self:
        """Count one more sending to another node."""
        return self.clone(hops=self.hops + 1)

    def push_router_address(self, uri: str, node: bytes) -> Self:
        """Append a router to the end of the trace."""
        return self.clone(routing=(*self.routing, RoutingEntry(uri, node)))

    # -- equality ---------------------------------------------------------------------------------------------------

    def _content(self) -> list[Any]:
        return [getattr(self, name) for name in self.__struct_fields__ if name not in _NOT_CONTENT]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._content() == other._content()

    def __ne__(self, other: object) -> bool:  # else msgspec's own would answer, which compares identities
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self._content()))


def ticks(duration: timedelta) -> int:
    """Count a duration in the wire's unit of 100 ns."""
    if not isinstance(duration, timedelta):
        raise LocalError("ttl", "a timedelta", duration)
    return duration // _MICROSECOND * TICKS_PER_MICROSECOND
