"""``hopline node``: run actors as a node of a network."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from hopline.actors import Actor, handler_map
from hopline.application.configured import ConfiguredNode, configured_node
from hopline.capture.events import Level
from hopline.cli import event_loop
from hopline.cli.app_loader import actors_of, find_application, require_path
from hopline.cli.commands.node.reload import run_reloading
from hopline.cli.errors import one_line_errors
from hopline.cli.identifiers import identity_text
from hopline.cli.logs import LogLevel, set_up_logs
from hopline.cli.options import (
    ApplicationOption,
    ConfigOption,
    DebugOption,
    LogJsonOption,
    LogLevelOption,
    MetricsOption,
    OpenOption,
    RendezvousOption,
    WireFormatOption,
    configuration_of,
)
from hopline.cli.ready_lines import ready_lines
from hopline.cli.security_summary import describe_security
from hopline.cli.signals import EXIT_TIME, Signals, exit_within
from hopline.cli.terminal import write_line, write_wrapped
from hopline.config import Configuration
from hopline.node import Node, Stats, StopReport
from hopline.security import DomainSecurity

EPILOG = """
**Example**: put this into `greeter.py`,

    from hopline import Actor, Payload, handler

    class Greet(Payload):
        name: str

    class Greeting(Payload):
        text: str

    class Greeter(Actor):
        @handler
        def greet(self, request: Greet) -> Greeting:
            return Greeting(f"Hello, {request.name}!")

and run it, in one terminal or in several:

    hopline node --app greeter:Greeter --embedded
    hopline send Greet '{"name": "world"}' --callback Greeting

**Configuration**: every option can be set in `hopline.toml` or in the environment
(`HOPLINE_NODE__ADDRESS=tcp://127.0.0.1:5101`).

**Signals**: on Ctrl-C or SIGTERM the node finishes the messages in progress, withdraws its routes and stops; a second
signal stops it at once. SIGHUP reloads the key file, which is also reloaded within a second when it changes.
"""


def node_command(
    app: ApplicationOption = None,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="Address to listen on; of a port range, the first free one. Default: a free port on loopback.",
        ),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", help="Host name or address at which other nodes reach this machine.")
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option("--identity", help="Identity of the node, unique in the network. Default: a new GUID."),
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="For development: also serve as the rendezvous server, if there is none.")
    ] = False,
    wire_format: WireFormatOption = None,
    open_without_keys: OpenOption = False,
    metrics: MetricsOption = None,
    capture: Annotated[
        str | None,
        typer.Option("--capture", metavar="DIR", help="Record the traffic of this node in Parquet files below DIR."),
    ] = None,
    capture_level: Annotated[
        Level | None,
        typer.Option("--capture-level", help="What to record. Default: wire. `hopline capture` changes it."),
    ] = None,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload", help="For development: start anew when a .py or .toml file below the current directory changes."
        ),
    ] = False,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run actors as a node of a network, until Ctrl-C or SIGTERM."""
    with one_line_errors("node", debug=debug):
        path = require_path(app)
        if reload:
            arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
            raise typer.Exit(run_reloading(arguments, Path.cwd()))
        set_up_logs(log_level, as_json=log_json)
        configuration = configuration_of(
            config,
            {
                "node.rendezvous": ("--rendezvous", rendezvous),
                "node.address": ("--address", address),
                "node.advertise": ("--advertise", advertise),
                "node.identity": ("--identity", identity),
                "node.embedded": ("--embedded", embedded),
                "node.wire_format": ("--wire-format", wire_format),
                "node.open_without_keys": ("--open-without-keys", open_without_keys),
                "metrics.address": ("--metrics", metrics),
                "capture.directory": ("--capture", capture),
                "capture.level": ("--capture-level", capture_level),
            },
        )
        event_loop.run(_run(find_application(path), path, configuration))


node_command.__doc__ = f"{node_command.__doc__}\n{EPILOG}"


async def _run(application: Any, path: str, configuration: Configuration) -> None:
    signals = Signals()
    async with AsyncExitStack() as stack:

        async def start() -> tuple[ConfiguredNode[Node], list[Actor]]:
            actors = await stack.enter_async_context(actors_of(application, path))
            configured = configured_node(configuration, *actors, node_type=Node)
            await configured.node.start()
            stack.push_async_callback(configured.node.stop)  # unless it has stopped, when writing a line fails
            return configured, actors

        started = await signals.start(start())
        if started is None:
            write_line("stopped before it was ready")
            return
        configured, actors = started
        node = configured.node
        write_line(_started_text(configured, actors, configuration.file))
        security = configured.network.security
        if isinstance(security, DomainSecurity) and security.key_ring is not None:
            signals.on_hangup(security.reload_keys)  # at once; the node checks the file every second
        await signals.stop_requested.wait()
        write_line("stopping: waiting for messages in progress; press Ctrl-C again to stop at once")
        report = await signals.stop(node.stop)
        write_wrapped(_stopped_text(node.stats(), report))
    if report.cancelled_handlers:
        exit_within(EXIT_TIME, 0)


def _started_text(configured: ConfiguredNode[Node], actors: list[Actor], file: Path | None) -> str:
    node, metrics = configured.node, configured.metrics
    kinds = sorted({str(kind) for actor in actors for kind in handler_map(actor)})
    report = node.report()
    properties = {
        "listens on": node.uri,
        "follows": _rendezvous_text(node),
        "handles": ", ".join(kinds) or "nothing",
        "security": describe_security(configured.network),
        "configuration": str(file or "none"),
        "metrics": "none" if metrics is None else metrics.uri,
        "capture": "none" if report.capture is None else f"{report.capture.level}, in {report.capture.directory}",
    }
    return ready_lines(f"hopline node {identity_text(node.identity)}", properties)


def _rendezvous_text(node: Node) -> str:
    network = node.report().network
    server = "" if network is None else network.rendezvous
    if node.is_serving:
        state = "this node itself"
    elif node.is_joined:
        state = "joined"
    else:
        state = "no answer yet"
    return f"{server} ({state})"


def _stopped_text(stats: Stats, report: StopReport) -> str:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in stats.outcomes.items() if count)
    losses = {
        "message failed": report.failed_messages,
        "handler cancelled": report.cancelled_handlers,
        "answer missing": report.failed_promises,
    }
    lost = ", ".join(f"{count:,} {_in_plural(loss, count)}" for loss, count in losses.items())
    handled = f"{stats.handled:,} handled, {stats.handler_errors:,} of them failed"
    return f"stopped: {handled}; {outcomes or 'no messages'}; {'nothing was lost' if report.is_clean else lost}"


def _in_plural(loss: str, count: int) -> str:
    noun, _, verb = loss.partition(" ")
    return loss if count == 1 else f"{noun}s {verb}"
