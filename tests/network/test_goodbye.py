"""Nodes of the reference lose nothing when a node of ours leaves: a peer with its tables asks before and after."""

from __future__ import annotations

import pytest

from hopline import RAW, Actor, handler, payload
from tests.node.running import on_loop, until

from .frames import V6, Fields, address_of, read, registration, unregistration, wire_of
from .ours import Ehhlo, Hello, Reversing, membership, our_node, rendezvous
from .reference_tables import ReferenceTables
from .scripted import EHHLO, HELLO, KinoNode

REQUESTS = 300
BATCH = 50
CYCLES = 3


@payload("FIRST.OTHER", serializer=RAW)
class FirstOther(bytes):
    """A message that the actor handles besides."""


@payload("LAST.OTHER", serializer=RAW)
class LastOther(bytes):
    """Another one."""


class Versatile(Actor):
    """Handles HELLO, which is neither the first nor the last of its messages."""

    @handler
    def first(self, body: FirstOther) -> Ehhlo:
        return Ehhlo(body)

    @handler
    def hello(self, body: Hello) -> Ehhlo:
        return Ehhlo(body)

    @handler
    def last(self, body: LastOther) -> Ehhlo:
        return Ehhlo(body)


class Asking(KinoNode):
    """A peer with the tables of the reference, which sends each request to the node whose turn it is."""

    def listen(self) -> None:
        """Keep the tables by what is broadcast from now on."""
        self.tables = ReferenceTables()

        async def follow() -> None:
            frames = await self.hear_any()
            if wire_of(frames) != self.wire:  # a copy for others, which the reference drops
                return
            message = read(self.wire, frames)
            self.tables.take(message)
            if message.identity == b"KINO.REQCLUSTROUTES":
                await self.announce([(self.hub, [])])

        self.every(0, follow)

    async def answered(self, count: int) -> int:
        """Send so many requests and return how many were answered."""
        answered = 0
        for _ in range(0, count, BATCH):
            sent = [await self._ask() for _ in range(BATCH)]
            for _ in range(sum(sent)):
                assert read(self.wire, await self.received()).identity == EHHLO
                answered += 1
        return answered

    async def _ask(self) -> bool:
        try:
            node, uri = self.tables.pick(HELLO)
        except KeyError:
            return False
        await self.tell(node, uri, self.request(b"hi"))
        return True


@on_loop
async def test_a_peer_with_the_references_tables_loses_nothing_however_often_a_node_comes_and_goes() -> None:
    async with (
        rendezvous(V6) as server,
        Asking(V6, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        await kino.join(routes=[(kino.hub, [])])
        kino.listen()
        answered = []
        for _ in range(CYCLES):
            async with our_node(V6, server.address, actors=(Versatile(),)) as node:
                await until(lambda: node.identity in kino.tables.addresses and kino.tables.nodes_for(HELLO))
                await until(lambda: kino.identity in membership(node).health)
                answered.append(await kino.answered(REQUESTS))
            await until(lambda: node.identity not in kino.tables.addresses)
            assert kino.tables.nodes_for(HELLO) == []
        assert answered == [REQUESTS] * CYCLES


@on_loop
async def test_an_actor_that_is_removed_takes_only_what_no_other_actor_of_the_node_handles() -> None:
    hello, versatile = Reversing(), Versatile()
    async with (
        rendezvous(V6) as server,
        Asking(V6, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        await kino.join(routes=[(kino.hub, [])])
        kino.listen()
        async with our_node(V6, server.address, actors=(hello, versatile)) as node:
            await until(lambda: kino.tables.nodes_for(b"LAST.OTHER") and kino.tables.nodes_for(HELLO))
            await until(lambda: kino.identity in membership(node).health)
            await node.remove(versatile)
            await until(lambda: not kino.tables.nodes_for(b"LAST.OTHER"))
            assert kino.tables.nodes_for(b"FIRST.OTHER") == []
            assert kino.tables.nodes_for(HELLO) == [node.identity]
            assert await kino.answered(BATCH) == BATCH
        await until(lambda: not kino.tables.nodes_for(HELLO))


@pytest.mark.parametrize(("names_actors", "lost"), [(True, [0, 150, 200]), (False, [0, 0, 0])])
def test_the_tables_are_poisoned_by_withdrawals_that_name_actors_as_those_of_the_reference_were(
    *, names_actors: bool, lost: list[int]
) -> None:
    tables = ReferenceTables()
    contracts = [b"FIRST.OTHER", HELLO, b"LAST.OTHER"]
    seen = []
    for cycle in range(CYCLES):
        uri, node, actor = f"tcp://127.0.0.1:{5000 + cycle}", b"node %d" % cycle, b"\x01actor"
        tables.take(Fields(b"KINO.REGEXTROUTE", registration(uri, node, [(actor, contracts)], uri, 1000)))
        missed = 0
        for _ in range(REQUESTS):
            try:
                tables.pick(HELLO)
            except KeyError:
                missed += 1
        seen.append(missed)
        withdrawn = [(actor if names_actors else b"", contracts)]
        tables.take(Fields(b"KINO.UNREGMSGROUTE", unregistration(uri, node, withdrawn)))
        tables.take(Fields(b"KINO.UNREGNODE", address_of(uri, node)))
    assert seen == lost
