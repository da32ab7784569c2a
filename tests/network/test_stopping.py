"""How a node leaves its network: what was on its way to it is handled, and what did not leave is told."""

from __future__ import annotations

import asyncio

from hopline import Network, Node
from tests.node.running import on_loop, until

from .frames import V5
from .ours import QUICK, Ehhlo, Hello, Reversing, handlers, our_node, rendezvous


@on_loop
async def test_what_was_on_its_way_to_a_node_that_is_told_to_stop_is_handled() -> None:
    async with rendezvous() as server, our_node(V5, server.address) as client:
        worker = Node(Reversing(), network=Network(rendezvous=(server.address,), cluster=QUICK))
        await worker.start()
        await until(lambda: handlers(client, b"HELLO"))
        assert await client.hub.send(Hello(b"abcd"), callback=Ehhlo) == b"abdc"
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)  # it begins
        answers = [client.hub.try_send(Hello(b"abcd"), callback=Ehhlo, timeout=2.0) for _ in range(20)]
        assert [await answer for answer in answers] == [b"abdc"] * 20
        assert (await stopping).is_clean
