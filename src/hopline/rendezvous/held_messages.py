"""Messages that wait for a leader to be elected, bounded in number, bytes and time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from hopline.message import Message


class Publication(msgspec.Struct, frozen=True):
    """An instruction: publish these frames to the nodes, and to partner networks if `to_partners`."""

    frames: Sequence[bytes]
    to_partners: bool


class HeldMessage(msgspec.Struct, frozen=True):
    """A message that waits, and until when (ticks)."""

    publication: Publication
    message: Message
    size: int
    until: int


class HeldMessages:
    """A bounded queue of messages, in order of arrival.

    Args:
        max_messages: The number of messages that may wait.
        max_bytes: The number of bytes that may wait.
        holding_time: How long each may wait, in ticks.
    """

    def __init__(self, max_messages: int, max_bytes: int, holding_time: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._holding_time = holding_time
        self._queue: deque[HeldMessage] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def next_expiry(self) -> int | None:
        """When the oldest message expires; None if none waits."""
        return self._queue[0].until if self._queue else None

    def add(self, publication: Publication, message: Message, now: int) -> bool:
        """Add a message; return False if there is no room for it."""
        size = sum(map(len, publication.frames))
        if len(self._queue) >= self._max_messages or self._bytes + size > self._max_bytes:
            return False
        self._queue.append(HeldMessage(publication, message, size, now + self._holding_time))
        self._bytes += size
        return True

    def expired(self, now: int) -> Iterator[HeldMessage]:
        """Remove and return the messages whose time is over."""
        while self._queue and now >= self._queue[0].until:
            yield self._pop()

    def released(self) -> Iterator[HeldMessage]:
        """Remove and return all messages."""
        while self._queue:
            yield self._pop()

    def _pop(self) -> HeldMessage:
        held = self._queue.popleft()
        self._bytes -= held.size
        return held
