"""The tables in the order of the documentation, and what a row of each is."""

from __future__ import annotations

MEANINGS = {
    "messages": "one row per record that is a valid message: every header field",
    "rejects": "one row per record that is none: why, and its frames",
    "hops": "one row per transit between two nodes: time, lost, duplicate",
    "callbacks": "one row per request that named callback points, and what became of it",
    "flows": "one row per correlation id: duration, outcome, critical path",
    "handlers": "per node, actor, identity and window: count, errors, wait and run time",
    "edges": "per window, from, to and identity: count, bytes, errors, lost, transit time",
    "security": "per window, domain, node and peer: what the keys say of the messages",
    "incidents": "one row per offence, with its message",
    "skew": "per day and pair of nodes: by how much their clocks differ",
    "audit": "per node and hour: do the books hold?",
}
