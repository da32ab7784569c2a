"""``hopline trace``: which road a message takes; without sending it, unless asked to."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hopline.cli.actor_names import named, who
from hopline.cli.bodies import Writing, as_document, body_of, body_text
from hopline.cli.client import ask, everybody, joined_node, probe, require_keys
from hopline.cli.console import UsageError, folding, make_console, one_line_errors, say, say_json
from hopline.cli.names import kind_of, kind_text, name_of, node_named, short, shortened
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    JsonOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.cli.send import message_of, writing_of
from hopline.client import MessageHub
from hopline.cluster.service import MESSAGE_ROUTES, REQUEST_MESSAGE_ROUTES, contract_of, read, service_message
from hopline.cluster.service_pb2 import MessageRoutes, RequestMessageRoutes
from hopline.config import Configuration
from hopline.message import DeliveryError, Message, MessageIdentifier, TraceOptions, printable
from hopline.node import Node
from hopline.routing import KnownNode

EPILOG = """
**Examples**

    hopline trace Greet
    hopline trace Order --real '{"sku": "lamp"}' --callback Shipped

Without `--real` no handler sees anything: a probe asks every node that announces the message which of its actors would
get it, and when. Times there and back are by the clocks of both nodes, whose difference is estimated from them. Nodes
of the reference do not know the probe; they are asked for their routes instead.

With `--real` the message is sent, with tracing switched on, and the road is what its answer says of it.

**Exit code**: 0 when somebody handles it (with `--real`: when it was answered), 1 when nobody does, 2 when the command
makes no sense, 3 when no answer came in time.
"""


def trace_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="NAME, NAME/VERSION or NAME/VERSION/PARTITION.")],
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="The body, with --real.")] = None,
    real: Annotated[bool, typer.Option("--real", help="Send the message: its handlers will do what they do.")] = False,
    json_bytes: Annotated[bool, typer.Option("--json-bytes", help="Send the JSON as it is.")] = False,
    raw: Annotated[bool, typer.Option("--raw", "--text", help="Send the bytes or the text as they are.")] = False,
    hex_body: Annotated[bool, typer.Option("--hex", help="The body is hex.")] = False,
    file: Annotated[str | None, typer.Option("--file", help="Read the body from a file, or - for stdin.")] = None,
    callback: Annotated[
        list[str] | None, typer.Option("--callback", help="The answer to wait for, with --real.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for the answer.")] = 10.0,
    to_node: Annotated[str | None, typer.Option("--to-node", help="To one node, by how its identity begins.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="Version of the kind.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="Partition of the kind.")] = None,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show which nodes and actors would get a message, and the road there and back."""
    with one_line_errors("trace", debug=debug):
        identifier = kind_of(kind, version, partition)
        configuration = client_configuration(config, rendezvous, wire_format)
        if not real:
            if body is not None or file is not None or callback:
                raise UsageError("a body and --callback need --real, which sends the message")
            asyncio.run(_dry(configuration, identifier, to_node, as_json=as_json))
            return
        if not callback:
            raise UsageError("--real needs --callback: the road is what the answer says of it")
        writing = writing_of({Writing.JSON: json_bytes, Writing.RAW: raw, Writing.HEX: hex_body})
        message = message_of(identifier, body_of(body, file, writing), timeout)
        message = message.clone(trace_options=TraceOptions.ROUTING)
        callbacks = tuple(kind_of(one) for one in callback)
        asyncio.run(_real(configuration, message, callbacks, to_node, timeout, as_json=as_json))


trace_command.__doc__ = f"{trace_command.__doc__}\n{EPILOG}"


# -- dry ---------------------------------------------------------------------------------------------------------------


async def _dry(configuration: Configuration, kind: MessageIdentifier, to_node: str | None, *, as_json: bool) -> None:
    async with joined_node(configuration) as node:
        known = await everybody(node)
        asked = known if to_node is None else [node_named(to_node, known)]
        handling = [one for one in asked if to_node is not None or any(kind in kinds for kinds in one.actors.values())]
        require_keys(node, is_answered=bool(handling))
        if not handling:
            raise DeliveryError("unroutable", f"nobody announces {kind}; `hopline routes` shows who handles what")
        stops = await asyncio.gather(*(_stop(node.hub, one, kind) for one in handling))
        document = {"kind": kind_text(kind), "from": name_of(node.identity), "nodes": list(stops)}
        if as_json:
            say_json(document)
        else:
            make_console().print(_draw_dry(document))


