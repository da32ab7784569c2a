"""``hopline trace``: which route a message takes, without sending it; with ``--real`` it is sent."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hopline.cli.actor_labels import actor_label, class_and_handler
from hopline.cli.client import ask, did_you_mean, discover_nodes, joined_node, probe, raise_if_refused
from hopline.cli.errors import UsageError
from hopline.cli.identifiers import find_node, identity_text, parse_kind, short_identity, shorten_identity
from hopline.cli.message_bodies import (
    FileOption,
    HexOption,
    JsonBytesOption,
    KindArgument,
    PartitionOption,
    RawOption,
    ToNodeOption,
    VersionOption,
    answer_document,
    body_text,
    chosen_encoding,
    encode_body,
    new_message,
)
from hopline.cli.network_command import network_command
from hopline.cli.options import JsonOption
from hopline.cli.record_table import RecordTable
from hopline.cli.terminal import make_console, write_json, write_line
from hopline.client import MessageHub
from hopline.cluster.messages.service import MESSAGE_ROUTES, REQUEST_MESSAGE_ROUTES, contract_of, read, service_message
from hopline.cluster.messages.service_pb2 import MessageRoutes, RequestMessageRoutes
from hopline.config import Configuration
from hopline.message import DeliveryError, Message, MessageIdentifier, TraceOptions, printable
from hopline.node import Node
from hopline.node.introspection import Probed
from hopline.node.report import ActorReport
from hopline.routing import KnownNode

EPILOG = """
**Examples**

    hopline trace Greet
    hopline trace Order --real '{"sku": "lamp"}' --callback Shipped

Without `--real` no handler is called. A probe asks every node that announces the message which of its actors would
receive it. `there` and `back` are measured by the clocks of both nodes; `clock ahead` estimates how far the clock of
the other node is ahead. Nodes of the reference do not know the probe; they are asked for their routes instead.

With `--real` the message is sent with tracing enabled, and the route is read from its answer.

**Exit codes**: 0 a node handles it (with `--real`: it was answered), 1 no node does, 2 wrong usage, 3 no answer in
time.
"""


@network_command("trace", EPILOG)
def trace_command(
    configuration: Configuration,
    kind: KindArgument,
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="The body, with --real.")] = None,
    real: Annotated[bool, typer.Option("--real", help="Send the message: its handlers are called.")] = False,
    json_bytes: JsonBytesOption = False,
    raw: RawOption = False,
    hex_body: HexOption = False,
    file: FileOption = None,
    callback: Annotated[
        list[str] | None,
        typer.Option("--callback", metavar="KIND", help="Answer to wait for, with --real; may be repeated."),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for the answer.")] = 10.0,
    to_node: ToNodeOption = None,
    version: VersionOption = None,
    partition: PartitionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which nodes and actors would receive a message, and the time there and back."""
    identifier = parse_kind(kind, version, partition)
    if not real:
        if body is not None or file is not None or callback:
            raise UsageError("BODY, --file and --callback need --real, which sends the message")
        asyncio.run(_probe_route(configuration, identifier, to_node, as_json=as_json))
        return
    if not callback:
        raise UsageError("--real needs --callback: the route is read from the answer")
    encoding = chosen_encoding(json_bytes=json_bytes, raw=raw, hex_body=hex_body)
    message = new_message(identifier, encode_body(body, file, encoding), timeout)
    message = message.clone(trace_options=TraceOptions.ROUTING)
    callbacks = tuple(parse_kind(text) for text in callback)
    asyncio.run(_send_traced(configuration, message, callbacks, to_node, timeout, as_json=as_json))


# -- without sending ---------------------------------------------------------------------------------------------------


async def _probe_route(
    configuration: Configuration, kind: MessageIdentifier, to_node: str | None, *, as_json: bool
) -> None:
    async with joined_node(configuration) as node:
        known = await discover_nodes(node)
        if to_node is None:
            receivers = [known_node for known_node in known if _announces(known_node, kind)]
        else:
            receivers = [find_node(to_node, known)]
        raise_if_refused(node, is_answered=bool(receivers))
        if not receivers:
            hint = did_you_mean(kind, known) or "`hopline routes` lists which node handles which message"
            raise DeliveryError("unroutable", f"no node announces {kind}; {hint}")
        probes = await asyncio.gather(*(_probe_node(node.hub, receiver, kind) for receiver in receivers))
        document = {"kind": str(kind), "from": identity_text(node.identity), "nodes": list(probes)}
        if as_json:
            write_json(document)
        else:
            make_console().print(_draw_probes(document))


def _announces(node: KnownNode, kind: MessageIdentifier) -> bool:
    return any(kind in kinds for kinds in node.actors.values())


