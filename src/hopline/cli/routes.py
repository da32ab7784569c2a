"""``hopline routes``: who handles what in a running network."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hopline.cli.actor_names import ActorNames, who
from hopline.cli.client import ask, everybody, joined_node
from hopline.cli.console import folding, one_line_errors
from hopline.cli.live import show
from hopline.cli.names import kind_text, name_of, node_named
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    JsonOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.cli.stats import IntervalOption, WatchOption
from hopline.client import MessageHub
from hopline.cluster.service import (
    EXTERNAL_ROUTES,
    INTERNAL_ROUTES,
    REQUEST_EXTERNAL_ROUTES,
    REQUEST_INTERNAL_ROUTES,
    identifier_of,
    read,
    service_message,
)
from hopline.cluster.service_pb2 import ExternalRoutes, InternalRoutes
from hopline.config import Configuration
from hopline.message import HoplineError, Message, MessageIdentifier, printable
from hopline.routing import KnownNode

EPILOG = """
**Examples**

    hopline routes
    hopline routes --watch
    hopline routes --node 3c89
    hopline routes --json | jq '.routes[].kind'

Actors are shown with their class and handler, which their nodes are asked for; nodes of the reference do not say.
Without `--node` these are the routes that nodes announce. With it, they are what that node knows itself, of its own and
of others, with what it keeps local; nodes of the reference answer that too.
"""


class NoAnswerError(HoplineError):
    """A node does not say what it knows."""


def routes_command(
    node: Annotated[str | None, typer.Option("--node", help="What a node knows, by how its identity begins.")] = None,
    watch: WatchOption = False,
    interval: IntervalOption = 2.0,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show which nodes and actors handle which messages, and the hubs that wait for answers."""
    with one_line_errors("routes", debug=debug):
        configuration = client_configuration(config, rendezvous, wire_format)
        asyncio.run(_routes(configuration, node, as_json=as_json, watch=watch, interval=interval))


routes_command.__doc__ = f"{routes_command.__doc__}\n{EPILOG}"


async def _routes(
    configuration: Configuration, wanted: str | None, *, as_json: bool, watch: bool, interval: float
) -> None:
    async with joined_node(configuration) as node:
        first = await everybody(node)
        asked = None if wanted is None else node_named(wanted, first)

        names = ActorNames()

        async def look() -> dict[str, Any]:
            known = node.known_nodes if asked is None else await _known_there(node.hub, asked)
            await names.learn(node.hub, known)
            return document_of(known, names)

        await show(look, draw, as_json=as_json, watch=watch, interval=interval)


async def _known_there(hub: MessageHub, asked: KnownNode) -> list[KnownNode]:
    own, others = await asyncio.gather(
        ask(hub, asked.identity, service_message(REQUEST_INTERNAL_ROUTES, None), INTERNAL_ROUTES),
        ask(hub, asked.identity, service_message(REQUEST_EXTERNAL_ROUTES, None), EXTERNAL_ROUTES),
    )
    if own is None or others is None:
        raise NoAnswerError(f"node {name_of(asked.identity)} does not say what it knows: gone, or too busy")
    return [_own(asked, own), *_others(others)]


def _own(asked: KnownNode, answer: Message) -> KnownNode:
    content = read(answer, InternalRoutes)
    actors: dict[bytes, tuple[MessageIdentifier, ...]] = {}
    for route in content.message_routes:
        for actor in route.actors:
            actors[actor] = (*actors.get(actor, ()), identifier_of(route.message))
    return KnownNode(asked.identity, asked.uri, tuple(hub.identity for hub in content.message_hubs), actors)


def _others(answer: Message) -> list[KnownNode]:
    nodes = []
    for node in read(answer, ExternalRoutes).routes:
        actors: dict[bytes, tuple[MessageIdentifier, ...]] = {}
        for route in node.message_routes:
            for actor in route.actors:
                actors[actor] = (*actors.get(actor, ()), identifier_of(route.message))
        nodes.append(KnownNode(node.node_identity, node.node_uri, tuple(node.message_hubs), actors))
    return nodes


def document_of(nodes: list[KnownNode], names: ActorNames) -> dict[str, Any]:
    """Turn nodes with what they handle into messages with who handles them."""
    routes: dict[MessageIdentifier, list[dict[str, Any]]] = {}
    for node in sorted(nodes, key=lambda one: one.identity):
        handled: dict[MessageIdentifier, list[dict[str, Any]]] = {}
        for actor, kinds in node.actors.items():
            for kind in kinds:
                handled.setdefault(kind, []).append(names.document_of(actor, kind))
        for kind, actors in handled.items():
            place = {"node": name_of(node.identity), "uri": printable(node.uri), "actors": actors}
            routes.setdefault(kind, []).append(place)
    return {
        "routes": [{"kind": kind_text(kind), "nodes": routes[kind]} for kind in sorted(routes, key=str)],
        "hubs": [
            {"node": name_of(node.identity), "uri": printable(node.uri), "hubs": [name_of(hub) for hub in node.hubs]}
            for node in sorted(nodes, key=lambda one: one.identity)
            if node.hubs
        ],
    }


def draw(document: dict[str, Any]) -> RenderableType:
    """Draw what is known."""
    if not (document["routes"] or document["hubs"]):
        return Text("no other node is known")
    routes = folding("message", "node", "address", "actors")
    for route in document["routes"]:
        for index, place in enumerate(route["nodes"]):
            kind = route["kind"] if index == 0 else ""
            routes.add_row(kind, place["node"], place["uri"], ", ".join(map(who, place["actors"])))
    hubs = folding("hub", "node", "address")
    for node in document["hubs"]:
        for hub in node["hubs"]:
            hubs.add_row(hub, node["node"], node["uri"])
    return Group(routes, hubs)
