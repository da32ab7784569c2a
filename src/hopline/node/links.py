"""The ways to other nodes, as the router sees them. What lies behind one (sockets, a simulation) is handed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hopline.actors import flow_log
from hopline.message import PeerGoneError
from hopline.transport import Link

log = flow_log("hopline.router")


class Connect(Protocol):
    """Makes the link to a node, when the first message goes there."""

    def __call__(self, node: bytes, uri: str) -> Link:
        """Give the link, or raise `PeerGoneError`."""
        ...


class Links:
    """The links of one node, each made when it is needed, and watched while it has no room.

    `has_room` is told when one of them may have room again; and of a node whose link cannot be waited for: it is gone.
    """

    def __init__(
        self, connect: Connect | None, uri_of: Callable[[bytes], str], has_room: Callable[[bytes | None], None]
    ) -> None:
        self.by_node: dict[bytes, Link] = {}
        self._connect = connect
        self._uri_of = uri_of
        self._has_room = has_room
        self._watched: dict[bytes, asyncio.Task[None]] = {}

    def connect(self, node: bytes) -> Link:
        """Make the link to a node."""
        if self._connect is None:
            raise PeerGoneError(node)
        link = self.by_node[node] = self._connect(node, self._uri_of(node))
        return link

    def drop(self, node: bytes) -> None:
        """Forget the link to a node that is gone, or moved."""
        self.by_node.pop(node, None)
        watch = self._watched.pop(node, None)
        if watch is not None:
            watch.cancel()

    def watch(self, node: bytes, link: Link) -> None:
        """Wait until a link may have room, unless somebody does already."""
        if node not in self._watched:
            # Not by the loop's factory: a task that begins at once would be over before it is noted here.
            self._watched[node] = asyncio.Task(self._wait_for(node, link), loop=asyncio.get_running_loop())

    async def _wait_for(self, node: bytes, link: Link) -> None:
        gone = None
        try:
            await link.room()
        except Exception as error:
            if not isinstance(error, PeerGoneError):
                log.exception("the link to a node failed")
            gone = node
        self._watched.pop(node, None)
        self._has_room(gone)

    def stop_watching(self) -> None:
        """Wait for none of them any more."""
        for watch in self._watched.values():
            watch.cancel()
        self._watched.clear()
