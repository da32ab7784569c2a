"""The times and limits of a node's membership in a cluster."""

from __future__ import annotations

import msgspec

from hopline.checks import COUNT, DURATION, require, require_numbers


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a node finds and watches others. Times are in seconds."""

    heartbeat_interval: float = 5.0  # time between two heartbeats of the node
    longest_heartbeat_interval: float = 300.0  # peers with a longer interval are refused
    missing_heartbeats: int = 2  # heartbeats of a peer that may be missing before it is removed
    rendezvous_silence: float = 15.0  # time without a heartbeat of the leader before another server is tried
    rendezvous_reconnect: float = 1.0  # time to restore a broken connection before another server is tried
    probe_interval: float = 0.1  # time between the first pings to a server; it doubles up to a second
    probe_timeout: float = 2.0  # time for a server to answer pings before another one is tried
    announce_period: float = 1.0  # time between announcements of a route until the server has relayed one
    repeat_after: float = 30.0  # time after which a change is announced once more, for nodes between two servers
    announce_timeout: float = 10.0  # time without any announcement being relayed before an error is logged
    routes_period: float = 120.0  # time between two requests for all routes of other nodes
    routes_start_delay: float = 2.0  # shortest time from a change of the server to such a request
    routes_start_multiplier: int = 5  # the longest time, as a multiple of routes_start_delay
    full_rate_nodes: int = 100  # known nodes up to which these times hold; above it they grow in proportion
    discovery_period: float = 2.0  # time between two queries for the same route
    discovery_searches: int = 1_000  # routes that are looked for at the same time
    known_nodes: int = 10_000  # nodes that are remembered, for each domain
    unheard_nodes: int = 5_000  # nodes among them that nothing is sent to; one more replaces one of them
    known_routes: int = 10_000  # routes that are remembered for each node
    answer_links: int = 128  # links that only carry answers to requests, for each domain; the oldest is closed
    tick: float = 0.05  # time between two checks for what is due

    def __post_init__(self) -> None:
        require_numbers(self, _ACCEPTED)
        longest = self.longest_heartbeat_interval
        require(
            self.heartbeat_interval <= longest,
            "heartbeat_interval",
            f"at most longest_heartbeat_interval ({longest} s)",
            self.heartbeat_interval,
        )


_ACCEPTED = {
    "heartbeat_interval": DURATION,
    "longest_heartbeat_interval": DURATION,
    "missing_heartbeats": COUNT,
    "rendezvous_silence": DURATION,
    "rendezvous_reconnect": DURATION,
    "probe_interval": DURATION,
    "probe_timeout": DURATION,
    "announce_period": DURATION,
    "repeat_after": DURATION,
    "announce_timeout": DURATION,
    "routes_period": DURATION,
    "routes_start_delay": DURATION,
    "routes_start_multiplier": COUNT,
    "full_rate_nodes": COUNT,
    "discovery_period": DURATION,
    "discovery_searches": COUNT,
    "known_nodes": COUNT,
    "unheard_nodes": COUNT,
    "known_routes": COUNT,
    "answer_links": COUNT,
    "tick": DURATION,
}
