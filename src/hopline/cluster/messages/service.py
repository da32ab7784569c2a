"""The service messages: which exist, what each carries, and how to make and read one.

>>> from hopline.cluster.messages.service import UNREGISTER_NODE, read, service_message
>>> from hopline.cluster.messages.service_pb2 import UnregisterNode
>>> leaving = UnregisterNode(uri="tcp://10.0.0.1:5101", receiver_node_identity=b"node")
>>> read(service_message(UNREGISTER_NODE, leaving), UnregisterNode).uri
'tcp://10.0.0.1:5101'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cache, lru_cache
from typing import TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as Content

from hopline.cluster.messages.service_pb2 import (
    DiscoverMessageRoute,
    ExternalRoutes,
    Health,
    HeartBeat,
    InternalRoutes,
    LeaseAckRead,
    LeaseAckWrite,
    LeaseNackRead,
    LeaseNackWrite,
    LeaseRead,
    LeaseWrite,
    MessageContract,
    MessageRoutes,
    QuorumHeartBeat,
    RegisterExternalMessageRoute,
    RendezvousConfigurationChanged,
    RendezvousNotLeader,
    RequestClusterMessageRoutes,
    RequestMessageRoutes,
    RequestNodeMessageRoutes,
    RouteRegistration,
    UnregisterMessageRoute,
    UnregisterNode,
    UnregisterUnreachableNode,
)
from hopline.cluster.messages.timespan import to_timespan
from hopline.message import (
    MAX_VERSION,
    PROTOBUF,
    ArgumentError,
    Message,
    MessageIdentifier,
    PayloadError,
    ReceiverKind,
    receiver_kind,
)
from hopline.routing import Route

Kind = TypeVar("Kind", bound=Content)

_PREFIX = b"KINO."
_SHORT = 256  # bytes of an identifier that is worth sharing


def _named(name: bytes) -> MessageIdentifier:
    return MessageIdentifier(_PREFIX + name)


# Discovery, through the rendezvous server to every node.
REGISTER_ROUTE = _named(b"REGEXTROUTE")
UNREGISTER_ROUTE = _named(b"UNREGMSGROUTE")
UNREGISTER_NODE = _named(b"UNREGNODE")
REQUEST_CLUSTER_ROUTES = _named(b"REQCLUSTROUTES")
REQUEST_NODE_ROUTES = _named(b"REQNODEROUTES")
DISCOVER_ROUTE = _named(b"DISCOVMSGROUTE")
# Meant for use inside one process, but the reference accepts it from the network too. It is listed to be refused.
UNREGISTER_UNREACHABLE_NODE = _named(b"UNREGUNREACHABLENODE")

# Liveness and leadership.
HEARTBEAT = _named(b"HEARTBEAT")
NOT_LEADER = _named(b"RNDZVNOTLEADER")
RECONFIGURE = _named(b"RNDZVRECONFIG")
PING = _named(b"PING")
PONG = _named(b"PONG")

# Route queries, which an actor on every node answers when it is addressed by the node's identity.
REQUEST_MESSAGE_ROUTES = _named(b"REQMSGROUTES")
MESSAGE_ROUTES = _named(b"MSGROUTES")
REQUEST_EXTERNAL_ROUTES = _named(b"REQEXTROUTES")
EXTERNAL_ROUTES = _named(b"EXTROUTES")
REQUEST_INTERNAL_ROUTES = _named(b"REQINTROUTES")
INTERNAL_ROUTES = _named(b"INTROUTES")

# The synod of the rendezvous servers.
QUORUM_HEARTBEAT = _named(b"QUORUM-HEARTBEAT")
READ_LEASE = _named(b"READLEASE")
ACK_READ_LEASE = _named(b"ACKREADLEASE")
NACK_READ_LEASE = _named(b"NACKREADLEASE")
WRITE_LEASE = _named(b"WRITELEASE")
ACK_WRITE_LEASE = _named(b"ACKWRITELEASE")
NACK_WRITE_LEASE = _named(b"NACKWRITELEASE")

# Published by rendezvous servers only: accepted from anybody else, they could take a network over.
LEADER_MESSAGES = frozenset({HEARTBEAT, NOT_LEADER, RECONFIGURE, PONG})
# Control messages, which change or ask for routes. They mean the same whether published or sent directly.
SYNOD = frozenset(
    {
        QUORUM_HEARTBEAT,
        READ_LEASE,
        ACK_READ_LEASE,
        NACK_READ_LEASE,
        WRITE_LEASE,
        ACK_WRITE_LEASE,
        NACK_WRITE_LEASE,
    }
)
"""What the servers of a synod publish to each other."""

CONTROL = frozenset(
    {
        REGISTER_ROUTE,
        UNREGISTER_ROUTE,
        UNREGISTER_NODE,
        REQUEST_CLUSTER_ROUTES,
        REQUEST_NODE_ROUTES,
        DISCOVER_ROUTE,
    }
)

# The content of each; None is an empty body.
CATALOGUE: Mapping[MessageIdentifier, type[Content] | None] = {
    REGISTER_ROUTE: RegisterExternalMessageRoute,
    UNREGISTER_ROUTE: UnregisterMessageRoute,
    UNREGISTER_NODE: UnregisterNode,
    REQUEST_CLUSTER_ROUTES: RequestClusterMessageRoutes,
    REQUEST_NODE_ROUTES: RequestNodeMessageRoutes,
    DISCOVER_ROUTE: DiscoverMessageRoute,
    UNREGISTER_UNREACHABLE_NODE: UnregisterUnreachableNode,
    HEARTBEAT: HeartBeat,
    NOT_LEADER: RendezvousNotLeader,
    RECONFIGURE: RendezvousConfigurationChanged,
    PING: None,
    PONG: None,
    REQUEST_MESSAGE_ROUTES: RequestMessageRoutes,
    MESSAGE_ROUTES: MessageRoutes,
    REQUEST_EXTERNAL_ROUTES: None,
    EXTERNAL_ROUTES: ExternalRoutes,
    REQUEST_INTERNAL_ROUTES: None,
    INTERNAL_ROUTES: InternalRoutes,
    QUORUM_HEARTBEAT: QuorumHeartBeat,
    READ_LEASE: LeaseRead,
    ACK_READ_LEASE: LeaseAckRead,
    NACK_READ_LEASE: LeaseNackRead,
    WRITE_LEASE: LeaseWrite,
    ACK_WRITE_LEASE: LeaseAckWrite,
    NACK_WRITE_LEASE: LeaseNackWrite,
}


# -- messages ----------------------------------------------------------------------------------------------------------


def is_service(message: Message) -> bool:
    """Return whether a message is in the catalogue. Exceptions and receipts are not: they are for hubs."""
    return message.identity.startswith(_PREFIX) and message.identifier in CATALOGUE


def service_message(kind: MessageIdentifier, content: Content | None, *, domain: str = "") -> Message:
    """Return a service message: unicast, without a flow and without a limit of time.

    Raises:
        ArgumentError: The kind is not in the catalogue, or the content is of another kind.
    """
    if kind not in CATALOGUE:
        raise ArgumentError("kind", "one of the catalogue", kind)
    expected = CATALOGUE[kind]
    is_expected = content is None if expected is None else isinstance(content, expected)
    if not is_expected:
        raise ArgumentError(f"content of {kind}", expected.__name__ if expected else "None", content)
    body = b"" if content is None else content.SerializeToString()
    return Message(kind.identity, version=kind.version, partition=kind.partition, bodies=(body,), domain=domain)


def read(message: Message, cls: type[Kind]) -> Kind:
    """Return the content of a service message.

    Raises:
        PayloadError: The body is not a valid content of that kind.
    """
    return read_body(message.body, cls)


def read_body(body: bytes, cls: type[Kind]) -> Kind:
    """Return bytes as content, such as the owner's payload in a lease.

    Raises:
        PayloadError: The bytes are not a valid content of that kind.
    """
    content = PROTOBUF.decode(body, cls)
    damaged = _damaged_text(content)
    if damaged is not None:
        raise PayloadError(cls, f"{damaged} is not UTF-8", body)
    return content


def _damaged_text(content: Content) -> str | None:
    """Return the name of a text field that is not UTF-8, if there is one.

    protobuf's second syntax accepts any bytes in a text, and returns them in place of a str. Only fields that can
    contain text are visited, so that the many contracts of a registration cost nothing.
    """
    for field in _fields_with_text(content.DESCRIPTOR):
        value = getattr(content, field.name)
        if field.message_type is None:
            if not isinstance(value, str):
                return field.full_name
            continue
        parts = value if field.is_repeated else (value,)
        for part in parts:
            damaged = _damaged_text(part)
            if damaged is not None:
                return damaged
    return None


@cache
def _fields_with_text(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    fields = []
    for field in descriptor.fields:
        is_text = field.type == FieldDescriptor.TYPE_STRING
        contains_text = field.message_type is not None and bool(_fields_with_text(field.message_type))
        if is_text or contains_text:
            fields.append(field)
    return tuple(fields)


# -- contracts and routes ----------------------------------------------------------------------------------------------


def contract_of(identifier: MessageIdentifier) -> MessageContract:
    """Return a message identifier as it stands in service messages.

    Raises:
        ArgumentError: The version is text or not a 16-bit number, which service messages cannot express.
    """
    version = _written_version(identifier)
    if version is None:
        raise ArgumentError("version", f"a number up to {MAX_VERSION}", identifier.version)
    # As the reference does, a zero is left out, and an empty partition is not.
    return MessageContract(version=version or None, identity=identifier.identity, partition=identifier.partition)


def identifier_of(contract: MessageContract) -> MessageIdentifier:
    """Return the message identifier in a service message.

    Raises:
        PayloadError: The version is not a 16-bit number.
    """
    if contract.version > MAX_VERSION:
        raise PayloadError(MessageContract, f"a version of {contract.version}", contract.SerializeToString())
    identity, partition = contract.identity, contract.partition
    is_short = len(identity) + len(partition) <= _SHORT
    return (_shared if is_short else MessageIdentifier)(identity, contract.version, partition)


@lru_cache(maxsize=1024)
def _shared(identity: bytes, version: int, partition: bytes) -> MessageIdentifier:
    """Return an identifier that is kept once, although many nodes announce it."""
    return MessageIdentifier(identity, version, partition)


def registration(
    uri: str, node_identity: bytes, health_uri: str, heartbeat_interval: timedelta | float, routes: Iterable[Route]
) -> RegisterExternalMessageRoute:
    """Return an announcement of routes, grouped by receiver. If it contains no routes, it must not be sent.

    Routes that service messages cannot express are left out: see `contract_of`.

    Raises:
        ArgumentError: The heartbeat interval is not positive: peers would consider the node dead at once.
    """
    interval = to_timespan(heartbeat_interval)
    if interval is None or interval.value < 0:
        raise ArgumentError("heartbeat_interval", "more than zero", heartbeat_interval)
    return RegisterExternalMessageRoute(
        uri=uri,
        node_identity=node_identity,
        routes=_by_receiver(routes),
        health=Health(uri=health_uri, heart_beat_interval=interval),
    )


def unregistration(uri: str, node_identity: bytes, routes: Iterable[Route]) -> UnregisterMessageRoute:
    """Return a withdrawal of routes, grouped by receiver. If it contains no routes, it must not be sent.

    The reference fails on a hub without a contract, but ignores the contract that it has. So a hub gets one of a
    message that no actor handles.
    """
    registrations = _by_receiver(routes)
    for entry in registrations:
        if not entry.message_contracts:
            entry.message_contracts.append(contract_of(UNREGISTER_ROUTE))
    return UnregisterMessageRoute(uri=uri, receiver_node_identity=node_identity, routes=registrations)


def routes_of(
    content: RegisterExternalMessageRoute | UnregisterMessageRoute, *, with_unknown: bool = False
) -> list[Route]:
    """Return the routes in an announcement or a withdrawal.

    Args:
        content: The announcement or withdrawal.
        with_unknown: Whether to include receivers that are neither hub nor actor, which in a withdrawal stand for all
            actors of the node.
    """
    routes = []
    for entry in content.routes:
        kind = receiver_kind(entry.receiver_identity)
        if kind is ReceiverKind.HUB:
            routes.append(Route(entry.receiver_identity))
        elif kind is ReceiverKind.ACTOR or with_unknown:
            contracts = entry.message_contracts
            routes.extend(Route(entry.receiver_identity, identifier_of(contract)) for contract in contracts)
    return routes


def _by_receiver(routes: Iterable[Route]) -> list[RouteRegistration]:
    registrations: dict[bytes, RouteRegistration] = {}
    for route in routes:
        if route.identifier is None and receiver_kind(route.receiver) is not ReceiverKind.HUB:
            raise ArgumentError("receiver", "a hub, or an actor with a message", route.receiver)
        if route.identifier is not None and _written_version(route.identifier) is None:
            continue
        entry = registrations.setdefault(route.receiver, RouteRegistration(receiver_identity=route.receiver))
        if route.identifier is not None:
            entry.message_contracts.append(contract_of(route.identifier))
    return list(registrations.values())


def _written_version(identifier: MessageIdentifier) -> int | None:
    version = identifier.version
    return version if isinstance(version, int) and 0 <= version <= MAX_VERSION else None


_SENDER_FIELDS: dict[MessageIdentifier, tuple[type[Content], str]] = {
    REGISTER_ROUTE: (RegisterExternalMessageRoute, "node_identity"),
    UNREGISTER_ROUTE: (UnregisterMessageRoute, "receiver_node_identity"),
    UNREGISTER_NODE: (UnregisterNode, "receiver_node_identity"),
    REQUEST_CLUSTER_ROUTES: (RequestClusterMessageRoutes, "requestor_node_identity"),
    DISCOVER_ROUTE: (DiscoverMessageRoute, "requestor_node_identity"),
}


def ping() -> Message:
    """Return a ping, which a rendezvous server answers if it leads, and which nodes ignore."""
    return service_message(PING, None)


def sender_of(message: Message) -> bytes | None:
    """Return the node that a control message claims to come from; None if it names none."""
    kind, field = _SENDER_FIELDS.get(message.identifier, (None, ""))
    if kind is None:
        return None
    try:
        return getattr(read(message, kind), field) or None
    except PayloadError:
        return None
