"""Who is there: nodes with hubs, services in pairs, clocks, and how far the nodes are from each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from hopline.generator.draws import Draws, Numbers, Octets, guids
from hopline.message import ReceiverKind

MIN_NODES, MAX_NODES = 4, 90
MAX_SKEW_US = 2_000_000
_NEAREST_US, _FARTHEST_US = 80, 600
_STRANGERS = 3  # a gateway that nobody captures, and two attackers
IDENTITY_SIZE = 36
URI_SIZE = len("tcp://10.20.0.100:5101")


class Service(IntEnum):
    """What a node does for others; each is on one pair of nodes."""

    ORDER = 0
    PRICE = 1
    STOCK = 2
    CHARGE = 3
    SHIP = 4
    NEWS = 5
    RECORDS = 6


@dataclass(frozen=True)
class Topology:
    """Nodes by number: those that are captured first, then the gateway, then the attackers."""

    captured: int
    identities: Octets  # a row a node
    uris: Octets
    hubs: Octets
    actors: Octets  # service by service, a row a node
    skews: Numbers  # microseconds that a node's clock is ahead
    nearest: Numbers  # microseconds of the shortest way between two nodes, the same in both directions

    @property
    def gateway(self) -> int:
        """The node that takes part and has no capture."""
        return self.captured

    @property
    def nodes(self) -> int:
        """All nodes, captured or not."""
        return len(self.identities)

    def names(self) -> list[str]:
        """Give the nodes' names as the tables show them."""
        return [row.tobytes().decode() for row in self.identities]

    def receivers(self) -> list[str]:
        """Give the names of all hubs, then those of all actors, service by service."""
        return [row.tobytes().decode() for row in np.concatenate([self.hubs, self.actors])]


def make_topology(nodes: int, skewed: int, seed: int) -> Topology:
    """Draw a network in which so many clocks are wrong."""
    everyone = nodes + _STRANGERS
    numbers = np.arange(everyone * (2 + len(Service)))
    names = guids(seed ^ 0x5EED, numbers)
    draws = Draws(seed, 1)
    skews = np.zeros(everyone, np.int64)
    for nth, offset in enumerate(draws.below(MAX_SKEW_US - 50_000, min(skewed, nodes // 2))):
        skews[2 * nth + 1] = (offset + 50_000) * (1 if nth % 2 else -1)
    way = draws.below(_FARTHEST_US - _NEAREST_US, everyone * everyone).reshape(everyone, everyone)
    uris = [f"tcp://10.20.0.{100 + node}:5101".encode() for node in range(everyone)]
    return Topology(
        nodes,
        names[:everyone],
        np.frombuffer(b"".join(uris), np.uint8).reshape(everyone, URI_SIZE),
        _receivers(ReceiverKind.HUB, names[everyone : 2 * everyone]),
        _receivers(ReceiverKind.ACTOR, names[2 * everyone :]),
        skews,
        _NEAREST_US + np.minimum(way, way.T),
    )


def _receivers(kind: ReceiverKind, names: Octets) -> Octets:
    first = np.full((len(names), 1), kind.value[0], np.uint8)
    return np.concatenate([first, names], axis=1)


def placed(service: int, captured: int, choice: Numbers) -> Numbers:
    """Give the node of a service: one of its pair, by choices of 0 and 1."""
    return 2 * (service % (captured // 2)) + choice
