"""``hopline rendezvous``: run a rendezvous server, through which nodes find each other."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from hopline.cli import event_loop
from hopline.cli.errors import one_line_errors
from hopline.cli.logs import LogLevel, set_up_logs
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    LogJsonOption,
    LogLevelOption,
    MetricsOption,
    OpenOption,
    WireFormatOption,
    configuration_of,
)
from hopline.cli.ready_lines import ready_lines
from hopline.cli.security_summary import describe_encryption
from hopline.cli.signals import Signals
from hopline.cli.terminal import write_line
from hopline.config import Configuration
from hopline.metrics import MetricsServer, RendezvousCollector, rendezvous_readiness
from hopline.rendezvous import RelayStatistics, RendezvousServer, RendezvousSettings

EPILOG = """
**Examples**: one server, for nodes on this machine:

    hopline rendezvous

The first of three servers on three machines. They elect a leader; the others take over when it fails:

    hopline rendezvous --address tcp://10.0.0.1:8001 \\
        --synod-address tcp://10.0.0.1:7001 \\
        --synod tcp://10.0.0.1:7001 --synod tcp://10.0.0.2:7001 \\
        --synod tcp://10.0.0.3:7001 --open-without-keys

Name all servers to every node: `hopline node --rendezvous tcp://10.0.0.1:8001 --rendezvous tcp://10.0.0.2:8001 ...`.
A server receives messages at a port ten above the one at which it publishes. It stores nothing, and can be restarted at
any time; of several, restart one after the other.
"""


def rendezvous_command(
    config: ConfigOption = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Address to publish at. Default: tcp://127.0.0.1:8001.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", help="Host name or address at which nodes reach this machine.")
    ] = None,
    synod: Annotated[
        list[str] | None,
        typer.Option(
            "--synod", help="Address of a server for the election; repeat it for all servers, including this one."
        ),
    ] = None,
    synod_address: Annotated[
        str | None, typer.Option("--synod-address", help="The one of them that is this server's.")
    ] = None,
    wire_format: WireFormatOption = None,
    open_without_keys: OpenOption = False,
    metrics: MetricsOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_json: LogJsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a rendezvous server, until Ctrl-C or SIGTERM."""
    with one_line_errors("rendezvous", debug=debug):
        set_up_logs(log_level, as_json=log_json)
        configuration = configuration_of(
            config,
            {
                "rendezvous.address": ("--address", address),
                "rendezvous.advertise": ("--advertise", advertise),
                "rendezvous.synod": ("--synod", synod),
                "rendezvous.synod_address": ("--synod-address", synod_address),
                "rendezvous.relay.wire_format": ("--wire-format", wire_format),
                "rendezvous.open_without_keys": ("--open-without-keys", open_without_keys),
                "metrics.address": ("--metrics", metrics),
            },
        )
        event_loop.run(_run(configuration))


rendezvous_command.__doc__ = f"{rendezvous_command.__doc__}\n{EPILOG}"


async def _run(configuration: Configuration) -> None:
    signals = Signals()
    settings = configuration.rendezvous()
    metrics_address = configuration.metrics()
    server = RendezvousServer(settings)
    async with AsyncExitStack() as stack:
        metrics_uri = "none"
        if metrics_address is not None:
            readiness = rendezvous_readiness(server)
            metrics = MetricsServer(RendezvousCollector(server), *metrics_address, readiness=readiness)
            metrics_uri = (await stack.enter_async_context(metrics)).uri
        await server.start()
        write_line(_started_text(server, settings, configuration, metrics_uri))
        await signals.stop_requested.wait()
        statistics = server.statistics
        await server.stop()
        write_line(_stopped_text(statistics))


def _started_text(
    server: RendezvousServer, settings: RendezvousSettings, configuration: Configuration, metrics: str
) -> str:
    address = server.address
    properties = {
        "publishes at": address.broadcast_uri,
        "listens on": address.unicast_uri,
        "for partners": address.partner_broadcast_uri,
        "synod": ", ".join(settings.synod) if len(settings.synod) > 1 else "none: this is the only server",
        "security": describe_encryption(settings.curve),
        "configuration": str(configuration.file or "none"),
        "metrics": metrics,
    }
    return ready_lines(f"hopline rendezvous {address}", properties)


def _stopped_text(statistics: RelayStatistics) -> str:
    refused = ", ".join(f"{count} {reason}" for reason, count in statistics.refused.items())
    relayed = f"{statistics.relayed:,} of {statistics.received:,} messages relayed"
    return f"stopped: {relayed}; refused: {refused or 'none'}"
