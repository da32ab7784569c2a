"""``hopline stats``: the message counts of every node of a running network."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hopline.cli.actor_labels import actor_label
from hopline.cli.client import discover_nodes, joined_node, raise_if_refused, request_stats
from hopline.cli.identifiers import NO_OTHER_NODE, find_node, identity_text, shorten_identity
from hopline.cli.network_command import network_command
from hopline.cli.options import IntervalOption, JsonOption, WatchOption
from hopline.cli.record_table import RecordTable
from hopline.cli.watch import show
from hopline.config import Configuration
from hopline.message import printable
from hopline.node import Node
from hopline.node.report import ActorReport, LinkReport, NetworkReport, NodeReport
from hopline.routing import KnownNode, Outcome

EPILOG = """
**Examples**

    hopline stats
    hopline stats --watch
    hopline stats --node 3c89 --json | jq '.nodes[0].outcomes'

`in` counts the messages that were submitted on the node, received from others, or copied by a broadcast. Each of them
has exactly one outcome (`delivered`, `sent`, …) or is `waiting`. `=` means that the counts add up, `!` that they do
not. `promised` counts the answers that callers wait for. A narrow terminal shows no column that is zero everywhere.

Nodes of the reference do not answer this request; `hopline routes` lists them, too.
"""

_INCOMING = ("submitted", "received", "copied")
_COUNTS = (*_INCOMING, "returned", "waiting", "handled", "handler_errors", "unexpected", "promised")
_ALWAYS_SHOWN = (Outcome.DELIVERED, Outcome.SENT)
NO_ANSWER = "no answer: not a Hopline node, or too busy"


@network_command("stats", EPILOG)
def stats_command(
    configuration: Configuration,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Only this node: its identity, or how it begins.")
    ] = None,
    watch: WatchOption = False,
    interval: IntervalOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show the message counts of every node: what came in, its outcomes, what waits, what was refused."""
    asyncio.run(_stats(configuration, node, as_json=as_json, watch=watch, interval=interval))


async def _stats(
    configuration: Configuration, node_name: str | None, *, as_json: bool, watch: bool, interval: float
) -> None:
    async with joined_node(configuration) as node:
        discovered = await discover_nodes(node)
        if node_name is not None:
            find_node(node_name, discovered)  # fail at once if there is none

        async def fetch() -> dict[str, Any]:
            return await _request_all(node, node_name)

        await show(fetch, draw, as_json=as_json, watch=watch, interval=interval)


async def _request_all(node: Node, node_name: str | None) -> dict[str, Any]:
    others = sorted(node.known_nodes, key=attrgetter("identity"))
    if node_name is not None:
        others = [find_node(node_name, others)]
    requests = [request_stats(node.hub, other.identity) for other in others]
    reports = await asyncio.gather(*requests)
    is_answered = any(report is not None for report in reports)
    raise_if_refused(node, is_answered=is_answered)
    documents = []
    for other, report in zip(others, reports, strict=True):
        document = _unanswered(other) if report is None else _document(report)
        documents.append(document)
    answered = [document for document in documents if document["answers"]]
    return {"nodes": documents, "sum": _sum(answered)}


def _unanswered(node: KnownNode) -> dict[str, Any]:
    return {
        "node": identity_text(node.identity),
        "uri": printable(node.uri),
        "answers": False,
    }


def _document(report: NodeReport) -> dict[str, Any]:
    stats = report.stats
    return {
        "node": identity_text(report.node),
        "uri": printable(report.uri),
        "answers": True,
        "software": printable(report.software),
        "uptime": round(report.uptime, 3),
        **{name: getattr(stats, name) for name in _COUNTS},
        "outcomes": {str(outcome): stats.outcomes.get(outcome, 0) for outcome in Outcome},
        "is_balanced": stats.is_balanced,
        "actors": [_actor_document(actor) for actor in report.actors],
        **_network_document(report.network),
    }


def _actor_document(actor: ActorReport) -> dict[str, Any]:
    return {
        "identity": identity_text(actor.identity),
        "name": printable(actor.name),
        "handles": [str(kind) for kind in actor.handles],
        "waiting": actor.waiting,
        "running": actor.running,
    }


