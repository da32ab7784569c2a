"""The lifespan of actors in a network: who starts may ask others, and gets messages only when all have started."""

from __future__ import annotations

import asyncio

from hopline import Actor, Context, Network, Node, handler
from tests.node.running import on_loop, soon, until

from .ours import QUICK, Ehhlo, Hello, Reversing, rendezvous


class Starting(Actor):
    """Asks another node while it starts, and while it stops."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.answers: list[Ehhlo] = []
        self.seen: list[Hello] = []

    async def on_start(self, node: Node) -> None:
        self.answers.append(await node.hub.send(Hello(b"12start"), callback=Ehhlo))
        self.begun.set()
        await self.gate.wait()

    @handler(Hello, keep_local=True)
    def hear(self, hello: Hello, context: Context) -> None:
        self.seen.append(hello)

    async def on_stop(self, node: Node) -> None:
        self.answers.append(await node.hub.send(Hello(b"12stop"), callback=Ehhlo))


class Announced(Actor):
    @handler
    def hear(self, ehhlo: Ehhlo) -> None: ...


@on_loop
async def test_an_actor_may_ask_other_nodes_while_it_starts_and_while_it_stops() -> None:
    starting = Starting()
    async with rendezvous() as server:
        network = Network(rendezvous=[server.address], cluster=QUICK)
        other = Node(Reversing(), network=network)
        node = Node(Announced(), starting, network=network)
        async with other:
            start = asyncio.create_task(node.start())
            await soon(starting.begun.wait())
            await until(lambda: len(other.known_nodes) == 1)  # its hub
            assert not node.hosts
            assert not any(known.actors for known in other.known_nodes)
            starting.gate.set()
            await soon(start)
            assert len(node.hosts) == 2
            await until(lambda: any(known.actors for known in other.known_nodes))
            await node.stop()
            assert starting.answers == [b"12trats", b"12pots"]
