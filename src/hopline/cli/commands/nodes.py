"""``hopline nodes``: which nodes are in a running network."""

from __future__ import annotations

import asyncio
from collections import Counter
from operator import attrgetter
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from hopline.cli.client import discover_nodes, joined_node, request_peers, request_stats
from hopline.cli.durations import duration_text
from hopline.cli.identifiers import NO_OTHER_NODE, identity_text
from hopline.cli.network_command import network_command
from hopline.cli.options import IntervalOption, JsonOption, WatchOption
from hopline.cli.record_table import RecordTable
from hopline.cli.watch import show
from hopline.config import Configuration
from hopline.message import printable, printable_name
from hopline.node import Node
from hopline.node.report import NodeReport, PeerReport
from hopline.routing import KnownNode

EPILOG = """
**Examples**

    hopline nodes
    hopline nodes --watch
    hopline nodes --json | jq -r '.nodes[].uri'

- `up` is how long the node has run. A node of the reference does not say so: `known` is how long others have known it.
- `heartbeat` is how long ago the latest heartbeat was, as the node that heard it last reports. Nodes listen only to
  those that they send to: of an idle node nobody has heard one. With `--watch`, this command listens to all of them.
- `format` is the wire format that is written to it: `v6` between Hopline nodes.
- `domain` names the domains that have announced it, the strongest first.

The node of this command itself is not shown. `hopline routes` shows which node handles which message.
"""

_MOST_WITNESSES = 3  # nodes that are asked for the heartbeats of the others


@network_command("nodes", EPILOG)
def nodes_command(
    configuration: Configuration,
    watch: WatchOption = False,
    interval: IntervalOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show the nodes of a network: address, age, latest heartbeat, wire format, domain, actors and messages."""
    asyncio.run(_nodes(configuration, as_json=as_json, watch=watch, interval=interval))


async def _nodes(configuration: Configuration, *, as_json: bool, watch: bool, interval: float) -> None:
    async with joined_node(configuration) as node:
        await discover_nodes(node)

        async def fetch() -> dict[str, Any]:
            return await _document(node)

        await show(fetch, draw, as_json=as_json, watch=watch, interval=interval)


async def _document(node: Node) -> dict[str, Any]:
    known_nodes = sorted(node.known_nodes, key=attrgetter("identity"))
    reports = await asyncio.gather(*(request_stats(node.hub, known.identity) for known in known_nodes))
    by_identity = {known.identity: report for known, report in zip(known_nodes, reports, strict=True)}
    witnesses = [identity for identity, report in by_identity.items() if report is not None][:_MOST_WITNESSES]
    testimonies = await asyncio.gather(*(request_peers(node.hub, witness) for witness in witnesses))
    peers = [*node.peers, *(peer for testimony in testimonies for peer in testimony or ())]
    network = node.report().network
    documents = []
    for known in known_nodes:
        seen = [peer for peer in peers if peer.node == known.identity]
        documents.append(_node_document(known, by_identity[known.identity], seen))
    return {"rendezvous": "" if network is None else printable(network.rendezvous), "nodes": documents}


def _node_document(known: KnownNode, report: NodeReport | None, seen: list[PeerReport]) -> dict[str, Any]:
    """Return what is known of a node.

    Args:
        known: Its address and its routes.
        report: Its own report, if it has answered.
        seen: What other nodes have observed, this command's own node first.
    """
    ages = [peer.heartbeat_age for peer in seen if peer.heartbeat_age is not None]
    own = seen[0] if seen else None
    return {
        "node": identity_text(known.identity),
        "uri": printable(known.uri),
        "software": "" if report is None else printable(report.software),
        "uptime": None if report is None else round(report.uptime, 3),
        "known_for": round(max((peer.known_for for peer in seen), default=0.0), 3),
        "heartbeat_age": round(min(ages), 3) if ages else None,
        "heartbeat_interval": None if own is None else own.heartbeat_interval,
        "format": "" if own is None else printable(own.format),
        "domains": [] if own is None else [printable_name(domain) for domain in own.domains],
        "actors": [] if report is None else [printable_name(actor.name) for actor in report.actors],
        "handles": sorted({str(kind) for kinds in known.actors.values() for kind in kinds}),
    }


def draw(document: dict[str, Any]) -> RenderableType:
    """Return the nodes as a table."""
    nodes = document["nodes"]
    if not nodes:
        return Text(NO_OTHER_NODE)
    table = RecordTable("node", "address", "up", "heartbeat", "format", "domain", "actors", "handles")
    for node in nodes:
        table.add_row(
            node["node"],
            node["uri"],
            _age_text(node),
            _heartbeat_text(node),
            node["format"],
            ", ".join(filter(None, node["domains"])),
            _counted(node["actors"]),
            ", ".join(node["handles"]),
        )
    return table


def _age_text(node: dict[str, Any]) -> str:
    if node["uptime"] is not None:
        return duration_text(node["uptime"])
    return f"known {duration_text(node['known_for'])}"


def _heartbeat_text(node: dict[str, Any]) -> str:
    age = node["heartbeat_age"]
    return "not heard" if age is None else f"{duration_text(age)} ago"


def _counted(names: list[str]) -> str:
    counts = Counter(names)
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in sorted(counts.items()))
