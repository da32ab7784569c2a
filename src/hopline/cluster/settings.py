"""Every time and limit of a node's part in a cluster: its name, its default, what it is for."""

from __future__ import annotations

import msgspec

from hopline.message import LocalError

_ENDLESS = float("inf")


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a node keeps in touch. Times are in seconds."""

    heartbeat_interval: float = 5.0  # between a node's signs of life
    longest_heartbeat_interval: float = 300.0  # a peer with rarer signs of life is refused: it could not be missed
    missing_heartbeats: int = 2  # so many of a peer's own intervals without one, and it is gone
    rendezvous_silence: float = 15.0  # without a sign of life of the leader, before another server is tried
    rendezvous_reconnect: float = 1.0  # how long a broken connection to a server may take to come back
    probe_interval: float = 0.1  # between the first questions to a server whether it leads; later they get rarer
    probe_time: float = 2.0  # how long a server may take to answer them
    announce_period: float = 1.0  # between announcements of a route, until it was heard coming back
    announce_patience: float = 10.0  # how long nothing may come back before that is logged as an error
    routes_period: float = 120.0  # between requests for everything that others advertise
    routes_start_delay: float = 2.0  # before such a request after the rendezvous changed, times
    routes_start_multiplier: int = 5  # a random number up to this
    discovery_period: float = 2.0  # in which the same route is not looked for again
    discovery_searches: int = 1_000  # routes that are looked for at once
    known_nodes: int = 10_000  # nodes that are remembered, for each domain
    unheard_nodes: int = 500  # nodes among them that have not given a sign of life yet; the oldest makes room
    known_routes: int = 10_000  # routes to each of them that are remembered
    answer_links: int = 128  # links that only answer questions, for each domain; the oldest makes room for another
    tick: float = 0.05  # between looks at what is due

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            at_least = 1 if name in _COUNTS else 0.001
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not at_least <= value < _ENDLESS:
                raise LocalError(name, f"a number, at least {at_least}", value)
        if self.heartbeat_interval > self.longest_heartbeat_interval:
            raise LocalError(
                "heartbeat_interval",
                f"at most longest_heartbeat_interval ({self.longest_heartbeat_interval} s)",
                self.heartbeat_interval,
            )


_COUNTS = frozenset(
    {
        "missing_heartbeats",
        "routes_start_multiplier",
        "discovery_searches",
        "known_nodes",
        "unheard_nodes",
        "known_routes",
        "answer_links",
    }
)
