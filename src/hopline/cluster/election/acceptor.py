"""The acceptor of a synod member: one register that promises and accepts by ballot."""

from __future__ import annotations

from hopline.cluster.election.ballot import NO_BALLOT
from hopline.cluster.election.lease import (
    AckRead,
    AckWrite,
    Answer,
    Lease,
    NackRead,
    NackWrite,
    ReadLease,
    Request,
    WriteLease,
)


class Acceptor:
    """Votes on the rounds of all proposers. Its state is volatile: it is lost when the process ends.

    That is why it stays mute until `mute_until`: by then every lease that it may have voted for before a restart has
    expired. If it answered sooner, two of three members could grant a second lease while the first is still valid.
    """

    def __init__(self, uri: str, mute_until: int) -> None:
        self._uri = uri
        self.mute_until = mute_until
        self._read_ballot = NO_BALLOT
        self._write_ballot = NO_BALLOT
        self._lease: Lease | None = None

    def is_mute(self, now: int) -> bool:
        """Return whether it does not vote yet."""
        return now < self.mute_until

    def receive(self, request: Request, now: int) -> Answer | None:
        """Return the vote on a request; None while mute."""
        if self.is_mute(now):
            return None
        if isinstance(request, ReadLease):
            return self._read(request)
        return self._write(request)

    def _read(self, request: ReadLease) -> Answer:
        ballot = request.ballot
        if max(self._write_ballot, self._read_ballot) >= ballot:
            return NackRead(ballot, self._uri)
        self._read_ballot = ballot
        return AckRead(ballot, self._write_ballot, self._lease, self._uri)

    def _write(self, request: WriteLease) -> Answer:
        ballot = request.ballot
        if max(self._write_ballot, self._read_ballot) > ballot:
            return NackWrite(ballot, self._uri)
        self._write_ballot = ballot
        self._lease = request.lease
        return AckWrite(ballot, self._uri)
