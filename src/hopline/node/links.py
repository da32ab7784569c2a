"""The way to another node, as the router sees it. What lies behind it (sockets, a simulation) is handed in."""

from __future__ import annotations

from typing import Protocol

from hopline.message import Message


class Link(Protocol):
    """Takes messages for one other node."""

    def offer(self, message: Message) -> bool:
        """Take a message, or say that there is no room. Raises `PeerGoneError` when the peer is gone."""
        ...

    async def room(self) -> None:
        """Wait until there may be room."""
        ...


class Connect(Protocol):
    """Makes the link to a node, when the first message goes there."""

    def __call__(self, node: bytes, uri: str) -> Link:
        """Give the link, or raise `PeerGoneError`."""
        ...
