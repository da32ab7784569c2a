"""A simulated machine: a real node on a clock of its own, with its actors, that can crash and come back."""

from __future__ import annotations

from random import Random

from hopline.actors import Actor
from hopline.cluster import ClusterSettings, Membership, RendezvousAddress
from hopline.message import Message, NotRunningError
from hopline.node import Network as NodeNetwork
from hopline.node import Node, NodeSettings
from hopline.simulation.actors import Answerer, FirstStage, Listener, SecondStage, SlowAnswerer, Troublemaker
from hopline.simulation.network import FORMATS, Network
from hopline.simulation.transport import SimulatedTransport
from hopline.simulation.watch import Watch, WatchedHub


class Machine:
    """One node, and what the world does to it."""

    def __init__(
        self,
        name: str,
        network: Network,
        watch: Watch,
        random: Random,
        hop_limit: int,
        servers: list[RendezvousAddress],
        *,
        has_hook: bool,
    ) -> None:
        self.name = name
        self.hub_port: WatchedHub | None = None
        self.started_at = self.resumed_at = 0.0
        self._is_up = False
        self._network = network
        self._watch = watch
        self._has_hook = has_hook
        self._clock_offset = 0.0
        self._stopped_at: float | None = None  # by the machine's own clock, while it is paused
        self._transport = SimulatedTransport(network, name)
        self.host = self._transport.host
        self._lives = self._ports = 0
        self._wire_format = random.choice((None, *FORMATS))
        self._servers = random.sample(servers, len(servers))
        self.settings = NodeSettings(
            mailbox_capacity=random.choice((1, 5, 100)),
            concurrency=random.choice((1, 3, 100)),
            answer_time=5.0,
            room_time=random.choice((0.5, 3.0)),
            waiting_for_room=random.choice((2, 100)),
            parked_messages=random.choice((0, 3, 100)),
            parking_time=random.choice((0.2, 1.5)),
            hop_limit=hop_limit,
            drain_time=0.5,
            stop_grace=0.5,
        )
        self.cluster = ClusterSettings(
            heartbeat_interval=random.choice((0.5, 1.0)),
            rendezvous_silence=3.0,
            rendezvous_reconnect=0.5,
            probe_time=1.0,
            announce_period=0.5,
            routes_period=random.choice((2.0, 3.0)),
            routes_start_delay=0.5,
            routes_start_multiplier=3,
            discovery_period=0.5,
            tick=0.1,
        )
        self.node = self._new_node(self._some_actors(random))

    def _some_actors(self, random: Random) -> list[Actor]:
        every: list[Actor] = [
            Answerer(self.name),
            SlowAnswerer(self.name, random),
            FirstStage(),
            SecondStage(),
            Listener(self.name),
            Listener(self.name),
            Troublemaker(),
        ]
        return random.sample(every, random.randint(0, len(every)))

    def _new_node(self, actors: list[Actor]) -> Node:
        return Node(
            *actors,
            identity=f"{self.name}#{self._lives}".encode(),
            settings=self.settings,
            on_outcome=self._watch.settled if self._has_hook else None,
            clock=self.clock,
            network=NodeNetwork(
                rendezvous=self._servers,
                address=f"tcp://{self.name}:{5000 + self._ports}",
                open_without_keys=True,
                wire_format=self._wire_format,
                join_time=0.3,
                cluster=self.cluster,
                transport=self._transport,
            ),
        )

    @property
    def identity(self) -> bytes:
        """Who its node is in this life."""
        return self.node.identity

    @property
    def membership(self) -> Membership:
        """Its node's part in the cluster."""
        membership = self.node.membership
        assert membership is not None  # noqa: S101 - it has a network
        return membership

    @property
    def is_up(self) -> bool:
        """Tell whether the machine is up, and its node with it."""
        return self._is_up and self.node.is_running

    # -- time ----------------------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """Tell the machine's own time."""
        if self._stopped_at is not None:
            return self._stopped_at
        return self._network.loop.time() + self._clock_offset

    def jump(self, seconds: float) -> None:
        """Let the machine's clock leap forward, as after a pause of the machine."""
        self._clock_offset += seconds

    @property
    def is_paused(self) -> bool:
        """Tell whether nothing happens on the machine."""
        return self.host.is_held_up

    def pause(self) -> None:
        """Let nothing happen on the machine: its clock stands, nothing leaves it and nothing comes in."""
        self._stopped_at = self.clock()
        self._network.hold_up(self.host)

    def go_on_thinking(self) -> None:
        """Let the clock go on where it would be, before anything comes in: whoever looks sees silence everywhere."""
        self._stopped_at = None

    def resume(self) -> None:
        """Let everything happen at once that should have."""
        self._stopped_at = None
        self.resumed_at = self._network.loop.time()
        self._network.let_go(self.host)

    # -- coming and going ----------------------------------------------------------------------------------------------

    def be_reborn(self, *, elsewhere: bool, as_another: bool) -> None:
        """Have another node with the same actors when it comes up again: at another address, under another identity."""
        if not self.node.is_running:
            self._ports += elsewhere
            self._lives += as_another
            self.node = self._new_node(list(self.node.actors))

    async def start(self) -> None:
        """Come up."""
        self._watch.came_up(self.identity)
        try:
            await self.node.start()
        except NotRunningError:  # it crashed meanwhile
            return
        if not self.is_up:
            self.started_at = self._network.loop.time()
        self._is_up = True
        if self.hub_port is None or self.hub_port.identity != self.node.hub.identity:  # else it came up already
            self.hub_port = WatchedHub(self.node.hub, self._watch.note)
            self.node.router.directory.add_hub(self.hub_port)

    def received(self, message: Message) -> None:
        """Note that a message came, before the node takes it."""
        self._watch.received(self.identity, message, self.clock())

    async def crash(self, *, is_noticed: bool) -> None:
        """Go down at once: nothing comes out any more, and what was under way is gone."""
        self._is_up = False
        self._transport.crash(is_noticed=is_noticed)
        self._watch.went_down(self.identity, self._network.loop.time(), self.cluster.heartbeat_interval)
        await self.node.stop(0.0)

    async def shut_down(self) -> None:
        """Go down in order."""
        await self.node.stop()
        self._is_up = False
        self._watch.went_down(self.identity, self._network.loop.time(), self.cluster.heartbeat_interval)
