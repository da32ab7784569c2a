"""A simulated machine: it runs a real node on a clock of its own, and can crash, pause and start again."""

from __future__ import annotations

from random import Random

from hopline.actors import Actor
from hopline.cluster import ClusterSettings, Membership, RendezvousAddress
from hopline.message import Message, NotRunningError
from hopline.node import Network, Node, NodeSettings
from hopline.simulation.actors import Answerer, FirstStage, Listener, SecondStage, SlowAnswerer, Troublemaker
from hopline.simulation.invariants import CheckedHub, NodeInvariants
from hopline.simulation.network import FORMATS, VirtualNetwork
from hopline.simulation.transport import SimulatedTransport


class Machine:
    """One node with its actors, on one host.

    Args:
        name: The name of the host.
        network: The network that the host is connected to.
        invariants: Observes the node.
        random: Chooses the settings and the actors of the node.
        hop_limit: The hop limit of all nodes.
        servers: The rendezvous servers.
        has_hook: Whether outcomes are observed. Without a hook a node takes shorter paths, which must be tested too.
    """

    def __init__(
        self,
        name: str,
        network: VirtualNetwork,
        invariants: NodeInvariants,
        random: Random,
        hop_limit: int,
        servers: list[RendezvousAddress],
        *,
        has_hook: bool,
    ) -> None:
        self.name = name
        self.hub_port: CheckedHub | None = None
        self.started_at = self.resumed_at = 0.0
        self._is_up = False
        self._network = network
        self._invariants = invariants
        self._has_hook = has_hook
        self._clock_offset = 0.0
        self._stopped_at: float | None = None  # by the machine's own clock, while that stands
        self._transport = SimulatedTransport(network, name)
        self.host = self._transport.host
        self._identity_number = 0
        self._port = 5000
        self._wire_format = random.choice((None, *FORMATS))
        self._servers = random.sample(servers, len(servers))
        self.settings = NodeSettings(
            mailbox_capacity=random.choice((1, 5, 100)),
            concurrency=random.choice((1, 3, 100)),
            request_timeout=5.0,
            backpressure_timeout=random.choice((0.5, 3.0)),
            backpressure_capacity=random.choice((2, 100)),
            unrouted_capacity=random.choice((0, 3, 100)),
            discovery_timeout=random.choice((0.2, 1.5)),
            hop_limit=hop_limit,
            drain_timeout=0.5,
            cancel_timeout=0.5,
        )
        self.cluster = ClusterSettings(
            heartbeat_interval=random.choice((0.5, 1.0)),
            rendezvous_silence=3.0,
            rendezvous_reconnect=0.5,
            probe_timeout=1.0,
            announce_period=0.5,
            repeat_after=6.0,
            routes_period=random.choice((2.0, 3.0)),
            routes_start_delay=0.5,
            routes_start_multiplier=3,
            discovery_period=0.5,
            tick=0.1,
        )
        self.node = self._new_node(self._random_actors(random))

    def _random_actors(self, random: Random) -> list[Actor]:
        actors: list[Actor] = [
            Answerer(self.name),
            SlowAnswerer(self.name, random),
            FirstStage(),
            SecondStage(),
            Listener(self.name),
            Listener(self.name),
            Troublemaker(),
        ]
        count = random.randint(0, len(actors))
        return random.sample(actors, count)

    def _new_node(self, actors: list[Actor]) -> Node:
        return Node(
            *actors,
            identity=f"{self.name}#{self._identity_number}".encode(),
            settings=self.settings,
            on_outcome=self._invariants.on_outcome if self._has_hook else None,
            clock=self.clock,
            network=Network(
                rendezvous=self._servers,
                address=f"tcp://{self.name}:{self._port}",
                open_without_keys=True,
                wire_format=self._wire_format,
                join_timeout=0.3,
                cluster=self.cluster,
                transport=self._transport,
            ),
        )

    @property
    def identity(self) -> bytes:
        """The identity of its current node."""
        return self.node.identity

    @property
    def membership(self) -> Membership:
        """The membership of its node."""
        membership = self.node.membership
        assert membership is not None  # noqa: S101 - it has a network
        return membership

    @property
    def is_up(self) -> bool:
        """Whether the machine and its node run."""
        return self._is_up and self.node.is_running

    # -- time ----------------------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """Return the time by the machine's own clock."""
        if self._stopped_at is not None:
            return self._stopped_at
        return self._network.loop.time() + self._clock_offset

    def jump_clock(self, seconds: float) -> None:
        """Advance the machine's clock, as after a suspension."""
        self._clock_offset += seconds

    @property
    def is_paused(self) -> bool:
        """Whether the machine is paused."""
        return self.host.is_held_up

    def pause(self) -> None:
        """Pause the machine: its clock stands, nothing leaves it and nothing arrives."""
        self._stopped_at = self.clock()
        self._network.hold_up(self.host)

    def resume_clock(self) -> None:
        """Resume the clock before anything arrives: to the node, all others have been silent."""
        self._stopped_at = None

    def resume(self) -> None:
        """Resume the machine: everything that was held up happens at once."""
        self._stopped_at = None
        self.resumed_at = self._network.loop.time()
        self._network.let_go(self.host)

    # -- starting and stopping -----------------------------------------------------------------------------------------

    def replace_node(self, *, has_new_address: bool, has_new_identity: bool) -> None:
        """Replace a stopped node by another with the same actors."""
        if not self.node.is_running:
            self._port += has_new_address
            self._identity_number += has_new_identity
            self.node = self._new_node(list(self.node.actors))

    async def start(self) -> None:
        """Start the node."""
        self._invariants.node_started(self.identity)
        try:
            await self.node.start()
        except NotRunningError:  # the machine crashed meanwhile
            return
        if not self.is_up:
            self.started_at = self._network.loop.time()
        self._is_up = True
        is_new = self.hub_port is None or self.hub_port.identity != self.node.hub.identity
        if is_new:
            self.hub_port = CheckedHub(self.node.hub, self._invariants.report)
            self.node.router.directory.add_hub(self.hub_port)

    def received(self, message: Message) -> None:
        """Record a message that has arrived, before the node processes it."""
        self._invariants.received(self.identity, message, self.clock())

    async def crash(self, *, is_noticed: bool) -> None:
        """Stop at once: nothing is sent any more, and what waits is lost.

        Args:
            is_noticed: Whether others notice that their connections broke.
        """
        self._is_up = False
        self._transport.crash(is_noticed=is_noticed)
        self._invariants.node_stopped(self.identity, self._network.loop.time(), self.cluster.heartbeat_interval)
        await self.node.stop(0.0)

    async def shut_down(self) -> None:
        """Stop the node in order."""
        await self.node.stop()
        self._is_up = False
        self._invariants.node_stopped(self.identity, self._network.loop.time(), self.cluster.heartbeat_interval)
