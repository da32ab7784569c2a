"""``hopline demo``: the whole story in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopline.cli.console import make_console, one_line_errors
from hopline.cli.options import DebugOption


def demo_command(
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Where captures, tables and logs go; an earlier demo is replaced.")
    ] = Path("hopline-demo"),
    orders: Annotated[int, typer.Option("--orders", min=100, help="How many customers order something.")] = 2_000,
    rate: Annotated[float, typer.Option("--rate", min=1.0, max=1_000.0, help="Orders a second.")] = 100.0,
    explore: Annotated[
        bool, typer.Option("--explore/--no-explore", help="Serve the explorer at the end, if this is a terminal.")
    ] = True,
    debug: DebugOption = False,
) -> None:
    """Show everything at once, in a few minutes.

    A rendezvous and three nodes in processes of their own run a little shop: orders are priced, reserved, charged and
    shipped. Some fail, some time out, somebody forges messages, one node is killed and comes back. All of it is
    captured; a Spark job makes tables of it; and the findings are told, each with the command that digs further. At the
    end there is a report to open in a browser and, on a terminal, the explorer.

    Ctrl-C ends every process and leaves nothing behind.
    """
    with one_line_errors("demo", debug=debug):
        from hopline.demo.story import Evening, tell  # Spark and Arrow are needed for nothing else here

        tell(Evening(directory, orders, rate, explore), make_console())
