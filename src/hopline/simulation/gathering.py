"""A calm network of any number of nodes and one server, for things that happen one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from hopline.cluster import ClusterSettings, LeaseSettings, Traffic
from hopline.node import Network as NodeNetwork
from hopline.node import Node
from hopline.routing import Route
from hopline.simulation.actors import Answerer
from hopline.simulation.loop import VirtualLoop, quiet_logs
from hopline.simulation.network import Network
from hopline.simulation.server import Server, SynodShape
from hopline.simulation.transport import SimulatedTransport

SETTLE_SECONDS = 6.0
# Once everybody is there, nobody asks of himself for what the others have: what is known then was said.
CLUSTER = ClusterSettings(
    heartbeat_interval=1.0, routes_period=1e6, routes_start_delay=0.5, routes_start_multiplier=3, tick=0.1
)

Result = TypeVar("Result")


class Attendee:
    """One node, with one actor."""

    def __init__(self, number: int, network: Network, server: Server) -> None:
        self.transport = SimulatedTransport(network, f"m{number}")
        self.traffic = Traffic()
        self.node = Node(
            Answerer("here"),
            identity=f"m{number}#0".encode(),
            clock=network.loop.time,
            network=NodeNetwork(
                rendezvous=[server.address],
                address=f"tcp://m{number}:5000",
                open_without_keys=True,
                cluster=CLUSTER,
                transport=self.transport,
            ),
        )

    async def start(self) -> None:
        """Come."""
        await self.node.start()
        if self.node.membership is not None:
            self.traffic = self.node.membership.traffic  # which outlives the node

    async def crash(self) -> None:
        """Be gone, without a word."""
        self.transport.crash(is_noticed=True)
        await self.node.stop(0.0)

    def knows(self, other: Attendee) -> set[Route]:
        """Give what this node knows of another."""
        return set(self.node.router.directory.elsewhere.routes_to(other.node.identity))


class Gathering:
    """Nodes that have found each other."""

    def __init__(self, loop: VirtualLoop, count: int) -> None:
        self.network = Network(loop, Random(count))  # noqa: S311 - chance, not secrets
        self.server = Server(0, SynodShape(1, LeaseSettings()), self.network, Random(count))  # noqa: S311
        self.attendees = [self.newcomer(number) for number in range(count)]

    def newcomer(self, number: int) -> Attendee:
        """Make a node that is not there yet."""
        return Attendee(number, self.network, self.server)

    async def begin(self) -> None:
        """Let everybody come, and settle."""
        await self.server.start()
        for one in self.attendees:
            await one.start()
        await asyncio.sleep(SETTLE_SECONDS)

    async def end(self) -> None:
        """Let everybody go."""
        for one in self.attendees:
            await one.node.stop(0.0)
        await self.server.crash(is_noticed=True)


def gather(count: int, happening: Callable[[Gathering], Awaitable[Result]]) -> Result:
    """Let something happen among so many nodes, in virtual time."""
    loop = VirtualLoop()

    async def run() -> Result:
        gathering = Gathering(loop, count)
        await gathering.begin()
        result = await happening(gathering)
        await gathering.end()
        return result

    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(run())
