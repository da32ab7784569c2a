"""Options that several commands have, and the configuration that they are merged into."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hopline.cli.logs import LogLevel
from hopline.config import Configuration, given, read_configuration
from hopline.message import WireFormat

ApplicationOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:NAME",
        help="Required. The application: package.module:name of an actor, a list, an async context manager that yields "
        "them, or a function that returns them.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file (TOML). Default: $HOPLINE_CONFIG, or ./hopline.toml."),
]
RendezvousOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rendezvous",
        "-r",
        metavar="URI",
        help="Address at which a rendezvous server publishes; may be repeated. Default: tcp://127.0.0.1:8001.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="Lowest level to log, on standard error.")]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Log as JSON lines.")]
MetricsOption = Annotated[
    str | None,
    typer.Option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics here, such as 127.0.0.1:9100."),
]
OpenOption = Annotated[
    bool,
    typer.Option(
        "--open-without-keys", help="Listen beyond this machine although there are no keys: every peer is trusted."
    ),
]
WireFormatOption = Annotated[
    WireFormat | None,
    typer.Option(
        "--wire-format",
        help="Format for peers whose format is not known yet, and among Hopline nodes. Every other peer is answered "
        "in its own. Default: v5 for unknown peers, v6 among Hopline nodes.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")]
IntervalOption = Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between refreshes.")]


def configuration_of(config: Path | None, options: Mapping[str, tuple[str, Any]]) -> Configuration:
    """Read the configuration, and override it by the options of the command line.

    Args:
        config: The file; None for the default one.
        options: By configuration key, the name of the option and its value. Options that were not given are skipped.
    """
    overrides = {}
    for key, (option, value) in options.items():
        if value not in (None, False, []):
            overrides[key] = given(option, value)
    return read_configuration(config, os.environ, overrides)


def client_configuration(
    config: Path | None, rendezvous: list[str] | None, wire_format: WireFormat | None
) -> Configuration:
    """Read the configuration of a command that joins a network for a short time."""
    return configuration_of(
        config,
        {"node.rendezvous": ("--rendezvous", rendezvous), "node.wire_format": ("--wire-format", wire_format)},
    )
