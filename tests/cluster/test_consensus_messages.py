"""What a synod says, byte for byte as the reference says it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import Message
from hopline.cluster.election.ballot import MAX_TICKS, NO_BALLOT, Ballot
from hopline.cluster.election.lease import AckRead, AckWrite, Lease, NackRead, NackWrite, ReadLease, WriteLease
from hopline.cluster.election.synod import SynodHeartbeat
from hopline.cluster.messages import service_pb2
from hopline.cluster.messages.consensus import SynodMessage, from_message, to_message
from hopline.cluster.messages.service import NACK_READ_LEASE, QUORUM_HEARTBEAT, READ_LEASE, WRITE_LEASE, read_body
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.message import PayloadError, WireFormat
from hopline.wire import decode, encode
from tests.wire.vectors import frames_of, load

LIVE = [
    pytest.param(capture["wire"], raw["identity"], frames_of(raw["frames"]), id=f"{file}-{capture['wire']}-{at}")
    for file in ("live", "live2")
    for capture in load(file)["captures"]
    for at, raw in enumerate(capture["messages"])
    if raw["identity"].endswith("LEASE")
]

texts = st.text(max_size=20)
ballots = st.builds(
    Ballot,
    timestamp=st.integers(0, MAX_TICKS),
    number=st.integers(-(2**31), 2**31 - 1),
    identity=st.binary(max_size=40),
)
leases = st.builds(
    Lease,
    identity=st.binary(max_size=40),
    expires_at=st.integers(0, MAX_TICKS),
    owner_payload=st.binary(max_size=40),
)
values = st.one_of(
    st.builds(ReadLease, ballots),
    st.builds(AckRead, ballots, ballots, st.none() | leases, texts),
    st.builds(WriteLease, ballots, leases),
    *(st.builds(kind, ballots, texts) for kind in (NackRead, AckWrite, NackWrite)),
    st.builds(SynodHeartbeat, texts),
)


def test_there_are_live_messages_of_every_phase() -> None:
    kinds = {str(case.values[1]).removeprefix("KINO.") for case in LIVE}
    assert kinds == {"READLEASE", "ACKREADLEASE", "WRITELEASE", "ACKWRITELEASE", "NACKWRITELEASE"}


@pytest.mark.parametrize(("wire_format", "identity", "frames"), LIVE)
def test_live_messages_are_made_again_from_their_values(wire_format: str, identity: str, frames: list[bytes]) -> None:
    value = from_message(decode(frames))
    assert encode(to_message(value), WireFormat(wire_format)) == frames
    assert value.ballot.identity  # type: ignore[union-attr]
    lease = getattr(value, "lease", None)
    if lease is not None:
        owner = RendezvousAddress.of(read_body(lease.owner_payload, service_pb2.RendezvousNode))
        assert owner == RendezvousAddress(*(f"tcp://10.77.0.1:{port}" for port in (8001, 8011, 8111)))
        assert owner.payload() == lease.owner_payload


def test_the_answer_of_an_acceptor_that_has_nothing_is_as_documented() -> None:
    ballot = Ballot(637_161_984_000_000_000, 1, b"11111111-1111-1111-1111-111111111111")
    message = to_message(AckRead(ballot, NO_BALLOT, None, "tcp://10.0.0.9:7001"))
    identity = ballot.identity.hex()
    uri = b"tcp://10.0.0.9:7001".hex()
    assert message.body.hex() == f"0a32088080d0c5adeee9eb081224{identity}1801120212002213{uri}"


@given(values)
def test_what_is_written_is_read(value: SynodMessage) -> None:
    assert from_message(to_message(value)) == value


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (READ_LEASE, service_pb2.LeaseRead()),
        (NACK_READ_LEASE, service_pb2.LeaseNackRead(sender_uri="tcp://10.0.0.1:7001")),
        (WRITE_LEASE, service_pb2.LeaseWrite(ballot=service_pb2.Ballot(timestamp=1))),
        (READ_LEASE, service_pb2.LeaseRead(ballot=service_pb2.Ballot(timestamp=-1))),
        (READ_LEASE, service_pb2.LeaseRead(ballot=service_pb2.Ballot(timestamp=MAX_TICKS + 1))),
        (
            WRITE_LEASE,
            service_pb2.LeaseWrite(ballot=service_pb2.Ballot(timestamp=1), lease=service_pb2.Lease(expires_at=-1)),
        ),
    ],
)
def test_messages_that_make_no_sense_are_refused(kind: Any, content: Any) -> None:
    with pytest.raises(PayloadError):
        from_message(Message(kind.identity, bodies=(content.SerializeToString(),)))


def test_what_no_synod_says_is_refused() -> None:
    for message in (Message(b"HELLO"), Message(QUORUM_HEARTBEAT.identity, version=2), Message(READ_LEASE.identity)):
        with pytest.raises(PayloadError):
            from_message(message)
    with pytest.raises(PayloadError):
        from_message(Message(READ_LEASE.identity, bodies=(b"\xff\xff",)))
