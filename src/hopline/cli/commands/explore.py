"""``hopline explore``: the tables as web pages."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hopline.cli.errors import UsageError
from hopline.cli.logs import LogLevel, set_up_logs
from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.standard_streams import flush_stdout
from hopline.cli.terminal import write_line

EPILOG = """
**Examples**

    hopline explore tables
    hopline explore tables --captures captures   # shows the frames of records
    hopline explore tables --port 9000 --no-open
    hopline explore webhdfs://namenode:9870/lake/tables
    hopline explore tables --descriptor orders.desc  # decodes protobuf bodies

Pages always show the current tables, also while a run or a stream replaces them. The address of a page can be shared
with everyone who can reach the explorer. The explorer writes nothing, and loads nothing from other servers.

There are no users and no passwords: everyone who can reach the address can read the tables. Therefore it listens on
this machine only, unless `--host` names another address. Ctrl-C stops it.
"""


def explore_command(
    location: Annotated[
        str,
        typer.Argument(metavar="TABLES", help="What `hopline pipeline run --out` wrote: a folder, or a URI."),
    ],
    captures: Annotated[
        str | None,
        typer.Option(
            "--captures", metavar="CAPTURES", help="Folder or URI of the captures, to show the frames of records."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65_535, help="Port; 0 for any free one. Default: 8000, or the next free one."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Accept requests for this host name, too; may be repeated."),
    ] = None,
    descriptor: Annotated[
        Path | None,
        typer.Option("--descriptor", metavar="FILE", help="Descriptor set of protobuf bodies, as protoc writes it."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
    debug: DebugOption = False,
) -> None:
    """Browse the tables: overview, topology, search, single journeys, failures and incidents."""
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
            raise UsageError(f"--captures: {without_password(captures)} is not a folder")
        protobuf = ProtobufTypes(descriptor)
        tables = LiveTables(location)
        try:
            with listen(host, port) as listener:
                explorer = Explorer(tables, Hosts(host, allow_host or ()), frames, protobuf)
                address = url_of(listener)

                def announce() -> None:
                    write_line(f"{address}  (Ctrl-C stops it)")
                    if not is_loopback(host):
                        warning = f"listening on {host}: everyone who can reach it can read the tables"
                        typer.echo(f"hopline explore: {warning}", err=True)
                    if open_ and sys.stdout.isatty():
                        webbrowser.open(address)

                serve(explorer, listener, on_start=announce)
            if tables.is_read:  # by a thread that cannot be stopped, for a page that is not needed any more
                flush_stdout()
                os._exit(0)
        finally:
            tables.close()


explore_command.__doc__ = f"{explore_command.__doc__}\n{EPILOG}"
