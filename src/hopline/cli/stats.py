"""``hopline stats``: how every node of a running network is."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hopline.cli.client import everybody, joined_node, require_keys, stats_of
from hopline.cli.console import folding, one_line_errors
from hopline.cli.live import show
from hopline.cli.names import kind_text, name_of, node_named, shortened
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    JsonOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.config import Configuration
from hopline.message import printable
from hopline.node import Node
from hopline.node.report import NodeReport
from hopline.routing import KnownNode, Outcome

EPILOG = """
**Examples**

    hopline stats
    hopline stats --watch
    hopline stats --node 3c89 --json | jq '.nodes[0].outcomes'

Every message that came in (submitted, received, copied) has one outcome or still waits: `=` says that it is so, `!`
that it is not. Nodes of the reference do not answer this question; `hopline routes` knows them too.
"""

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")]
IntervalOption = Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between looks.")]


def stats_command(
    node: Annotated[str | None, typer.Option("--node", help="One node only, by how its identity begins.")] = None,
    watch: WatchOption = False,
    interval: IntervalOption = 2.0,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the books of every node: what came in, what became of it, what waits, what was refused."""
    with one_line_errors("stats", debug=debug):
        configuration = client_configuration(config, rendezvous, wire_format)
        asyncio.run(_stats(configuration, node, as_json=as_json, watch=watch, interval=interval))


stats_command.__doc__ = f"{stats_command.__doc__}\n{EPILOG}"


async def _stats(
    configuration: Configuration, wanted: str | None, *, as_json: bool, watch: bool, interval: float
) -> None:
    async with joined_node(configuration) as node:
        first = await everybody(node)
        if wanted is not None:
            node_named(wanted, first)

        async def look() -> dict[str, Any]:
            return await _ask_all(node, wanted)

        await show(look, draw, as_json=as_json, watch=watch, interval=interval)


async def _ask_all(node: Node, wanted: str | None) -> dict[str, Any]:
    known = sorted(node.known_nodes, key=lambda one: one.identity)
    if wanted is not None:
        known = [node_named(wanted, known)]
    reports = await asyncio.gather(*(stats_of(node.hub, one.identity) for one in known))
    require_keys(node, is_answered=any(report is not None for report in reports))
    documents = [_document(one, report) for one, report in zip(known, reports, strict=True)]
    return {"nodes": documents, "sum": _sum([one for one in documents if one["answers"]])}


_CAME_IN = ("submitted", "received", "copied")
_COUNTS = (*_CAME_IN, "returned", "waiting", "handled", "handler_errors", "unexpected", "promised")


def _document(known: KnownNode, report: NodeReport | None) -> dict[str, Any]:
    if report is None:
        return {"node": name_of(known.identity), "uri": printable(known.uri), "answers": False}
    stats, network = report.stats, report.network
    return {
        "node": name_of(report.node),
        "uri": printable(report.uri),
        "answers": True,
        "software": printable(report.software),
        "uptime": round(report.uptime, 3),
        **{name: getattr(stats, name) for name in _COUNTS},
        "outcomes": {str(outcome): stats.outcomes.get(outcome, 0) for outcome in Outcome},
        "is_balanced": stats.is_balanced,
        "actors": [
            {
                "identity": name_of(actor.identity),
                "name": printable(actor.name),
                "handles": [kind_text(kind) for kind in actor.handles],
                "waiting": actor.waiting,
                "running": actor.running,
            }
            for actor in report.actors
        ],
        "rendezvous": "" if network is None else printable(network.rendezvous),
        "is_joined": network is not None and network.is_joined,
        "peers": 0 if network is None else network.peers,
        "refused": {} if network is None else _refused(network.refused_messages, network.refused_routes),
        "unacknowledged": 0 if network is None else network.unacknowledged,
        "links": []
        if network is None
        else [
            {"node": name_of(link.node), "uri": printable(link.uri), "waiting": link.waiting, "silent": link.is_silent}
            for link in network.links
        ],
    }


def _refused(messages: dict[str, int], routes: dict[str, int]) -> dict[str, int]:
    told = {printable(reason): count for reason, count in messages.items()}
    return told | {f"routes: {printable(reason)}": count for reason, count in routes.items()}


def _sum(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **{name: sum(one[name] for one in documents) for name in _COUNTS},
        "outcomes": {str(outcome): sum(one["outcomes"][outcome] for one in documents) for outcome in Outcome},
        "is_balanced": all(one["is_balanced"] for one in documents),
    }


def draw(document: dict[str, Any]) -> RenderableType:
    """Draw what was told."""
    nodes, total = document["nodes"], document["sum"]
    if not nodes:
        return Text("no other node is known")
    counted = [outcome for outcome in Outcome if outcome in ("delivered", "sent") or total["outcomes"][outcome]]
    columns = ["node", "in", "", *counted, "waiting", "promised", "handled", "errors", "peers", "links", "refused"]
    table = folding(*columns)
    for column in table.columns[1:-1]:
        column.justify = "right"
    for one in nodes:
        if one["answers"]:
            table.add_row(*_row(one, counted))
        else:
            table.add_row(one["node"], "does not answer: not a Hopline node, or too busy")
    if len(nodes) > 1:
        table.add_section()
        table.add_row(*_row({"node": "all", "peers": "", "links": [], "refused": {}, **total}, counted))
    actors = folding("actor", "node", "handles", "waiting", "running")
    for one in nodes:
        for actor in one.get("actors", ()):
            handles = ", ".join(actor["handles"])
            actors.add_row(actor["name"], shortened(one["node"]), handles, str(actor["waiting"]), str(actor["running"]))
    return Group(table, actors) if actors.row_count else table


def _row(one: dict[str, Any], counted: list[Outcome]) -> list[str]:
    links = one["links"]
    waiting_in_links = sum(link["waiting"] for link in links)
    return [
        one["node"],
        str(sum(one[name] for name in _CAME_IN)),
        "=" if one["is_balanced"] else "!",
        *(str(one["outcomes"][outcome]) for outcome in counted),
        str(one["waiting"]),
        str(one["promised"]),
        str(one["handled"]),
        str(one["handler_errors"]),
        str(one["peers"]),
        f"{len(links)} ({waiting_in_links} waiting)" if links else "",
        ", ".join(f"{count} {reason}" for reason, count in one["refused"].items()),
    ]
