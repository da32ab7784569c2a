"""``hopline capture``: switch the captures of running nodes, and look after their files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from hopline.capture.events import Level
from hopline.cli.capture_files import list_command, recover_command, show_command
from hopline.cli.client import capture_of, everybody, joined_node, require_keys
from hopline.cli.console import FAILED, UsageError, folding, make_console, one_line_errors, say_json
from hopline.cli.names import name_of, node_named
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
from hopline.node.introspection import NodeCapture
from hopline.routing import KnownNode

capture_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Record the traffic of nodes, and look after the recordings.

A node records where its own configuration says (`hopline node --capture DIR`, or `[capture] directory` in
`hopline.toml`): level `wire` is what it sent and received and what ended badly, level `full` is everything that happens
to a message on its way through the node. What was recorded are Parquet files, for `hopline pipeline run`, `hopline
replay` or any other reader.""",
)

NodesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes, by how their identities begin.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every node of the network that has a capture.")]


@capture_app.command("start")
def start_command(
    nodes: NodesArgument = None,
    level: Annotated[Level, typer.Option("--level", help="How much to record.")] = Level.WIRE,
    every: AllOption = False,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let running nodes record, or record more, or less.

    **Examples**:

        hopline capture start 3c89 --level full

        hopline capture start --all
    """
    with one_line_errors("capture start", debug=debug):
        configuration = client_configuration(config, rendezvous, wire_format)
        asyncio.run(_switch(configuration, _wanted(nodes, every), level, as_json=as_json))


@capture_app.command("stop")
def stop_command(
    nodes: NodesArgument = None,
    every: AllOption = False,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let running nodes record no longer. Their open segments are closed, and ready to be read."""
    with one_line_errors("capture stop", debug=debug):
        configuration = client_configuration(config, rendezvous, wire_format)
        asyncio.run(_switch(configuration, _wanted(nodes, every), Level.OFF, as_json=as_json))


@capture_app.command("status")
def status_command(
    nodes: NodesArgument = None,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show how the captures of running nodes are: level, place, records written and dropped."""
    with one_line_errors("capture status", debug=debug):
        configuration = client_configuration(config, rendezvous, wire_format)
        asyncio.run(_switch(configuration, nodes or [], None, as_json=as_json))


capture_app.command("recover")(recover_command)
capture_app.command("list")(list_command)
capture_app.command("show")(show_command)


def _wanted(nodes: Sequence[str] | None, every: bool) -> Sequence[str]:
    if bool(nodes) == every:
        raise UsageError("name the nodes, or say --all; `hopline capture status` shows which there are")
    return nodes or []


async def _switch(configuration: Configuration, wanted: Sequence[str], level: Level | None, *, as_json: bool) -> None:
    async with joined_node(configuration) as node:
        known = await everybody(node)
        asked = [node_named(text, known) for text in wanted] or known
        answers = await asyncio.gather(*(capture_of(node.hub, one.identity, level) for one in asked))
        require_keys(node, is_answered=any(answer is not None for answer in answers))
        documents = [_document(one, answer) for one, answer in zip(asked, answers, strict=True)]
    if as_json:
        say_json({"nodes": documents})
    else:
        make_console().print(_table(documents) if documents else "no other node is known")
    if level is not None and (not documents or (wanted and not all(one["has_capture"] for one in documents))):
        raise typer.Exit(FAILED)


def _document(known: KnownNode, answer: NodeCapture | None) -> dict[str, Any]:
    document: dict[str, Any] = {"node": name_of(known.identity), "answers": answer is not None, "has_capture": False}
    if answer is None or answer.report is None:
        return document
    report = msgspec.structs.asdict(answer.report)
    return document | {"has_capture": True, **report, **{k: printable(report[k]) for k in ("directory", "problem")}}


def _table(documents: Sequence[dict[str, Any]]) -> Table:
    table = folding("node", "level", "records", "dropped", "segments", "bytes", "directory", "")
    for column in table.columns[2:6]:
        column.justify = "right"
    for one in documents:
        if one["has_capture"]:
            counts = [f"{one[name]:,}" for name in ("records", "dropped", "segments", "segment_bytes")]
            problem = f"cannot write: {one['problem']}" if one["problem"] else ""
            table.add_row(one["node"], str(one["level"]), *counts, one["directory"], problem)
        else:
            why = (
                "has no directory to record in"
                if one["answers"]
                else "does not answer: not a Hopline node, or too busy"
            )
            table.add_row(one["node"], "", "", "", "", "", "", why)
    return table