async def _stop(hub: MessageHub, node: KnownNode, kind: MessageIdentifier) -> dict[str, Any]:
    """Ask one node, twice: the first time also connects."""
    place = {"node": name_of(node.identity), "uri": printable(node.uri)}
    started = time.perf_counter()
    if await probe(hub, node.identity, kind) is None:
        return {**place, "probe": False, "actors": await _actors_by_routes(hub, node, kind)}
    connecting = time.perf_counter() - started
    sent_at, started = time.time(), time.perf_counter()
    answer = await probe(hub, node.identity, kind)
    round_trip = time.perf_counter() - started
    if answer is None:
        return {**place, "probe": False, "actors": await _actors_by_routes(hub, node, kind)}
    there, back = answer.arrived_at - sent_at, sent_at + round_trip - answer.answered_at
    return {
        **place,
        "probe": True,
        "software": printable(answer.software),
        "first_seconds": round(connecting, 6),
        "round_trip_seconds": round(round_trip, 6),
        "there_seconds": round(there, 6),
        "back_seconds": round(back, 6),
        "clock_ahead_seconds": round((there - back) / 2, 6),
        "actors": [
            {
                "identity": name_of(actor.identity),
                **named(actor, kind),
                "waiting": actor.waiting,
                "running": actor.running,
            }
            for actor in answer.actors
        ],
    }


async def _actors_by_routes(hub: MessageHub, node: KnownNode, kind: MessageIdentifier) -> list[dict[str, Any]] | None:
    """Ask as the reference would; None if that is not answered either."""
    content = RequestMessageRoutes(message_contract=contract_of(kind), route_type=RequestMessageRoutes.INTERNAL)
    answer = await ask(hub, node.identity, service_message(REQUEST_MESSAGE_ROUTES, content), MESSAGE_ROUTES)
    if answer is None:
        return None
    return [{"identity": name_of(one)} for one in read(answer, MessageRoutes).internal_routes.actor_identity]


def _draw_dry(document: dict[str, Any]) -> RenderableType:
    nodes = document["nodes"]
    count = f"{len(nodes)} nodes take" if len(nodes) > 1 else "1 node takes"
    columns = ("node", "address", "actor", "waiting", "running", "there", "back", "round trip", "its clock")
    table = folding(*columns)
    for one in nodes:
        times = [_ms(one.get(name)) for name in ("there_seconds", "back_seconds", "round_trip_seconds")]
        clock = _ms(one.get("clock_ahead_seconds"), sign=True)
        if not one["probe"]:
            clock = "does not know the probe: a node of the reference?"
        for index, actor in enumerate(one["actors"] or [{"identity": "?", "name": "no answer"}]):
            work = [str(actor.get("waiting", "")), str(actor.get("running", ""))]
            place = [one["node"], one["uri"]] if index == 0 else ["", ""]
            table.add_row(*place, who(actor), *work, *([*times, clock] if index == 0 else []))
    here = shortened(document["from"])
    roads = [Text(f"{here} (here) -> {shortened(one['node'])} -> {here}") for one in nodes]
    title = f"{document['kind']}: {count} turns in handling it; no handler was called"
    return Group(Text(title), table, *roads)


def _ms(seconds: float | None, *, sign: bool = False) -> str:
    return "" if seconds is None else f"{seconds * 1000:{'+' if sign else ''}.1f} ms"


# -- real --------------------------------------------------------------------------------------------------------------


async def _real(
    configuration: Configuration,
    message: Message,
    callbacks: tuple[MessageIdentifier, ...],
    to_node: str | None,
    timeout: float,
    *,
    as_json: bool,
) -> None:
    async with joined_node(configuration, timeout=timeout) as node:
        known = await everybody(node)
        if to_node is not None:
            message = message.with_receiver_node(node_named(to_node, known).identity)
        started = time.perf_counter()
        answer = await node.hub.send(message, callback=callbacks, timeout=timeout)
        seconds = time.perf_counter() - started
        if as_json:
            say_json(as_document(answer, seconds))
            return
        make_console().print(_draw_real(node, message, answer, seconds))
        say(body_text(answer.body))


def _draw_real(node: Node, message: Message, answer: Message, seconds: float) -> RenderableType:
    table = folding("hop", "node", "address", "")
    for index, entry in enumerate(answer.routing):
        here = "here" if entry.identity == node.identity else ""
        table.add_row(str(index), name_of(entry.identity), printable(entry.uri), here)
    table.add_row(str(len(answer.routing)), name_of(node.identity), node.uri, "here")
    road = " -> ".join([*(short(entry.identity) for entry in answer.routing), short(node.identity)])
    what = f"{kind_text(message.identifier)} came home as {kind_text(answer.identifier)}"
    return Group(Text(f"{what} after {seconds * 1000:.1f} ms: {road}"), table)