def _network_document(network: NetworkReport | None) -> dict[str, Any]:
    if network is None:
        return {
            "rendezvous": "",
            "is_joined": False,
            "peers": 0,
            "refused": {},
            "unacknowledged": 0,
            "links": [],
        }
    return {
        "rendezvous": printable(network.rendezvous),
        "is_joined": network.is_joined,
        "peers": network.peers,
        "refused": _refused(network.refused_messages, network.refused_routes),
        "unacknowledged": network.unacknowledged,
        "links": [_link_document(link) for link in network.links],
    }


def _link_document(link: LinkReport) -> dict[str, Any]:
    return {
        "node": identity_text(link.node),
        "uri": printable(link.uri),
        "waiting": link.waiting,
        "silent": link.is_silent,
    }


def _refused(messages: dict[str, int], routes: dict[str, int]) -> dict[str, int]:
    refused = {}
    for reason, count in messages.items():
        refused[printable(reason)] = count
    for reason, count in routes.items():
        refused[f"routes: {printable(reason)}"] = count
    return refused


def _sum(documents: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {}
    for name in _COUNTS:
        counts[name] = sum(document[name] for document in documents)
    outcomes = {}
    for outcome in Outcome:
        outcomes[str(outcome)] = sum(document["outcomes"][outcome] for document in documents)
    return {
        **counts,
        "outcomes": outcomes,
        "is_balanced": all(document["is_balanced"] for document in documents),
    }


def draw(document: dict[str, Any]) -> RenderableType:
    """Return the counts of all nodes, and the actors with what waits for them."""
    nodes = document["nodes"]
    total = document["sum"]
    if not nodes:
        return Text(NO_OTHER_NODE)
    outcomes = [outcome for outcome in Outcome if outcome in _ALWAYS_SHOWN or total["outcomes"][outcome]]
    counts = ["in", *map(str, outcomes), "waiting", "promised", "handled", "errors", "peers", "links"]
    columns = ["node", "in", "", *counts[1:], "refused", ""]
    table = RecordTable(*columns, right=counts)
    for node in nodes:
        if node["answers"]:
            table.add_row(node["node"], *_cells(node, outcomes))
        else:
            no_counts = [""] * (len(columns) - 2)
            table.add_row(node["node"], *no_counts, NO_ANSWER)
    if len(nodes) > 1:
        no_network = {"peers": "", "links": [], "refused": {}}
        table.add_row("all nodes", *_cells(total | no_network, outcomes))
    actors = _draw_actors(nodes)
    return Group(table, Text(), actors) if actors.row_count else table


def _cells(node: dict[str, Any], outcomes: list[Outcome]) -> list[str]:
    incoming = sum(node[name] for name in _INCOMING)
    refused = [f"{count:,} {reason}" for reason, count in node["refused"].items()]
    return [
        f"{incoming:,}",
        "=" if node["is_balanced"] else "!",
        *(f"{node['outcomes'][outcome]:,}" for outcome in outcomes),
        f"{node['waiting']:,}",
        f"{node['promised']:,}",
        f"{node['handled']:,}",
        f"{node['handler_errors']:,}",
        str(node["peers"]),
        _links_text(node["links"]),
        ", ".join(refused),
    ]


def _links_text(links: list[dict[str, Any]]) -> str:
    if not links:
        return ""
    count = str(len(links))
    waiting = sum(link["waiting"] for link in links)
    return f"{count} ({waiting:,} waiting)" if waiting else count


def _draw_actors(nodes: list[dict[str, Any]]) -> RecordTable:
    table = RecordTable("actor", "node", "handles", "waiting", "running", right=("waiting", "running"))
    for node in nodes:
        for actor in node.get("actors", ()):
            table.add_row(
                actor_label(actor),
                shorten_identity(node["node"]),
                ", ".join(actor["handles"]),
                f"{actor['waiting']:,}",
                f"{actor['running']:,}",
            )
    return table
