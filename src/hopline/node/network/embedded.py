"""A rendezvous server inside a node, for development: the first node that starts serves the others.

When that node stops, the address becomes free, and the first other node to bind it takes over.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from hopline.message import ArgumentError, BindError, get_logger
from hopline.node.network.settings import Network
from hopline.rendezvous import RendezvousServer, RendezvousSettings
from hopline.transport import parse

log = get_logger("hopline.network")

RETRY_INTERVAL = 1.0  # seconds between attempts to take over, while no server answers
_GOODBYE_TIMEOUT = 0.5  # seconds that the node's goodbye may take to reach its own server
_POLL_INTERVAL = 0.005


class EmbeddedRendezvous:
    """Serves at the address that the node follows, as soon as no other node does."""

    def __init__(self, network: Network, is_joined: Callable[[], bool]) -> None:
        server = network.servers[0]
        self._settings = RendezvousSettings(
            address=server.broadcast_uri,
            unicast_address=server.unicast_uri,
            partner_address=f"tcp://{parse(server.broadcast_uri).host}:0",
            advertise=network.advertise,
            open_without_keys=network.open_without_keys,
            sockets=network.sockets,
            curve=network.curve,
        )
        self._is_joined = is_joined
        self._server: RendezvousServer | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_serving(self) -> bool:
        """Whether this node runs the server."""
        return self._server is not None

    async def start(self) -> None:
        """Serve if no other node does, and take over later if none does any more."""
        await self._try()
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while self._server is None:
            await asyncio.sleep(RETRY_INTERVAL)
            if not self._is_joined():
                await self._try()

    async def _try(self) -> None:
        server = RendezvousServer(self._settings)
        try:
            await server.start()
        except (ArgumentError, BindError) as error:
            if getattr(error, "errno", None) != errno.EADDRINUSE:  # else another node serves there
                log.warning("this node cannot serve as the rendezvous: %s", error)
            return
        self._server = server
        log.info("this node serves as the rendezvous at %s", self._settings.address)

    async def stop(self, goodbyes: int) -> None:
        """Relay the goodbyes of this node, of which there are so many, and stop."""
        if self._task is not None:
            self._task.cancel()
        if self._server is None:
            return
        server, self._server = self._server, None
        loop = asyncio.get_running_loop()
        awaited, deadline = server.statistics.received + goodbyes, loop.time() + _GOODBYE_TIMEOUT
        while server.statistics.received < awaited and loop.time() < deadline:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(_POLL_INTERVAL)
        await server.stop()
