"""``hopline capture``: start and stop the recording of running nodes, and inspect its files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from hopline.capture.events import Level
from hopline.cli.client import discover_nodes, joined_node, raise_if_refused, request_capture
from hopline.cli.commands.capture.files import list_command, recover_command, show_command
from hopline.cli.errors import FAILED, UsageError
from hopline.cli.identifiers import NO_OTHER_NODE, find_node, identity_text
from hopline.cli.network_command import network_command
from hopline.cli.options import JsonOption
from hopline.cli.record_table import RecordTable
from hopline.cli.terminal import make_console, write_json
from hopline.config import Configuration
from hopline.message import printable
from hopline.node.introspection import NodeCapture
from hopline.routing import KnownNode

_COUNTS = {"records": "records", "dropped": "dropped", "segments": "segments", "bytes": "segment_bytes"}
_NO_ANSWER = "no answer: not a Hopline node, or too busy"
_NO_DIRECTORY = "no capture directory: start the node with --capture DIR"

capture_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Record the traffic of nodes, and inspect the recordings.

A node records into the directory of its own configuration (`hopline node --capture DIR`, or `[capture] directory` in
`hopline.toml`). Level `wire` records the messages that the node sends and receives, and those that fail. Level `full`
records every step of a message through the node. Recordings are Parquet files, for `hopline pipeline run`,
`hopline replay` or any other reader.""",
)

NodesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes, by identity or how it begins.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every node that has a capture directory.")]


@capture_app.command("start")
@network_command("capture start")
def start_command(
    configuration: Configuration,
    nodes: NodesArgument = None,
    level: Annotated[Level, typer.Option("--level", help="What to record.")] = Level.WIRE,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start recording on running nodes, or change what they record.

    **Examples**:

        hopline capture start 3c89 --level full

        hopline capture start --all
    """
    asyncio.run(_set_level(configuration, _chosen(nodes, every), level, as_json=as_json))


@capture_app.command("stop")
@network_command("capture stop")
def stop_command(
    configuration: Configuration,
    nodes: NodesArgument = None,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop recording on running nodes. Their open segments are closed, and can be read."""
    asyncio.run(_set_level(configuration, _chosen(nodes, every), Level.OFF, as_json=as_json))


@capture_app.command("status")
@network_command("capture status")
def status_command(
    configuration: Configuration,
    nodes: NodesArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Show the captures of running nodes: level, directory, records written and dropped."""
    asyncio.run(_set_level(configuration, nodes or [], None, as_json=as_json))


capture_app.command("recover")(recover_command)
capture_app.command("list")(list_command)
capture_app.command("show")(show_command)


def _chosen(nodes: Sequence[str] | None, every: bool) -> Sequence[str]:
    if bool(nodes) == every:
        raise UsageError("name the nodes, or use --all; `hopline capture status` lists the nodes")
    return nodes or []


async def _set_level(configuration: Configuration, names: Sequence[str], level: Level | None, *, as_json: bool) -> None:
    """Set the level of the named nodes, or of all, and show their captures; None only shows them."""
    async with joined_node(configuration) as node:
        known = await discover_nodes(node)
        chosen = [find_node(name, known) for name in names] or known
        answers = await asyncio.gather(*(request_capture(node.hub, each.identity, level) for each in chosen))
        raise_if_refused(node, is_answered=any(answer is not None for answer in answers))
        documents = [_document(each, answer) for each, answer in zip(chosen, answers, strict=True)]
    if as_json:
        write_json({"nodes": documents})
    else:
        make_console().print(_draw(documents) if documents else NO_OTHER_NODE)
    is_missing = any(not document["has_capture"] for document in documents)
    is_failed = not documents or (names and is_missing)
    if level is not None and is_failed:
        raise typer.Exit(FAILED)


def _document(node: KnownNode, answer: NodeCapture | None) -> dict[str, Any]:
    document: dict[str, Any] = {"node": identity_text(node.identity), "answers": answer is not None}
    if answer is None or answer.report is None:
        return document | {"has_capture": False}
    report = msgspec.structs.asdict(answer.report)
    for name in ("directory", "problem"):
        report[name] = printable(report[name])
    return document | {"has_capture": True, **report}


def _draw(documents: Sequence[dict[str, Any]]) -> RecordTable:
    table = RecordTable("node", "level", *_COUNTS, "directory", "", right=tuple(_COUNTS))
    for document in documents:
        if not document["has_capture"]:
            problem = _NO_DIRECTORY if document["answers"] else _NO_ANSWER
            table.add_row(document["node"], *[""] * (len(_COUNTS) + 2), problem)
            continue
        counts = [f"{document[name]:,}" for name in _COUNTS.values()]
        problem = f"cannot write: {document['problem']}" if document["problem"] else ""
        table.add_row(document["node"], str(document["level"]), *counts, document["directory"], problem)
    return table
