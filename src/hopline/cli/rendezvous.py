"""``hopline rendezvous``: run a server where nodes find each other."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from hopline.cli import event_loop
from hopline.cli.banner import encryption_of
from hopline.cli.console import LogLevel, one_line_errors, say, set_up_logs
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
from hopline.cli.stopping import Signals
from hopline.cluster import RelayStatistics
from hopline.config import Configuration
from hopline.node import RendezvousServer, RendezvousSettings
from hopline.node.metrics import MetricsServer, RendezvousCollector

EPILOG = """
**Examples**: one server, for nodes on this machine,

    hopline rendezvous

and three on three machines, of which one leads and the others are ready to, each with its own address:

    hopline rendezvous --address tcp://10.0.0.1:8001 --synod-address tcp://10.0.0.1:7001 \\
        --synod tcp://10.0.0.1:7001 --synod tcp://10.0.0.2:7001 --synod tcp://10.0.0.3:7001 --open-without-keys

Nodes are given all of them: `hopline node --rendezvous tcp://10.0.0.1:8001 --rendezvous tcp://10.0.0.2:8001 ...`. A
server takes messages ten ports above where it publishes. It keeps nothing: restart it as you like, one at a time.
"""


def rendezvous_command(
    config: ConfigOption = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Where to publish. Default: tcp://127.0.0.1:8001.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", help="The host name or address that nodes know this machine by.")
    ] = None,
    synod: Annotated[
        list[str] | None,
        typer.Option("--synod", help="Where the servers talk to each other; once for each, this one included."),
    ] = None,
    synod_address: Annotated[str | None, typer.Option("--synod-address", help="Which of these this server is.")] = None,
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
    settings, where = configuration.rendezvous(), configuration.metrics()
    server = RendezvousServer(settings)
    async with AsyncExitStack() as stack:
        serving = None
        if where is not None:
            serving = await stack.enter_async_context(MetricsServer(RendezvousCollector(server), *where))
        await server.start()
        say(_greeting(server, settings, configuration, "none" if serving is None else serving.uri))
        await signals.asked.wait()
        statistics = server.statistics
        await server.stop()
        say(_farewell(statistics))


def _greeting(
    server: RendezvousServer, settings: RendezvousSettings, configuration: Configuration, metrics: str
) -> str:
    address = server.address
    rows = {
        "publishes at": address.broadcast_uri,
        "listens on": address.unicast_uri,
        "for partners": address.partner_broadcast_uri,
        "synod": ", ".join(settings.synod) if len(settings.synod) > 1 else "none: this server leads alone",
        "security": encryption_of(settings.curve),
        "configuration": str(configuration.file or "none"),
        "metrics": metrics,
    }
    return "\n".join([f"hopline rendezvous {address} is ready", *(f"  {k:14}{v}" for k, v in rows.items())])


def _farewell(statistics: RelayStatistics) -> str:
    refused = ", ".join(f"{count} {reason}" for reason, count in statistics.refused.items())
    return f"stopped: {statistics.relayed} of {statistics.received} messages relayed; refused: {refused or 'none'}"
