"""The messages between the members of a synod, to and from protobuf."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.message import Message as Content

from hopline.cluster.election.ballot import MAX_TICKS, NO_BALLOT, Ballot
from hopline.cluster.election.lease import (
    AckRead,
    AckWrite,
    ConsensusMessage,
    Lease,
    NackRead,
    NackWrite,
    ReadLease,
    WriteLease,
)
from hopline.cluster.election.synod import SynodHeartbeat
from hopline.cluster.messages import service_pb2
from hopline.cluster.messages.service import (
    ACK_READ_LEASE,
    ACK_WRITE_LEASE,
    NACK_READ_LEASE,
    NACK_WRITE_LEASE,
    QUORUM_HEARTBEAT,
    READ_LEASE,
    WRITE_LEASE,
    read,
    service_message,
)
from hopline.message import Message, MessageIdentifier, PayloadError

SynodMessage: TypeAlias = ConsensusMessage | SynodHeartbeat

# -- writing -----------------------------------------------------------------------------------------------------------


def to_message(value: SynodMessage) -> Message:
    """Return the service message for a value that a member publishes."""
    match value:
        case ReadLease(ballot):
            return service_message(READ_LEASE, service_pb2.LeaseRead(ballot=_ballot(ballot)))
        case AckRead(ballot, known, lease, uri):
            content: Content = service_pb2.LeaseAckRead(
                ballot=_ballot(ballot),
                known_write_ballot=_ballot(known),
                lease=None if lease is None else _lease(lease),
                sender_uri=uri,
            )
            return service_message(ACK_READ_LEASE, content)
        case NackRead(ballot, uri):
            content = service_pb2.LeaseNackRead(ballot=_ballot(ballot), sender_uri=uri)
            return service_message(NACK_READ_LEASE, content)
        case WriteLease(ballot, lease):
            content = service_pb2.LeaseWrite(ballot=_ballot(ballot), lease=_lease(lease))
            return service_message(WRITE_LEASE, content)
        case AckWrite(ballot, uri):
            content = service_pb2.LeaseAckWrite(ballot=_ballot(ballot), sender_uri=uri)
            return service_message(ACK_WRITE_LEASE, content)
        case NackWrite(ballot, uri):
            content = service_pb2.LeaseNackWrite(ballot=_ballot(ballot), sender_uri=uri)
            return service_message(NACK_WRITE_LEASE, content)
        case SynodHeartbeat(uri):
            return service_message(QUORUM_HEARTBEAT, service_pb2.QuorumHeartBeat(node_uri=uri))


def _ballot(ballot: Ballot) -> service_pb2.Ballot:
    # As the reference does, a zero is left out.
    return service_pb2.Ballot(
        timestamp=ballot.timestamp or None, identity=ballot.identity, message_number=ballot.number or None
    )


def _lease(lease: Lease) -> service_pb2.Lease:
    return service_pb2.Lease(
        identity=lease.identity, expires_at=lease.expires_at or None, owner_payload=lease.owner_payload
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def from_message(message: Message) -> SynodMessage:
    """Return the value in a service message of a member.

    Raises:
        PayloadError: The message is not one of a synod, or is malformed.
    """
    reader = _READERS.get(message.identifier)
    if reader is None:
        raise PayloadError(SynodHeartbeat, f"{message.identifier} is no message of a synod", message.body)
    return reader(message)


def _read(message: Message) -> ReadLease:
    content = read(message, service_pb2.LeaseRead)
    return ReadLease(_ballot_of(content))


def _ack_read(message: Message) -> AckRead:
    content = read(message, service_pb2.LeaseAckRead)
    known_write_ballot = NO_BALLOT
    if content.HasField("known_write_ballot"):
        known_write_ballot = _plain_ballot(content.known_write_ballot)
    lease = None
    if content.HasField("lease"):
        lease = _plain_lease(content.lease)
    return AckRead(_ballot_of(content), known_write_ballot, lease, content.sender_uri)


def _nack_read(message: Message) -> NackRead:
    content = read(message, service_pb2.LeaseNackRead)
    return NackRead(_ballot_of(content), content.sender_uri)


def _write(message: Message) -> WriteLease:
    content = read(message, service_pb2.LeaseWrite)
    if not content.HasField("lease"):
        raise PayloadError(service_pb2.LeaseWrite, "no lease", message.body)
    return WriteLease(_ballot_of(content), _plain_lease(content.lease))


def _ack_write(message: Message) -> AckWrite:
    content = read(message, service_pb2.LeaseAckWrite)
    return AckWrite(_ballot_of(content), content.sender_uri)


def _nack_write(message: Message) -> NackWrite:
    content = read(message, service_pb2.LeaseNackWrite)
    return NackWrite(_ballot_of(content), content.sender_uri)


def _heartbeat(message: Message) -> SynodHeartbeat:
    content = read(message, service_pb2.QuorumHeartBeat)
    return SynodHeartbeat(content.node_uri)


_WithBallot: TypeAlias = (
    service_pb2.LeaseRead
    | service_pb2.LeaseAckRead
    | service_pb2.LeaseNackRead
    | service_pb2.LeaseWrite
    | service_pb2.LeaseAckWrite
    | service_pb2.LeaseNackWrite
)


def _ballot_of(content: _WithBallot) -> Ballot:
    if not content.HasField("ballot"):
        raise PayloadError(type(content), "no ballot", content.SerializeToString())
    return _plain_ballot(content.ballot)


def _plain_ballot(ballot: service_pb2.Ballot) -> Ballot:
    _check_time(ballot, ballot.timestamp)
    return Ballot(ballot.timestamp, ballot.message_number, ballot.identity)


def _plain_lease(lease: service_pb2.Lease) -> Lease:
    _check_time(lease, lease.expires_at)
    return Lease(lease.identity, lease.expires_at, lease.owner_payload)


def _check_time(content: Content, ticks: int) -> None:
    if not 0 <= ticks <= MAX_TICKS:
        raise PayloadError(type(content), f"{ticks} is not a time that .NET can express", content.SerializeToString())


_READERS: dict[MessageIdentifier, Callable[[Message], SynodMessage]] = {
    READ_LEASE: _read,
    ACK_READ_LEASE: _ack_read,
    NACK_READ_LEASE: _nack_read,
    WRITE_LEASE: _write,
    ACK_WRITE_LEASE: _ack_write,
    NACK_WRITE_LEASE: _nack_write,
    QUORUM_HEARTBEAT: _heartbeat,
}
