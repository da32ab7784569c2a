"""Fairness between what lives here and what lives elsewhere."""

from __future__ import annotations


class Balance:
    """Picks the destination that was used least recently; one that was never used goes first."""

    def __init__(self) -> None:
        self._used: dict[bytes, int] = {}
        self._turn = 0

    def pick(self, local: bytes, remote: bytes) -> bytes:
        """Choose between a local receiver and a remote node; the local one when neither was used."""
        picked = remote if self._used.get(remote, 0) < self._used.get(local, 0) else local
        self._turn += 1
        self._used[picked] = self._turn
        return picked

    def forget(self, destination: bytes) -> None:
        """Drop what is known of a destination that is gone."""
        self._used.pop(destination, None)
