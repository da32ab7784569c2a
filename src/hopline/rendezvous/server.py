"""The rendezvous server, as it is started and observed."""

from __future__ import annotations

from random import Random
from types import TracebackType
from typing import Self

from hopline.cluster import Lease, RendezvousAddress
from hopline.message import ArgumentError
from hopline.rendezvous.clocks import Clocks
from hopline.rendezvous.relay import RelayStatistics
from hopline.rendezvous.runtime import ServerRuntime
from hopline.rendezvous.settings import RendezvousSettings


class RendezvousServer:
    """A rendezvous server, to be used as ``async with RendezvousServer(settings) as server``.

    Nodes are given `server.address`. A server that was stopped can be started again.

    Args:
        settings: Addresses, times and limits; by default a single server for this machine.
        clocks: The clocks, which tests replace.
        random: Chooses the identity of the server and the times of its attempts to lead.
    """

    def __init__(
        self, settings: RendezvousSettings | None = None, *, clocks: Clocks | None = None, random: Random | None = None
    ) -> None:
        self.settings = settings or RendezvousSettings()
        self._clocks = clocks or Clocks()
        self._random = random or Random()  # noqa: S311 - not for secrets
        self._runtime: ServerRuntime | None = None

    async def start(self) -> None:
        """Bind the sockets and take part in the election. A single server leads at once.

        Raises:
            ArgumentError: An address cannot be bound.
        """
        if self._runtime is None:
            runtime = ServerRuntime(self.settings, self._clocks, self._random)
            runtime.open()
            self._runtime = runtime

    async def stop(self) -> None:
        """Close all sockets. If this server leads, another one takes over when its lease has expired."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the server was started and not stopped."""
        return self._runtime is not None

    @property
    def runtime(self) -> ServerRuntime:
        """The open sockets and the state of the running server.

        Raises:
            ArgumentError: The server does not run.
        """
        if self._runtime is None:
            raise ArgumentError(
                "rendezvous server", "one that runs: use `async with`, or await start()", "one that is not"
            )
        return self._runtime

    @property
    def address(self) -> RendezvousAddress:
        """Where nodes reach this server."""
        return self.runtime.address

    @property
    def is_leader(self) -> bool:
        """Whether this server leads."""
        return self.runtime.leadership().leads

    @property
    def lease(self) -> Lease | None:
        """The lease that is valid now, whichever server owns it."""
        return self.runtime.keeper.lease(self._clocks.utc())

    @property
    def statistics(self) -> RelayStatistics:
        """What became of the messages that arrived."""
        return self.runtime.relay.statistics

    @property
    def held(self) -> int:
        """The number of messages that wait for a leader."""
        return self.runtime.relay.held
