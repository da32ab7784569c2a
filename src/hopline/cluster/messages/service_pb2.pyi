from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TimeSpan(_message.Message):
    __slots__ = ("value", "scale", "kind")
    class Scale(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DAYS: _ClassVar[TimeSpan.Scale]
        HOURS: _ClassVar[TimeSpan.Scale]
        MINUTES: _ClassVar[TimeSpan.Scale]
        SECONDS: _ClassVar[TimeSpan.Scale]
        MILLISECONDS: _ClassVar[TimeSpan.Scale]
        TICKS: _ClassVar[TimeSpan.Scale]
        MINMAX: _ClassVar[TimeSpan.Scale]
    DAYS: TimeSpan.Scale
    HOURS: TimeSpan.Scale
    MINUTES: TimeSpan.Scale
    SECONDS: TimeSpan.Scale
    MILLISECONDS: TimeSpan.Scale
    TICKS: TimeSpan.Scale
    MINMAX: TimeSpan.Scale
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    value: int
    scale: int
    kind: int
    def __init__(self, value: _Optional[int] = ..., scale: _Optional[int] = ..., kind: _Optional[int] = ...) -> None: ...

class MessageContract(_message.Message):
    __slots__ = ("version", "identity", "partition")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    version: int
    identity: bytes
    partition: bytes
    def __init__(self, version: _Optional[int] = ..., identity: _Optional[bytes] = ..., partition: _Optional[bytes] = ...) -> None: ...

class RouteRegistration(_message.Message):
    __slots__ = ("receiver_identity", "message_contracts")
    RECEIVER_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_CONTRACTS_FIELD_NUMBER: _ClassVar[int]
    receiver_identity: bytes
    message_contracts: _containers.RepeatedCompositeFieldContainer[MessageContract]
    def __init__(self, receiver_identity: _Optional[bytes] = ..., message_contracts: _Optional[_Iterable[_Union[MessageContract, _Mapping]]] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("uri", "heart_beat_interval")
    URI_FIELD_NUMBER: _ClassVar[int]
    HEART_BEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    uri: str
    heart_beat_interval: TimeSpan
    def __init__(self, uri: _Optional[str] = ..., heart_beat_interval: _Optional[_Union[TimeSpan, _Mapping]] = ...) -> None: ...

class RendezvousNode(_message.Message):
    __slots__ = ("broadcast_uri", "unicast_uri", "partner_broadcast_uri")
    BROADCAST_URI_FIELD_NUMBER: _ClassVar[int]
    UNICAST_URI_FIELD_NUMBER: _ClassVar[int]
    PARTNER_BROADCAST_URI_FIELD_NUMBER: _ClassVar[int]
    broadcast_uri: str
    unicast_uri: str
    partner_broadcast_uri: str
    def __init__(self, broadcast_uri: _Optional[str] = ..., unicast_uri: _Optional[str] = ..., partner_broadcast_uri: _Optional[str] = ...) -> None: ...

class RegisterExternalMessageRoute(_message.Message):
    __slots__ = ("uri", "node_identity", "routes", "health")
    URI_FIELD_NUMBER: _ClassVar[int]
    NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    uri: str
    node_identity: bytes
    routes: _containers.RepeatedCompositeFieldContainer[RouteRegistration]
    health: Health
    def __init__(self, uri: _Optional[str] = ..., node_identity: _Optional[bytes] = ..., routes: _Optional[_Iterable[_Union[RouteRegistration, _Mapping]]] = ..., health: _Optional[_Union[Health, _Mapping]] = ...) -> None: ...

class UnregisterMessageRoute(_message.Message):
    __slots__ = ("uri", "receiver_node_identity", "routes")
    URI_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    uri: str
    receiver_node_identity: bytes
    routes: _containers.RepeatedCompositeFieldContainer[RouteRegistration]
    def __init__(self, uri: _Optional[str] = ..., receiver_node_identity: _Optional[bytes] = ..., routes: _Optional[_Iterable[_Union[RouteRegistration, _Mapping]]] = ...) -> None: ...

class UnregisterNode(_message.Message):
    __slots__ = ("uri", "receiver_node_identity")
    URI_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    uri: str
    receiver_node_identity: bytes
    def __init__(self, uri: _Optional[str] = ..., receiver_node_identity: _Optional[bytes] = ...) -> None: ...

class UnregisterUnreachableNode(_message.Message):
    __slots__ = ("receiver_node_identity",)
    RECEIVER_NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    receiver_node_identity: bytes
    def __init__(self, receiver_node_identity: _Optional[bytes] = ...) -> None: ...

class RequestClusterMessageRoutes(_message.Message):
    __slots__ = ("requestor_uri", "requestor_node_identity")
    REQUESTOR_URI_FIELD_NUMBER: _ClassVar[int]
    REQUESTOR_NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    requestor_uri: str
    requestor_node_identity: bytes
    def __init__(self, requestor_uri: _Optional[str] = ..., requestor_node_identity: _Optional[bytes] = ...) -> None: ...

class RequestNodeMessageRoutes(_message.Message):
    __slots__ = ("target_node_uri", "target_node_identity")
    TARGET_NODE_URI_FIELD_NUMBER: _ClassVar[int]
    TARGET_NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    target_node_uri: str
    target_node_identity: bytes
    def __init__(self, target_node_uri: _Optional[str] = ..., target_node_identity: _Optional[bytes] = ...) -> None: ...

class DiscoverMessageRoute(_message.Message):
    __slots__ = ("requestor_node_identity", "requestor_uri", "receiver_identity", "message_contract")
    REQUESTOR_NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    REQUESTOR_URI_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_CONTRACT_FIELD_NUMBER: _ClassVar[int]
    requestor_node_identity: bytes
    requestor_uri: str
    receiver_identity: bytes
    message_contract: MessageContract
    def __init__(self, requestor_node_identity: _Optional[bytes] = ..., requestor_uri: _Optional[str] = ..., receiver_identity: _Optional[bytes] = ..., message_contract: _Optional[_Union[MessageContract, _Mapping]] = ...) -> None: ...

class HeartBeat(_message.Message):
    __slots__ = ("heart_beat_interval", "socket_identity", "health_uri")
    HEART_BEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SOCKET_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_URI_FIELD_NUMBER: _ClassVar[int]
    heart_beat_interval: TimeSpan
    socket_identity: bytes
    health_uri: str
    def __init__(self, heart_beat_interval: _Optional[_Union[TimeSpan, _Mapping]] = ..., socket_identity: _Optional[bytes] = ..., health_uri: _Optional[str] = ...) -> None: ...

class RendezvousNotLeader(_message.Message):
    __slots__ = ("new_leader",)
    NEW_LEADER_FIELD_NUMBER: _ClassVar[int]
    new_leader: RendezvousNode
    def __init__(self, new_leader: _Optional[_Union[RendezvousNode, _Mapping]] = ...) -> None: ...

class RendezvousConfigurationChanged(_message.Message):
    __slots__ = ("rendezvous_nodes",)
    RENDEZVOUS_NODES_FIELD_NUMBER: _ClassVar[int]
    rendezvous_nodes: _containers.RepeatedCompositeFieldContainer[RendezvousNode]
    def __init__(self, rendezvous_nodes: _Optional[_Iterable[_Union[RendezvousNode, _Mapping]]] = ...) -> None: ...

class RequestMessageRoutes(_message.Message):
    __slots__ = ("message_contract", "route_type")
    class RouteType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ALL: _ClassVar[RequestMessageRoutes.RouteType]
        INTERNAL: _ClassVar[RequestMessageRoutes.RouteType]
        EXTERNAL: _ClassVar[RequestMessageRoutes.RouteType]
    ALL: RequestMessageRoutes.RouteType
    INTERNAL: RequestMessageRoutes.RouteType
    EXTERNAL: RequestMessageRoutes.RouteType
    MESSAGE_CONTRACT_FIELD_NUMBER: _ClassVar[int]
    ROUTE_TYPE_FIELD_NUMBER: _ClassVar[int]
    message_contract: MessageContract
    route_type: RequestMessageRoutes.RouteType
    def __init__(self, message_contract: _Optional[_Union[MessageContract, _Mapping]] = ..., route_type: _Optional[_Union[RequestMessageRoutes.RouteType, str]] = ...) -> None: ...

class MessageReceivingRoute(_message.Message):
    __slots__ = ("node_identity", "actor_identity")
    NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ACTOR_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    node_identity: bytes
    actor_identity: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, node_identity: _Optional[bytes] = ..., actor_identity: _Optional[_Iterable[bytes]] = ...) -> None: ...

class MessageRoutes(_message.Message):
    __slots__ = ("message_contract", "external_routes", "internal_routes")
    MESSAGE_CONTRACT_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ROUTES_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_ROUTES_FIELD_NUMBER: _ClassVar[int]
    message_contract: MessageContract
    external_routes: _containers.RepeatedCompositeFieldContainer[MessageReceivingRoute]
    internal_routes: MessageReceivingRoute
    def __init__(self, message_contract: _Optional[_Union[MessageContract, _Mapping]] = ..., external_routes: _Optional[_Iterable[_Union[MessageReceivingRoute, _Mapping]]] = ..., internal_routes: _Optional[_Union[MessageReceivingRoute, _Mapping]] = ...) -> None: ...

class MessageRegistration(_message.Message):
    __slots__ = ("message", "actors")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    message: MessageContract
    actors: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, message: _Optional[_Union[MessageContract, _Mapping]] = ..., actors: _Optional[_Iterable[bytes]] = ...) -> None: ...

