"""A rendezvous server inside a node, for development: whoever comes first serves the others.

When the one who had it goes away, the address is free, and whichever node gets it next takes over.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from hopline.message import LocalError, get_logger
from hopline.node.network import Network
from hopline.node.rendezvous import RendezvousServer, RendezvousSettings
from hopline.transport import parse

log = get_logger("hopline.network")

RETRY = 1.0  # seconds between tries to take over, while nobody answers
_LAST_WORDS = 0.5  # seconds that the node's goodbye may take to come here
_LOOK = 0.005


class EmbeddedRendezvous:
    """Serves at the address that the node follows, as soon as nobody else does."""

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
        """Tell whether this node has the server."""
        return self._server is not None

    async def start(self) -> None:
        """Serve if nobody does, and keep an eye on it."""
        await self._try()
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while self._server is None:
            await asyncio.sleep(RETRY)
            if not self._is_joined():
                await self._try()

    async def _try(self) -> None:
        server = RendezvousServer(self._settings)
        try:
            await server.start()
        except LocalError as error:
            if getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:  # else somebody serves there
                log.warning("this node cannot serve as the rendezvous: %s", error)
            return
        self._server = server
        log.info("this node serves as the rendezvous at %s", self._settings.address)

    async def stop(self, goodbyes: int) -> None:
        """Relay the last words of the own node, so many, and stop."""
        if self._task is not None:
            self._task.cancel()
        if self._server is None:
            return
        server, self._server = self._server, None
        loop = asyncio.get_running_loop()
        awaited, deadline = server.statistics.received + goodbyes, loop.time() + _LAST_WORDS
        while server.statistics.received < awaited and loop.time() < deadline:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(_LOOK)
        await server.stop()
