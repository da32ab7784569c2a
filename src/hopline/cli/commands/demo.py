"""``hopline demo``: everything in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopline.cli.errors import one_line_errors
from hopline.cli.options import DebugOption
from hopline.cli.terminal import make_console


def demo_command(
    directory: Annotated[
        Path,
        typer.Option(
            "--directory", "-d", help="Directory for captures, tables and logs; that of an earlier demo is replaced."
        ),
    ] = Path("hopline-demo"),
    orders: Annotated[int, typer.Option("--orders", min=100, help="Number of orders to place.")] = 2_000,
    rate: Annotated[float, typer.Option("--rate", min=1.0, max=1_000.0, help="Orders per second.")] = 100.0,
    explore: Annotated[
        bool, typer.Option("--explore/--no-explore", help="Serve the explorer at the end, on a terminal.")
    ] = True,
    debug: DebugOption = False,
) -> None:
    """Run a network with failures and attacks, capture it, and analyse it with Spark, in a few minutes.

    A rendezvous server and three nodes, each in its own process, run a small shop: orders are priced, reserved, charged
    and shipped. Some fail, some time out, an attacker sends forged messages, and one node is killed and restarted. All
    of it is captured, and Spark turns the captures into tables while the shop is open. When it closes, each finding is
    shown with the command that shows more of it, and the batch job confirms the tables. At the end there is a report
    for the browser and, on a terminal, the explorer.

    Ctrl-C ends every process and removes the directory.

    **Example**:

        hopline demo --orders 500
    """
    with one_line_errors("demo", debug=debug):
        from hopline.demo.run import DemoOptions, run_demo  # imports pyarrow

        run_demo(DemoOptions(directory, orders, rate, explore), make_console())