class NodeExternalRegistration(_message.Message):
    __slots__ = ("node_identity", "node_uri", "message_hubs", "message_routes")
    NODE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NODE_URI_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_HUBS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ROUTES_FIELD_NUMBER: _ClassVar[int]
    node_identity: bytes
    node_uri: str
    message_hubs: _containers.RepeatedScalarFieldContainer[bytes]
    message_routes: _containers.RepeatedCompositeFieldContainer[MessageRegistration]
    def __init__(self, node_identity: _Optional[bytes] = ..., node_uri: _Optional[str] = ..., message_hubs: _Optional[_Iterable[bytes]] = ..., message_routes: _Optional[_Iterable[_Union[MessageRegistration, _Mapping]]] = ...) -> None: ...

class ExternalRoutes(_message.Message):
    __slots__ = ("routes",)
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    routes: _containers.RepeatedCompositeFieldContainer[NodeExternalRegistration]
    def __init__(self, routes: _Optional[_Iterable[_Union[NodeExternalRegistration, _Mapping]]] = ...) -> None: ...

class ReceiverRegistration(_message.Message):
    __slots__ = ("identity", "local_registration")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LOCAL_REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    local_registration: bool
    def __init__(self, identity: _Optional[bytes] = ..., local_registration: _Optional[bool] = ...) -> None: ...

