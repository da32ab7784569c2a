"""The generated network: nodes with hubs, services on pairs of nodes, clocks, and distances between nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from hopline.generator.randomness import GUID_SIZE, Numbers, Octets, RandomStream, guids
from hopline.message import ReceiverKind

MIN_NODES, MAX_NODES = 4, 90
MIN_SKEW_US, MAX_SKEW_US = 50_000, 2_000_000
IDENTITY_SIZE = GUID_SIZE
URI_SIZE = len("tcp://10.20.0.100:5101")

_MIN_DISTANCE_US, _MAX_DISTANCE_US = 80, 600
_UNCAPTURED_NODES = 3  # a gateway and two attackers
_NAME_SEED = 0x5EED


class Service(IntEnum):
    """What a node does for others. Each service runs on one pair of nodes."""

    ORDER = 0
    PRICE = 1
    STOCK = 2
    CHARGE = 3
    SHIP = 4
    NEWS = 5
    RECORDS = 6


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Nodes by number: the captured ones first, then the gateway, then the attackers."""

    captured: int
    identities: Octets  # one row per node, as in all of these
    uris: Octets
    hubs: Octets
    actors: Octets  # service by service
    skews: Numbers  # microseconds by which a node's clock is ahead
    distances: Numbers  # microseconds of the shortest transit between two nodes, the same in both directions

    @property
    def nodes(self) -> int:
        """The number of nodes, captured or not."""
        return len(self.identities)

    def names(self) -> list[str]:
        """Return the nodes' names as the tables show them."""
        return _texts(self.identities)

    def uri_texts(self) -> list[str]:
        """Return the nodes' URIs."""
        return _texts(self.uris)

    def receivers(self) -> list[str]:
        """Return the names of all hubs, then those of all actors, service by service."""
        return _texts(self.hubs) + _texts(self.actors)


def make_topology(nodes: int, skewed: int, seed: int) -> Topology:
    """Return a random network with `nodes` captured nodes, `skewed` of which have a wrong clock."""
    total = nodes + _UNCAPTURED_NODES
    name_count = total * (2 + len(Service))
    names = guids(seed ^ _NAME_SEED, np.arange(name_count))
    stream = RandomStream(seed, 1)
    skews = _skews(stream, total, min(skewed, nodes // 2))
    distances = stream.below(_MAX_DISTANCE_US - _MIN_DISTANCE_US, total * total)
    distances = distances.reshape(total, total)
    return Topology(
        captured=nodes,
        identities=names[:total],
        uris=_uris(total),
        hubs=_receiver_identities(ReceiverKind.HUB, names[total : 2 * total]),
        actors=_receiver_identities(ReceiverKind.ACTOR, names[2 * total :]),
        skews=skews,
        distances=_MIN_DISTANCE_US + np.minimum(distances, distances.T),
    )


def _skews(stream: RandomStream, total: int, skewed: int) -> Numbers:
    """Return the clocks' offsets: wrong on every second node, behind and ahead in turn, beginning with behind."""
    skews = np.zeros(total, np.int64)
    offsets = MIN_SKEW_US + stream.below(MAX_SKEW_US - MIN_SKEW_US, skewed)
    for index, offset in enumerate(offsets):
        is_ahead = index % 2 == 1
        skews[2 * index + 1] = offset if is_ahead else -offset
    return skews


def _uris(total: int) -> Octets:
    uris = [f"tcp://10.20.0.{100 + node}:5101" for node in range(total)]
    octets = np.frombuffer("".join(uris).encode(), np.uint8)
    return octets.reshape(total, URI_SIZE)


def _receiver_identities(kind: ReceiverKind, names: Octets) -> Octets:
    prefix = np.full((len(names), 1), kind.value[0], np.uint8)
    return np.concatenate([prefix, names], axis=1)


def _texts(rows: Octets) -> list[str]:
    return [row.tobytes().decode() for row in rows]


def node_of_service(service: int, captured: int, choices: Numbers) -> Numbers:
    """Return the nodes that run a service, one of its pair for each choice of 0 or 1."""
    pair = service % (captured // 2)
    return 2 * pair + choices
