"""``hopline routes``: which nodes and actors of a running network handle which messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hopline.cli.actor_labels import ActorLabels, actor_label
from hopline.cli.client import ask, discover_nodes, joined_node
from hopline.cli.identifiers import NO_OTHER_NODE, find_node, identity_text
from hopline.cli.network_command import network_command
from hopline.cli.options import IntervalOption, JsonOption, WatchOption
from hopline.cli.record_table import RecordTable
from hopline.cli.watch import show
from hopline.client import MessageHub
from hopline.cluster.messages.service import (
    EXTERNAL_ROUTES,
    INTERNAL_ROUTES,
    REQUEST_EXTERNAL_ROUTES,
    REQUEST_INTERNAL_ROUTES,
    identifier_of,
    read,
    service_message,
)
from hopline.cluster.messages.service_pb2 import ExternalRoutes, InternalRoutes
from hopline.config import Configuration
from hopline.message import HoplineError, Message, MessageIdentifier, printable
from hopline.routing import KnownNode

EPILOG = """
**Examples**

    hopline routes
    hopline routes --watch
    hopline routes --node 3c89
    hopline routes --json | jq '.routes[].kind'

Without `--node` these are the routes that nodes announce to the network. With it, they are the routing table of that
node: its own routes, including those that it does not announce, and those that it knows of others.

Actors are shown by class and handler, which are requested from their nodes. Nodes of the reference do not answer that
request, so their actors are shown by identity.

Messages that nodes have different schemas of are listed below the routes, with the fingerprint of each schema.
"""

_DIFFERENT_SCHEMAS = "These messages have different schemas on different nodes; `hopline schema` prints them:"

_Handled = dict[bytes, tuple[MessageIdentifier, ...]]  # by actor identity


class NoAnswerError(HoplineError):
    """A node did not answer the request for its routing table."""


@network_command("routes", EPILOG)
def routes_command(
    configuration: Configuration,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NODE", help="Routing table of this node: its identity, or how it begins."),
    ] = None,
    watch: WatchOption = False,
    interval: IntervalOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show which nodes and actors handle which messages, and the hubs that receive answers."""
    asyncio.run(_routes(configuration, node, as_json=as_json, watch=watch, interval=interval))


async def _routes(
    configuration: Configuration, node_name: str | None, *, as_json: bool, watch: bool, interval: float
) -> None:
    async with joined_node(configuration) as node:
        discovered = await discover_nodes(node)
        questioned = None if node_name is None else find_node(node_name, discovered)
        labels = ActorLabels()

        async def fetch() -> dict[str, Any]:
            nodes = node.known_nodes if questioned is None else await _routing_table(node.hub, questioned)
            await labels.update(node.hub, nodes)
            return document_of(nodes, labels)

        await show(fetch, draw, as_json=as_json, watch=watch, interval=interval)


async def _routing_table(hub: MessageHub, node: KnownNode) -> list[KnownNode]:
    """Request the routing table of a node: its own routes first, then those that it knows of others."""
    internal, external = await asyncio.gather(
        ask(hub, node.identity, service_message(REQUEST_INTERNAL_ROUTES, None), INTERNAL_ROUTES),
        ask(hub, node.identity, service_message(REQUEST_EXTERNAL_ROUTES, None), EXTERNAL_ROUTES),
    )
    if internal is None or external is None:
        name = identity_text(node.identity)
        raise NoAnswerError(f"node {name} does not answer the request for its routes: stopped, or too busy")
    return [_internal_routes(node, internal), *_external_routes(external)]


def _internal_routes(node: KnownNode, answer: Message) -> KnownNode:
    content = read(answer, InternalRoutes)
    hubs = tuple(hub.identity for hub in content.message_hubs)
    return KnownNode(node.identity, node.uri, hubs, _by_actor(content.message_routes))


def _external_routes(answer: Message) -> list[KnownNode]:
    return [
        KnownNode(node.node_identity, node.node_uri, tuple(node.message_hubs), _by_actor(node.message_routes))
        for node in read(answer, ExternalRoutes).routes
    ]


def _by_actor(message_routes: Iterable[Any]) -> _Handled:
    handled: _Handled = {}
    for route in message_routes:
        kind = identifier_of(route.message)
        for actor in route.actors:
            handled[actor] = (*handled.get(actor, ()), kind)
    return handled


def document_of(nodes: list[KnownNode], labels: ActorLabels) -> dict[str, Any]:
    """Return routes by kind of message, and the hubs of each node."""
    in_order = sorted(nodes, key=lambda node: node.identity)
    routes: dict[MessageIdentifier, list[dict[str, Any]]] = {}
    for node in in_order:
        for kind, actors in _actors_by_kind(node, labels).items():
            place = _place(node) | {"schemas": _schemas(node, kind, labels), "actors": actors}
            routes.setdefault(kind, []).append(place)
    kinds = sorted(routes, key=str)
    return {
        "routes": [{"kind": str(kind), "nodes": routes[kind]} for kind in kinds],
        "hubs": [_place(node) | {"hubs": [identity_text(hub) for hub in node.hubs]} for node in in_order if node.hubs],
    }


def _actors_by_kind(node: KnownNode, labels: ActorLabels) -> dict[MessageIdentifier, list[dict[str, Any]]]:
    actors: dict[MessageIdentifier, list[dict[str, Any]]] = {}
    for actor, kinds in node.actors.items():
        for kind in kinds:
            actors.setdefault(kind, []).append(labels.describe(actor, kind))
    return actors


def _schemas(node: KnownNode, kind: MessageIdentifier, labels: ActorLabels) -> list[str]:
    """Return the fingerprints of the payloads that a node's actors handle as this kind, where they are known."""
    handling = [actor for actor, kinds in node.actors.items() if kind in kinds]
    known = (labels.fingerprint(actor, kind) for actor in handling)
    return sorted({value for value in known if value is not None})


def _place(node: KnownNode) -> dict[str, Any]:
    return {"node": identity_text(node.identity), "uri": printable(node.uri)}


def draw(document: dict[str, Any]) -> RenderableType:
    """Return the routes and the hubs as tables."""
    if not (document["routes"] or document["hubs"]):
        return Text(NO_OTHER_NODE)
    routes = RecordTable("message", "node", "address", "actors")
    for route in document["routes"]:
        kind = route["kind"]
        for node in route["nodes"]:
            routes.add_row(kind, node["node"], node["uri"], ", ".join(map(actor_label, node["actors"])))
            kind = ""  # shown once
    hubs = RecordTable("hub", "node", "address")
    for node in document["hubs"]:
        for hub in node["hubs"]:
            hubs.add_row(hub, node["node"], node["uri"])
    tables = [table for table in (routes, hubs) if table.row_count]
    parts: list[RenderableType] = [part for table in tables for part in (Text(), table)]
    schemas = _draw_different_schemas(document["routes"])
    if schemas.row_count:
        parts += [Text(), Text(_DIFFERENT_SCHEMAS), schemas]
    return Group(*parts[1:])


def _draw_different_schemas(routes: list[dict[str, Any]]) -> RecordTable:
    """Return a table of the messages that nodes have different schemas of."""
    table = RecordTable("message", "node", "fingerprint")
    for route in routes:
        known = {value for node in route["nodes"] for value in node["schemas"]}
        if len(known) < 2:
            continue
        kind = route["kind"]
        for node in route["nodes"]:
            table.add_row(kind, node["node"], ", ".join(node["schemas"]) or "unknown")
            kind = ""
    return table
