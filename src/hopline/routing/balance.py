"""Balances messages between the receivers of this node and other nodes."""

from __future__ import annotations


class Balance:
    """Chooses the destination that was used least recently. One that was never used comes first."""

    def __init__(self) -> None:
        self._used: dict[bytes, int] = {}  # the turn in which each destination was used last
        self._turn = 0

    def pick(self, local: bytes, remote: bytes) -> bytes:
        """Choose between a local receiver and another node: the local one if neither was used."""
        local_used = self._used.get(local, 0)
        remote_used = self._used.get(remote, 0)
        destination = remote if remote_used < local_used else local
        self._turn += 1
        self._used[destination] = self._turn
        return destination

    def forget(self, destination: bytes) -> None:
        """Forget a destination that is gone."""
        self._used.pop(destination, None)
