"""A simulated machine: a real node on a clock of its own, with its actors, that can crash and come back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hopline.actors import Actor
from hopline.message import Message, MessageIdentifier
from hopline.node import Node, NodeSettings
from hopline.simulation.actors import Answerer, FirstStage, Listener, SecondStage, SlowAnswerer, Troublemaker
from hopline.simulation.network import Network, SimulatedLink
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
        look_for: Callable[[Machine, Message], None],
        has_hook: bool,
    ) -> None:
        self.name = name
        self.identity = name.encode()
        self._is_up = False
        self.hub_port: WatchedHub | None = None
        self._network = network
        self._watch = watch
        self._look_for = look_for
        self._clock_offset = 0.0
        self.node = Node(
            *self._some_actors(random),
            identity=self.identity,
            uri=f"tcp://{name}:1",
            settings=NodeSettings(
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
            ),
            on_outcome=watch.settled if has_hook else None,
            clock=self.clock,
            connect=self._connect,
            discover=self._discover,
        )

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

    def _connect(self, node: bytes, uri: str) -> SimulatedLink:  # noqa: ARG002 - one address each
        return self._network.link(self.identity, node)

    def _discover(self, message: Message) -> None:
        self._look_for(self, message)

    @property
    def is_up(self) -> bool:
        """Tell whether the machine is up, and its node with it."""
        return self._is_up and self.node.is_running

    def clock(self) -> float:
        """Tell the machine's own time."""
        return self._network.loop.time() + self._clock_offset

    def jump(self, seconds: float) -> None:
        """Let the machine's clock leap forward, as after a pause of the machine."""
        self._clock_offset += seconds

    async def start(self) -> None:
        """Come up."""
        await self.node.start()
        self._is_up = True
        if self.hub_port is None or self.hub_port.identity != self.node.hub.identity:  # else it came up already
            self.hub_port = WatchedHub(self.node.hub, self._watch.note)
            self.node.router.add_hub(self.hub_port)
        self._network.receivers[self.identity] = self._receive

    def _receive(self, message: Message) -> None:
        self._watch.received(self.identity, message, self.clock())
        self.node.router.receive(message)

    async def crash(self) -> None:
        """Go down at once: nothing comes out any more, and what was under way is gone."""
        self._is_up = False
        self._network.receivers.pop(self.identity, None)
        await self.node.stop(0.0)

    async def shut_down(self) -> None:
        """Go down in order."""
        await self.node.stop()
        self._is_up = False
        self._network.receivers.pop(self.identity, None)

    def handles(self, identifier: MessageIdentifier) -> bool:
        """Tell whether an actor here handles a message and others may know."""
        return bool(self.node.router.advertised(identifier))