async def _probe_node(hub: MessageHub, node: KnownNode, kind: MessageIdentifier) -> dict[str, Any]:
    """Probe a node twice, because the first probe also connects; fall back to its routes if it does not answer."""
    document: dict[str, Any] = {"node": identity_text(node.identity), "uri": printable(node.uri)}
    started = time.perf_counter()
    first_answer = await probe(hub, node.identity, kind)
    first_seconds = time.perf_counter() - started
    answer = None
    if first_answer is not None:
        sent_at, started = time.time(), time.perf_counter()
        answer = await probe(hub, node.identity, kind)
        round_trip = time.perf_counter() - started
    if answer is None:
        return document | {"probe": False, "actors": await _actors_by_routes(hub, node, kind)}
    return {
        **document,
        "probe": True,
        "software": printable(answer.software),
        "first_seconds": round(first_seconds, 6),
        **_times(answer, sent_at, round_trip),
        "actors": [_actor_document(actor, kind) for actor in answer.actors],
    }


def _times(answer: Probed, sent_at: float, round_trip: float) -> dict[str, float]:
    """Return the times of a probe. Half the difference between there and back is how far the clocks differ."""
    there = answer.arrived_at - sent_at
    back = sent_at + round_trip - answer.answered_at
    return {
        "round_trip_seconds": round(round_trip, 6),
        "there_seconds": round(there, 6),
        "back_seconds": round(back, 6),
        "clock_ahead_seconds": round((there - back) / 2, 6),
    }


def _actor_document(actor: ActorReport, kind: MessageIdentifier) -> dict[str, Any]:
    description = {"identity": identity_text(actor.identity), **class_and_handler(actor, kind)}
    return description | {"waiting": actor.waiting, "running": actor.running}


async def _actors_by_routes(hub: MessageHub, node: KnownNode, kind: MessageIdentifier) -> list[dict[str, Any]] | None:
    """Request the route by a service message of the reference; return None if that is not answered either."""
    content = RequestMessageRoutes(message_contract=contract_of(kind), route_type=RequestMessageRoutes.INTERNAL)
    answer = await ask(hub, node.identity, service_message(REQUEST_MESSAGE_ROUTES, content), MESSAGE_ROUTES)
    if answer is None:
        return None
    actors = read(answer, MessageRoutes).internal_routes.actor_identity
    return [{"identity": identity_text(actor)} for actor in actors]


def _draw_probes(document: dict[str, Any]) -> RenderableType:
    nodes = document["nodes"]
    numbers = ("waiting", "running", "there", "back", "round trip", "clock ahead")
    table = RecordTable("node", "address", "actor", *numbers, "", right=numbers)
    for node in nodes:
        name, address = node["node"], node["uri"]
        times = [_ms(node.get(f"{part}_seconds")) for part in ("there", "back", "round_trip")]
        times.append(_ms(node.get("clock_ahead_seconds"), sign=True))
        note = "" if node["probe"] else "does not know the probe: a node of the reference?"
        for actor in node["actors"] or [{"identity": "?", "name": "no answer"}]:
            work = [str(actor.get("waiting", "")), str(actor.get("running", ""))]
            table.add_row(name, address, actor_label(actor), *work, *times, note)
            name, address, times, note = "", "", [""] * len(times), ""  # shown once
    receivers = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes in turn"
    title = f"{document['kind']} would be handled by {receivers}; no handler was called"
    here = shorten_identity(document["from"])
    routes = [Text(f"{here} (here) -> {shorten_identity(node['node'])} -> {here}") for node in nodes]
    return Group(Text(title), table, *routes)


def _ms(seconds: float | None, *, sign: bool = False) -> str:
    if seconds is None:
        return ""
    number_format = "+.1f" if sign else ".1f"
    return f"{seconds * 1000:{number_format}} ms"


# -- by sending --------------------------------------------------------------------------------------------------------


async def _send_traced(
    configuration: Configuration,
    message: Message,
    callbacks: tuple[MessageIdentifier, ...],
    to_node: str | None,
    timeout: float,
    *,
    as_json: bool,
) -> None:
    async with joined_node(configuration, timeout=timeout) as node:
        known = await discover_nodes(node)
        if to_node is not None:
            message = message.with_receiver_node(find_node(to_node, known).identity)
        started = time.perf_counter()
        answer = await node.hub.send(message, callback=callbacks, timeout=timeout)
        seconds = time.perf_counter() - started
        if as_json:
            write_json(answer_document(answer, seconds))
            return
        make_console().print(_draw_route(node, message, answer, seconds))
        write_line(body_text(answer.body))


def _draw_route(node: Node, message: Message, answer: Message, seconds: float) -> RenderableType:
    hops = [(hop.identity, printable(hop.uri)) for hop in answer.routing]
    hops.append((node.identity, node.uri))
    table = RecordTable("hop", "node", "address", "", right=("hop",))
    for index, (identity, uri) in enumerate(hops):
        here = "here" if identity == node.identity else ""
        table.add_row(str(index), identity_text(identity), uri, here)
    answered = f"{message.identifier} was answered by {answer.identifier} after {seconds * 1000:.1f} ms"
    route = " -> ".join(short_identity(identity) for identity, _ in hops)
    return Group(Text(f"{answered}: {route}"), table)
