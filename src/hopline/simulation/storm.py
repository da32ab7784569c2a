"""How many control messages one change in a network causes: it must not become a message storm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from hopline.simulation.quiet_network import SETTLE_SECONDS, QuietNetwork, run_quiet_network


class MessageCounts(msgspec.Struct, frozen=True):
    """The control messages of nodes and servers, heartbeats excepted."""

    published: int  # to the rendezvous server
    relayed: int  # by the server, counted once for all nodes
    sent: int  # directly to one node
    received: int  # by nodes, either way

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return self.published + self.relayed + self.sent + self.received

    def __sub__(self, earlier: MessageCounts) -> MessageCounts:
        return MessageCounts(
            published=self.published - earlier.published,
            relayed=self.relayed - earlier.relayed,
            sent=self.sent - earlier.sent,
            received=self.received - earlier.received,
        )


class Changes(msgspec.Struct, frozen=True):
    """The messages caused by a node that joined, one that left in order, and one that crashed."""

    join: MessageCounts
    leave: MessageCounts
    crash: MessageCounts


def changes_among(nodes: int) -> Changes:
    """Count the messages that are sent in a quiet network when one node joins, one leaves and one crashes.

    Args:
        nodes: The size of the network.
    """
    return run_quiet_network(nodes, _changes)


async def _changes(quiet: QuietNetwork) -> Changes:
    joining = quiet.new_node(len(quiet.nodes))
    leaving, crashing, *_ = quiet.nodes
    quiet.nodes.append(joining)
    join = await _caused_by(quiet, joining.start())
    leave = await _caused_by(quiet, leaving.node.stop())
    await crashing.crash()  # before counting: what a crashed node tries to publish is not sent
    crash = await _caused_by(quiet, asyncio.sleep(0))
    return Changes(join, leave, crash)


async def _caused_by(quiet: QuietNetwork, change: Awaitable[object]) -> MessageCounts:
    before = _counts(quiet)
    await change
    await asyncio.sleep(SETTLE_SECONDS)
    return _counts(quiet) - before


def _counts(quiet: QuietNetwork) -> MessageCounts:
    traffic = [node.traffic for node in quiet.nodes]
    return MessageCounts(
        published=sum(counts.published for counts in traffic),
        relayed=quiet.server.relayed,
        sent=sum(counts.sent for counts in traffic),
        received=sum(counts.received for counts in traffic),
    )
