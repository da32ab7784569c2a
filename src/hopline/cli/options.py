"""Options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hopline.cli.console import LogLevel
from hopline.config import Configuration, given, read_configuration
from hopline.message import WireFormat

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file. Default: $HOPLINE_CONFIG, or ./hopline.toml if it is there."),
]
RendezvousOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rendezvous",
        "-r",
        help="Address at which a rendezvous server publishes; once for each. Default: tcp://127.0.0.1:8001.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the stack of an error.")]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="How much to log, on standard error.")]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Log as JSON lines.")]
MetricsOption = Annotated[
    str | None, typer.Option("--metrics", help="Serve Prometheus metrics at this host:port, such as 127.0.0.1:9100.")
]
OpenOption = Annotated[
    bool,
    typer.Option(
        "--open-without-keys", help="Listen where other machines can connect, without keys: everybody there is trusted."
    ),
]
WireFormatOption = Annotated[
    WireFormat | None,
    typer.Option(
        "--wire-format",
        help="Format to begin with and among Hopline nodes; every other peer is spoken to in its own as soon as it was "
        "heard. Default: v5 to begin with, v6 among Hopline nodes.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON for machines.")]


def configuration_of(config: Path | None, options: Mapping[str, tuple[str, Any]]) -> Configuration:
    """Read the configuration with the options that were given: by key, the name of the option and its value."""
    said = {key: given(option, value) for key, (option, value) in options.items() if value not in (None, False, [])}
    return read_configuration(config, os.environ, said)


def client_configuration(
    config: Path | None, rendezvous: list[str] | None, wire_format: WireFormat | None
) -> Configuration:
    """Read the configuration of a command that joins a network for a moment."""
    return configuration_of(
        config,
        {"node.rendezvous": ("--rendezvous", rendezvous), "node.wire_format": ("--wire-format", wire_format)},
    )
