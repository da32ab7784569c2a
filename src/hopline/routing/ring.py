"""Sets whose members take turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from hopline.message import MessageIdentifier

Member = TypeVar("Member", bound=Hashable)


class Ring(Generic[Member]):
    """Members in the order of their turns. All operations except iteration take constant time."""

    def __init__(self) -> None:
        self._members: OrderedDict[Member, None] = OrderedDict()
        self.only: Member | None = None  # the member, if there is exactly one

    def add(self, member: Member) -> None:
        """Append a member, unless it is in the ring."""
        self._members.setdefault(member)
        self._note_only()

    def discard(self, member: Member) -> None:
        """Remove a member, if it is in the ring."""
        self._members.pop(member, None)
        self._note_only()

    def _note_only(self) -> None:
        has_one_member = len(self._members) == 1
        self.only = next(iter(self._members)) if has_one_member else None

    def rotate(self) -> Member:
        """Return the member whose turn it is, and move it to the end."""
        member = next(iter(self._members))
        self._members.move_to_end(member)
        return member

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: object) -> bool:
        return member in self._members


class HandlerRings(dict[MessageIdentifier, Ring[bytes]]):
    """The handlers of each message, in the order of their turns. A message without handlers has no entry."""

    def add(self, identifier: MessageIdentifier, handler: bytes) -> None:
        """Add a handler of a message, unless it is there."""
        ring = self.setdefault(identifier, Ring())
        ring.add(handler)

    def discard(self, identifier: MessageIdentifier, handler: bytes) -> None:
        """Remove a handler of a message that has handlers."""
        ring = self[identifier]
        ring.discard(handler)
        if not ring:
            del self[identifier]
