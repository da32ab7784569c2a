"""The message and what identifies it. No I/O, no wire format."""

from hopline.message.errors import (
    ActorError,
    AnswerTimeoutError,
    DeliveryError,
    HoplineError,
    LocalError,
    NoRoomError,
    NotRunningError,
    PayloadError,
    PeerGoneError,
)
from hopline.message.exception import EXCEPTION, RECEIPT, ExceptionReport
from hopline.message.flow_ids import new_flow_id
from hopline.message.identifier import (
    COMMON_VERSION_TEXTS,
    COMMON_VERSIONS,
    MAX_VERSION,
    MessageIdentifier,
    Version,
    version_from_text,
    version_to_text,
)
from hopline.message.message import (
    NO_FLOW,
    TICKS_PER_MICROSECOND,
    Distribution,
    Message,
    RoutingEntry,
    TraceOptions,
    ticks,
)
from hopline.message.payload import PAYLOAD_MARK, Payload, PayloadType, from_message, payload, payload_type, to_message
from hopline.message.receivers import (
    ReceiverKind,
    new_actor_identity,
    new_hub_identity,
    new_node_identity,
    receiver_kind,
)
from hopline.message.serializers import JSON, MSGPACK, PROTOBUF, RAW, Serializer, reader_of
from hopline.message.wire_format import WireFormat

__all__ = [
    "COMMON_VERSIONS",
    "COMMON_VERSION_TEXTS",
    "EXCEPTION",
    "JSON",
    "MAX_VERSION",
    "MSGPACK",
    "NO_FLOW",
    "PAYLOAD_MARK",
    "PROTOBUF",
    "RAW",
    "RECEIPT",
    "TICKS_PER_MICROSECOND",
    "ActorError",
    "AnswerTimeoutError",
    "DeliveryError",
    "Distribution",
    "ExceptionReport",
    "HoplineError",
    "LocalError",
    "Message",
    "MessageIdentifier",
    "NoRoomError",
    "NotRunningError",
    "Payload",
    "PayloadError",
    "PayloadType",
    "PeerGoneError",
    "ReceiverKind",
    "RoutingEntry",
    "Serializer",
    "TraceOptions",
    "Version",
    "WireFormat",
    "from_message",
    "new_actor_identity",
    "new_flow_id",
    "new_hub_identity",
    "new_node_identity",
    "payload",
    "payload_type",
    "reader_of",
    "receiver_kind",
    "ticks",
    "to_message",
    "version_from_text",
    "version_to_text",
]
