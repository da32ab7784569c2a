"""Balances messages between the receivers of this node and other nodes."""

from __future__ import annotations


class Balance:
    """Chooses the destination that was used least recently. One that was never used comes first."""

    def __init__(self) -> None:
        self._used: dict[bytes, int] = {}
        self._turn = 0

    def pick(self, local: bytes, remote: bytes) -> bytes:
        """Choose between a local receiver and another node: the local one if neither was used."""
        picked = remote if self._used.get(remote, 0) < self._used.get(local, 0) else local
        self._turn += 1
        self._used[picked] = self._turn
        return picked

    def forget(self, destination: bytes) -> None:
        """Forget a destination that is gone."""
        self._used.pop(destination, None)
