"""A network of any number of nodes and one server without faults, for changes that happen one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from hopline.cluster import ClusterSettings, LeaseSettings, Traffic
from hopline.node import Network, Node
from hopline.routing import Route
from hopline.simulation.actors import Answerer
from hopline.simulation.loop import VirtualLoop, quiet_logs
from hopline.simulation.network import VirtualNetwork
from hopline.simulation.server import SimulatedServer, SynodShape
from hopline.simulation.transport import SimulatedTransport

SETTLE_SECONDS = 6.0
# Periodic requests for routes are switched off: what nodes know once all have joined is what was announced.
CLUSTER = ClusterSettings(
    heartbeat_interval=1.0, routes_period=1e6, routes_start_delay=0.5, routes_start_multiplier=3, tick=0.1
)

Result = TypeVar("Result")


class QuietNode:
    """One node with one actor."""

    def __init__(self, number: int, network: VirtualNetwork, server: SimulatedServer) -> None:
        self.transport = SimulatedTransport(network, f"m{number}")
        self.traffic = Traffic()
        self.node = Node(
            Answerer("here"),
            identity=f"m{number}#0".encode(),
            clock=network.loop.time,
            network=Network(
                rendezvous=[server.address],
                address=f"tcp://m{number}:5000",
                open_without_keys=True,
                cluster=CLUSTER,
                transport=self.transport,
            ),
        )

    async def start(self) -> None:
        """Start the node."""
        await self.node.start()
        if self.node.membership is not None:
            self.traffic = self.node.membership.traffic  # readable after the node has stopped

    async def crash(self) -> None:
        """Crash the node: its connections break, and it does not announce that it leaves."""
        self.transport.crash(is_noticed=True)
        await self.node.stop(0.0)

    def knows(self, other: QuietNode) -> set[Route]:
        """Return the routes to another node that this one knows."""
        return set(self.node.router.directory.elsewhere.routes_to(other.node.identity))


class QuietNetwork:
    """Nodes and a server on a virtual network without faults."""

    def __init__(self, loop: VirtualLoop, count: int) -> None:
        self.network = VirtualNetwork(loop, Random(count))  # noqa: S311 - not for secrets
        self.server = SimulatedServer(0, SynodShape(1, LeaseSettings()), self.network, Random(count))  # noqa: S311
        self.nodes = [self.new_node(number) for number in range(count)]

    def new_node(self, number: int) -> QuietNode:
        """Return another node, not started yet."""
        return QuietNode(number, self.network, self.server)

    async def start(self) -> None:
        """Start all nodes, and wait until they know each other."""
        await self.server.start()
        for node in self.nodes:
            await node.start()
        await asyncio.sleep(SETTLE_SECONDS)

    async def stop(self) -> None:
        """Stop all nodes and the server."""
        for node in self.nodes:
            await node.node.stop(0.0)
        await self.server.crash(is_noticed=True)


def run_quiet_network(count: int, scenario: Callable[[QuietNetwork], Awaitable[Result]]) -> Result:
    """Run a scenario on a network of so many nodes, in virtual time, and return its result."""
    loop = VirtualLoop()

    async def run() -> Result:
        quiet = QuietNetwork(loop, count)
        await quiet.start()
        result = await scenario(quiet)
        await quiet.stop()
        return result

    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(run())
