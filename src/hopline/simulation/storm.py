"""How much nodes say to each other because of one change in who is there: it must not become a storm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from hopline.simulation.gathering import SETTLE_SECONDS, Gathering, gather


class Said(msgspec.Struct, frozen=True):
    """What one change made nodes and servers say, signs of life excepted."""

    published: int  # to the rendezvous server
    relayed: int  # by it, once for everybody
    told: int  # straight to one node
    heard: int  # by nodes, from either

    @property
    def total(self) -> int:
        """All of it."""
        return self.published + self.relayed + self.told + self.heard

    def __sub__(self, earlier: Said) -> Said:
        return Said(*(now - then for now, then in zip(self._counts(), earlier._counts(), strict=True)))

    def _counts(self) -> tuple[int, ...]:
        return self.published, self.relayed, self.told, self.heard


class Changes(msgspec.Struct, frozen=True):
    """What was said when a node joined, left in order, and crashed."""

    join: Said
    leave: Said
    crash: Said


def changes_among(nodes: int) -> Changes:
    """Count what is said in a calm network of so many nodes when one more comes, one leaves and one crashes."""
    return gather(nodes, _changes)


async def _changes(gathering: Gathering) -> Changes:
    async def said_because_of(change: Awaitable[object]) -> Said:
        before = said()
        await change
        await asyncio.sleep(SETTLE_SECONDS)
        return said() - before

    def said() -> Said:
        traffic = [one.traffic for one in gathering.attendees]
        published, told = sum(one.published for one in traffic), sum(one.told for one in traffic)
        return Said(published, gathering.server.relayed, told, sum(one.heard for one in traffic))

    newcomer = gathering.newcomer(len(gathering.attendees))
    leaving, dying, *_ = gathering.attendees
    gathering.attendees.append(newcomer)
    join = await said_because_of(newcomer.start())
    leave = await said_because_of(leaving.node.stop())
    await dying.crash()  # what it wanted to say nobody heard
    return Changes(join, leave, crash=await said_because_of(asyncio.sleep(0)))