class InternalRoutes(_message.Message):
    __slots__ = ("message_hubs", "message_routes")
    MESSAGE_HUBS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ROUTES_FIELD_NUMBER: _ClassVar[int]
    message_hubs: _containers.RepeatedCompositeFieldContainer[ReceiverRegistration]
    message_routes: _containers.RepeatedCompositeFieldContainer[MessageRegistration]
    def __init__(self, message_hubs: _Optional[_Iterable[_Union[ReceiverRegistration, _Mapping]]] = ..., message_routes: _Optional[_Iterable[_Union[MessageRegistration, _Mapping]]] = ...) -> None: ...

class Ballot(_message.Message):
    __slots__ = ("timestamp", "identity", "message_number")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    identity: bytes
    message_number: int
    def __init__(self, timestamp: _Optional[int] = ..., identity: _Optional[bytes] = ..., message_number: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("identity", "expires_at", "owner_payload")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    OWNER_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    expires_at: int
    owner_payload: bytes
    def __init__(self, identity: _Optional[bytes] = ..., expires_at: _Optional[int] = ..., owner_payload: _Optional[bytes] = ...) -> None: ...

class LeaseRead(_message.Message):
    __slots__ = ("ballot", "sender_identity")
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    SENDER_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ballot: Ballot
    sender_identity: bytes
    def __init__(self, ballot: _Optional[_Union[Ballot, _Mapping]] = ..., sender_identity: _Optional[bytes] = ...) -> None: ...

class LeaseAckRead(_message.Message):
    __slots__ = ("ballot", "known_write_ballot", "lease", "sender_uri")
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    KNOWN_WRITE_BALLOT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SENDER_URI_FIELD_NUMBER: _ClassVar[int]
    ballot: Ballot
    known_write_ballot: Ballot
    lease: Lease
    sender_uri: str
    def __init__(self, ballot: _Optional[_Union[Ballot, _Mapping]] = ..., known_write_ballot: _Optional[_Union[Ballot, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., sender_uri: _Optional[str] = ...) -> None: ...

class LeaseNackRead(_message.Message):
    __slots__ = ("ballot", "sender_uri")
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    SENDER_URI_FIELD_NUMBER: _ClassVar[int]
    ballot: Ballot
    sender_uri: str
    def __init__(self, ballot: _Optional[_Union[Ballot, _Mapping]] = ..., sender_uri: _Optional[str] = ...) -> None: ...

class LeaseWrite(_message.Message):
    __slots__ = ("ballot", "lease", "sender_identity")
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SENDER_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ballot: Ballot
    lease: Lease
    sender_identity: bytes
    def __init__(self, ballot: _Optional[_Union[Ballot, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., sender_identity: _Optional[bytes] = ...) -> None: ...

class LeaseAckWrite(_message.Message):
    __slots__ = ("ballot", "sender_uri")
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    SENDER_URI_FIELD_NUMBER: _ClassVar[int]
    ballot: Ballot
    sender_uri: str
    def __init__(self, ballot: _Optional[_Union[Ballot, _Mapping]] = ..., sender_uri: _Optional[str] = ...) -> None: ...

class LeaseNackWrite(_message.Message):
    __slots__ = ("ballot", "sender_uri")
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    SENDER_URI_FIELD_NUMBER: _ClassVar[int]
    ballot: Ballot
    sender_uri: str
    def __init__(self, ballot: _Optional[_Union[Ballot, _Mapping]] = ..., sender_uri: _Optional[str] = ...) -> None: ...

class QuorumHeartBeat(_message.Message):
    __slots__ = ("node_uri",)
    NODE_URI_FIELD_NUMBER: _ClassVar[int]
    node_uri: str
    def __init__(self, node_uri: _Optional[str] = ...) -> None: ...
