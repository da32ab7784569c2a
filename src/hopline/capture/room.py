"""Memory that is used again and again: what is given back comes anew, page by page, and that costs more than a copy."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


class Room:
    """Room for so many bytes. Only what was ever used of it is really taken from the system."""

    def __init__(self, size: int) -> None:
        self._memory = memoryview(bytearray(size))
        self._end = 0

    def keep(self, pieces: Sequence[bytes]) -> pa.Buffer:
        """Bring pieces together, here if there is room, and give them as one."""
        begin = at = self._end
        if at + sum(map(len, pieces)) > len(self._memory):
            return pa.py_buffer(b"".join(pieces))
        for piece in pieces:
            self._memory[at : at + len(piece)] = piece
            at += len(piece)
        self._end = at
        return pa.py_buffer(self._memory[begin:at])

    def clear(self) -> None:
        """Use it from the beginning: nobody may look at what was kept here any more."""
        self._end = 0
