"""The links to other nodes, as the router uses them. How a link is made (sockets, a simulation) is passed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hopline.actors import flow_log
from hopline.message import PeerGoneError
from hopline.transport import Link

log = flow_log("hopline.router")


class Connect(Protocol):
    """Opens the link to a node, when the first message goes there."""

    def __call__(self, node: bytes, uri: str) -> Link:
        """Return the link, or raise `PeerGoneError`."""
        ...


class Links:
    """The links of one node, each opened when it is first needed, and watched while it is full.

    Args:
        connect: Opens a link; without it, there are none.
        uri_of: Returns the address of a node.
        has_room: Called with None when a link may have room again, and with the node if that is gone.
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
        """Open the link to a node, or raise `PeerGoneError`."""
        if self._connect is None:
            raise PeerGoneError(node)
        link = self.by_node[node] = self._connect(node, self._uri_of(node))
        return link

    def drop(self, node: bytes) -> None:
        """Drop the link to a node that is gone or has moved."""
        self.by_node.pop(node, None)
        watch = self._watched.pop(node, None)
        if watch is not None:
            watch.cancel()

    def watch(self, node: bytes, link: Link) -> None:
        """Start to wait until a link has room, unless that was done already."""
        if node not in self._watched:
            # Not by the loop's task factory: an eager task could be over before it is noted here.
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
        """Stop waiting for room in links."""
        for watch in self._watched.values():
            watch.cancel()
        self._watched.clear()
