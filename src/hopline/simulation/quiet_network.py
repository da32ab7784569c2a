"""A network of any number of nodes and servers without faults, for changes that happen one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

from hopline.cluster import ClusterSettings, LeaseSettings, Membership, Traffic
from hopline.message import WireFormat, to_message
from hopline.node import Network, Node
from hopline.routing import Route
from hopline.simulation.actors import Answer, Answerer, Ask
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

    def __init__(
        self, number: int, network: VirtualNetwork, servers: Sequence[SimulatedServer], cluster: ClusterSettings
    ) -> None:
        self.transport = SimulatedTransport(network, f"m{number}")
        self.traffic = Traffic()
        self.node = Node(
            Answerer("here"),
            identity=f"m{number}#0".encode(),
            clock=network.loop.time,
            network=Network(
                rendezvous=[server.address for server in servers],
                address=f"tcp://m{number}:5000",
                open_without_keys=True,
                cluster=cluster,
                transport=self.transport,
            ),
        )

    async def start(self) -> None:
        """Start the node."""
        await self.node.start()
        self.traffic = self.membership.traffic  # readable after the node has stopped

    async def crash(self) -> None:
        """Crash the node: its connections break, and it does not announce that it leaves."""
        self.transport.crash(is_noticed=True)
        await self.node.stop(0.0)

    async def ask(self, other: QuietNode) -> Answer:
        """Send a request to another node, and return the answer."""
        question = to_message(Ask(0)).with_receiver_node(other.node.identity)
        return await self.node.hub.send(question, callback=Answer)

    @property
    def membership(self) -> Membership:
        """The membership of the running node."""
        membership = self.node.membership
        assert membership is not None  # noqa: S101 - it has a network
        return membership

    @property
    def links(self) -> int:
        """The number of links to other nodes."""
        network = self.node.report().network
        return 0 if network is None else len(network.links)

    def knows(self, other: QuietNode) -> set[Route]:
        """Return the routes to another node that this one knows."""
        return set(self.node.router.directory.elsewhere.routes_to(other.node.identity))


class QuietNetwork:
    """Nodes and servers on a virtual network without faults.

    Args:
        loop: The loop that everything runs on.
        count: The number of nodes.
        servers: The number of rendezvous servers.
        cluster: The settings of all nodes.
        wire_format: The format of all servers; by default any.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        count: int,
        servers: int = 1,
        cluster: ClusterSettings = CLUSTER,
        wire_format: WireFormat | None = None,
    ) -> None:
        self._cluster = cluster
        self.network = VirtualNetwork(loop, Random(count))  # noqa: S311 - not for secrets
        synod = SynodShape(servers, LeaseSettings())
        self.servers = []
        for number in range(servers):
            random = Random(count + number)  # noqa: S311
            self.servers.append(SimulatedServer(number, synod, self.network, random, wire_format))
        self.server = self.servers[0]
        self.nodes = [self.new_node(number) for number in range(count)]

    def new_node(self, number: int) -> QuietNode:
        """Return another node, not started yet."""
        return QuietNode(number, self.network, self.servers, self._cluster)

    async def start(self) -> None:
        """Start all nodes, and wait until they know each other."""
        await self.start_servers()
        for node in self.nodes:
            await node.start()
        await asyncio.sleep(SETTLE_SECONDS)

    async def start_servers(self) -> None:
        """Start all servers."""
        for server in self.servers:
            await server.start()

    async def stop(self) -> None:
        """Stop all nodes and servers."""
        for node in self.nodes:
            await node.node.stop(0.0)
        for server in self.servers:
            await server.crash(is_noticed=True)


def run_quiet_network(
    count: int, scenario: Callable[[QuietNetwork], Awaitable[Result]], cluster: ClusterSettings = CLUSTER
) -> Result:
    """Run a scenario on a network of so many nodes, in virtual time, and return its result."""
    loop = VirtualLoop()

    async def run() -> Result:
        quiet = QuietNetwork(loop, count, cluster=cluster)
        await quiet.start()
        result = await scenario(quiet)
        await quiet.stop()
        return result

    with quiet_logs(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(run())
