"""A network in processes of their own: two nodes that price, one that is killed, and requests that all come home.

The customer's process runs the rendezvous server and a node without actors. It knows nobody's address: the others find
it, and it finds them. When one of them dies, what it held fails within its timeout, and the rest goes to the other.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter

from hopline import (
    Actor,
    AnswerTimeoutError,
    Network,
    Node,
    Payload,
    RendezvousServer,
    RendezvousSettings,
    Request,
    handler,
)
from hopline.cluster import ClusterSettings, RendezvousAddress

CLUSTER = ClusterSettings(heartbeat_interval=1.0)


class Priced(Payload):
    """An answer, and which process it came from."""

    sku: str
    cents: int
    process: int


class Price(Request[Priced]):
    """Its question."""

    sku: str


class Pricing(Actor):
    """Knows what things cost, if it is given a moment."""

    @handler
    async def price(self, question: Price) -> Priced:
        """Look it up."""
        await asyncio.sleep(0.02)
        return Priced(question.sku, cents=100 * len(question.sku), process=os.getpid())


async def serve(broadcast_uri: str, unicast_uri: str) -> None:
    """Be one of the nodes that price, until the customer leaves."""
    network = Network(rendezvous=[RendezvousAddress(broadcast_uri, unicast_uri)], cluster=CLUSTER)
    async with Node(Pricing(), network=network):
        await asyncio.to_thread(sys.stdin.read)


async def start(server: RendezvousServer) -> asyncio.subprocess.Process:
    """Start another process with a node that prices."""
    address = server.address
    return await asyncio.create_subprocess_exec(
        sys.executable, __file__, address.broadcast_uri, address.unicast_uri, stdin=asyncio.subprocess.PIPE
    )


async def ask(node: Node, count: int) -> Counter[str]:
    """Ask for so many prices at once, and count who answered."""

    async def one(number: int) -> str:
        try:
            priced = await node.hub.ask(Price(f"item {number}"), timeout=2)
        except AnswerTimeoutError:
            return "nobody in time"
        return f"process {priced.process}"

    return Counter(await asyncio.gather(*map(one, range(count))))


async def main() -> None:
    """Let a network form, lose a node, and go on."""
    async with (
        RendezvousServer(RendezvousSettings(address="tcp://127.0.0.1:0")) as server,
        Node(network=Network(rendezvous=[server.address], cluster=CLUSTER)) as customer,
    ):
        first, second = processes = [await start(server) for _ in range(2)]
        names = {f"process {process.pid}": name for process, name in zip(processes, "AB", strict=True)}
        try:
            print("asking before anybody is there: the questions wait until somebody is found")
            while len(await ask(customer, 10)) < 2:
                pass
            shares = await ask(customer, 200)
            print("200 questions:", ", ".join(f"{names[who]} answered {shares[who]}" for who in names))

            under_way = asyncio.ensure_future(ask(customer, 200))
            await asyncio.sleep(0.02)
            first.kill()
            shares = await under_way
            print(f"A is killed with questions in its hands: {sum(shares.values())} of 200 came home or failed in time")

            shares = await ask(customer, 200)
            while set(shares) != {f"process {second.pid}"}:
                shares = await ask(customer, 200)
            print("soon B answers all of them")
        finally:
            for process in processes:
                if process.returncode is None:
                    process.terminate()
                await process.wait()
        print("every message accounted for:", customer.stats().is_balanced)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]) if len(sys.argv) > 1 else main())
