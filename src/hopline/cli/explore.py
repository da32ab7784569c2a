"""``hopline explore``: the tables as web pages."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hopline.cli.console import LogLevel, UsageError, say, set_up_logs
from hopline.cli.options import DebugOption
from hopline.cli.output import flush_output
from hopline.cli.pipeline_errors import pipeline_errors

EPILOG = """
**Examples**

    hopline explore tables
    hopline explore tables --captures captures   # frames, as of hopline decode
    hopline explore tables --port 9000 --no-open
    hopline explore webhdfs://namenode:9870/lake/tables
    hopline explore tables --descriptor orders.desc  # bodies that are protobuf

The pages follow the tables: what a run or a stream replaces is seen at once. Addresses of pages can be shared among
those who reach the explorer. Nothing is written, and nothing is loaded from elsewhere.

There are no users and no passwords: whoever reaches the address sees everything in the tables, so it listens on this
machine only, unless `--host` says otherwise. Ctrl-C stops it.
"""


def explore_command(
    location: Annotated[
        str,
        typer.Argument(metavar="TABLES", help="What `hopline pipeline run --out` wrote: a folder, or a URI."),
    ],
    captures: Annotated[
        str | None,
        typer.Option(
            "--captures", metavar="CAPTURES", help="Where the captures are, a folder or a URI: shows records' frames."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help="Port; 0 for any. Default: 8000, or the next free one."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Answer to this host name too. May be repeated."),
    ] = None,
    descriptor: Annotated[
        Path | None,
        typer.Option("--descriptor", metavar="FILE", help="Types of protobuf bodies, as protoc writes them."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
    debug: DebugOption = False,
) -> None:
    """Look at the tables in the browser: overview, topology, search, single journeys, and what went wrong."""
    with pipeline_errors("explore", debug=debug):
        from hopline.explorer.app import Explorer
        from hopline.explorer.hosts import Hosts, is_loopback
        from hopline.explorer.live_tables import LiveTables
        from hopline.explorer.protobuf_bodies import ProtobufTypes
        from hopline.explorer.records import RecordedFrames
        from hopline.explorer.serving import listen, serve, url_of
        from hopline.query.files import without_password

        set_up_logs(LogLevel.WARNING, as_json=False)
        frames = RecordedFrames(captures)
        if captures is not None and not frames.are_there():
            raise UsageError(f"--captures: {without_password(captures)} is no folder")
        protobuf = ProtobufTypes(descriptor)
        tables = LiveTables(location)
        try:
            with listen(host, port) as listener:
                explorer = Explorer(tables, Hosts(host, allow_host or ()), frames, protobuf)
                address = url_of(listener)

                def announce() -> None:
                    say(f"{address}  (Ctrl-C stops it)")
                    if not is_loopback(host):
                        warning = f"listening at {host}: whoever reaches it sees everything in the tables"
                        typer.echo(f"hopline explore: {warning}", err=True)
                    if open_ and sys.stdout.isatty():
                        webbrowser.open(address)

                serve(explorer, listener, on_start=announce)
            if tables.is_read:  # nobody waits for that page, and its thread cannot be stopped
                flush_output()
                os._exit(0)
        finally:
            tables.close()


explore_command.__doc__ = f"{explore_command.__doc__}\n{EPILOG}"
