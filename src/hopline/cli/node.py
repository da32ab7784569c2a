"""``hopline node``: run actors as a node of a network."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from hopline.actors import Actor, handler_map
from hopline.capture.events import Level
from hopline.cli import event_loop
from hopline.cli.application import actors_of, find_application
from hopline.cli.banner import security_of
from hopline.cli.console import LogLevel, UsageError, one_line_errors, say, set_up_logs
from hopline.cli.names import kind_text, name_of
from hopline.cli.options import (
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
from hopline.cli.stopping import LAST_MOMENT, Signals, end_within
from hopline.config import Configuration
from hopline.node import Network, Node, Stats, StopReport
from hopline.node.metrics import MetricsServer, NodeCollector
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

**Configuration**: every option can stand in `hopline.toml`, or in the environment
(`HOPLINE_NODE__ADDRESS=tcp://127.0.0.1:5101`). Ctrl-C or SIGTERM finishes what is under way and says goodbye; a second
one stops at once. SIGHUP reads the key file again, which also happens by itself when it changes.
"""


def node_command(
    app: Annotated[
        str,
        typer.Option("--app", help="The actors, as package.module:name: one, a list, or a function that makes them."),
    ],
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Where to listen; of a range, the first free port. Default: any on loopback."),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", help="The host name or address that others know this machine by.")
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option("--identity", help="The name that others know this node by; no two may have it. Default: a GUID."),
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="For development: be the rendezvous too, if nobody else is.")
    ] = False,
    wire_format: WireFormatOption = None,
    open_without_keys: OpenOption = False,
    metrics: MetricsOption = None,
    capture: Annotated[
        str | None, typer.Option("--capture", help="Record the traffic of this node in Parquet files below DIR.")
    ] = None,
    capture_level: Annotated[
        Level | None, typer.Option("--capture-level", help="What to record. Default: wire; `hopline capture` switches.")
    ] = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run actors as a node of a network, until Ctrl-C or SIGTERM."""
    with one_line_errors("node", debug=debug):
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
        _check_capture(configuration)
        event_loop.run(_run(find_application(app), app, configuration))


node_command.__doc__ = f"{node_command.__doc__}\n{EPILOG}"


def _check_capture(configuration: Configuration) -> None:
    """Tell at the start that nothing can be recorded; a node that runs lives on without."""
    settings = configuration.capture()
    if settings is None:
        return
    try:
        Path(settings.directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--capture: expected a directory to record in, found {settings.directory}: {error}") from None
    if not os.access(settings.directory, os.W_OK | os.X_OK):
        raise UsageError(f"--capture: expected a directory to record in, found {settings.directory}: not writable")


async def _run(application: Any, path: str, configuration: Configuration) -> None:
    signals = Signals()
    network, where = configuration.network(), configuration.metrics()
    async with AsyncExitStack() as stack:

        async def start() -> tuple[Node, list[Actor], str | None]:
            actors = await actors_of(application, path)
            node = Node(
                *actors,
                identity=configuration.identity,
                settings=configuration.settings,
                network=network,
                capture=configuration.capture(),
            )
            serving = None
            if where is not None:
                # Before the node, so that a port in use is told before anybody was told of the node.
                serving = (await stack.enter_async_context(MetricsServer(NodeCollector(node), *where))).uri
            await node.start()
            return node, actors, serving

        started = await signals.unless_asked(start())
        if started is None:
            say("stopped before it was ready")
            return
        node, actors, serving = started
        say(_greeting(node, actors, network, configuration.file, serving))
        if isinstance(network.security, DomainSecurity) and network.security.key_ring is not None:
            signals.on_hangup(network.security.reload_keys)  # at once; the node looks every second
        await signals.asked.wait()
        say("stopping: what is under way may end; once more stops at once")
        report = await signals.stop(node.stop)
        say(_farewell(node.stats(), report))
        if report.cancelled_handlers:
            end_within(LAST_MOMENT, 0)


def _greeting(node: Node, actors: list[Actor], network: Network, file: Path | None, metrics: str | None) -> str:
    handled = sorted({kind_text(kind) for actor in actors for kind in handler_map(actor)})
    followed = node.report().network
    server = "" if followed is None else followed.rendezvous
    state = "which is this node itself" if node.is_serving else "joined" if node.is_joined else "no answer yet"
    rows = {
        "listens on": node.uri,
        "follows": f"{server} ({state})",
        "handles": ", ".join(handled) or "nothing",
        "security": security_of(network),
        "configuration": str(file or "none"),
        "metrics": metrics or "none",
        "capture": _capture_of(node),
    }
    return "\n".join([f"hopline node {name_of(node.identity)} is ready", *(f"  {k:14}{v}" for k, v in rows.items())])


def _capture_of(node: Node) -> str:
    capture = node.report().capture
    return "none" if capture is None else f"{capture.level}, in {capture.directory}"


def _farewell(stats: Stats, report: StopReport) -> str:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in stats.outcomes.items() if count) or "no messages"
    lost = (
        "nothing was lost"
        if report.is_clean
        else f"{report.failed_messages} messages failed, {report.cancelled_handlers} handlers cancelled, "
        f"{report.failed_promises} answers missing"
    )
    return f"stopped: {stats.handled} handled, {stats.handler_errors} of them failed; {outcomes}; {lost}"
