"""``hopline pipeline stream``: the tables while the network runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hopline.cli.options import DebugOption
from hopline.cli.pipeline_errors import pipeline_errors
from hopline.cli.spark_options import (
    ConfOption,
    MasterOption,
    MemoryOption,
    VerboseOption,
    own_logs_only,
    settings_of,
)
from hopline.cli.terminal import make_console

EPILOG = """
**Examples**

    hopline pipeline stream captures --out tables
    hopline pipeline stream captures --out tables \\
        --keys hopline.toml --trigger 5 --metrics 127.0.0.1:9108
    # read what is there, and end
    hopline pipeline stream captures --out tables --available-now
    # and nothing more will come: close all flows, settle all days
    hopline pipeline stream captures --out tables \\
        --available-now --final
    # look at it meanwhile
    hopline explore tables

A stream writes messages with the batch that read them, and a flow when it is closed: when each node that took part
has a record later than the flow's last by `--gap`, or has written no segment for `--idle`. Windows are provisional
until all of their flows are closed. When a day (UTC) is over, the stream settles it: the tables are then those of
`pipeline run`.

The stream keeps its state in `_stream` below the tables. Start it again, also after a crash, and it goes on where it
was. Ctrl-C lets the batch under way end; a second one stops it, and the next start repeats it. With `--final`, Ctrl-C
also lets it read what is left, close all flows and settle all days.

**Exit codes**: 0 success, 1 an error, 2 wrong options, 3 captures that cannot be read.
See docs/how-to/follow-a-network.md.
"""


def stream_command(
    captures: Annotated[list[str], typer.Argument(metavar="CAPTURES...", help="Folders or patterns; paths or URIs.")],
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="Folder of the tables, on any storage that Spark can open."),
    ],
    trigger: Annotated[
        float,
        typer.Option("--trigger", metavar="SECONDS", help="Time between batches: less is sooner, more is cheaper."),
    ] = 10.0,
    gap: Annotated[
        float, typer.Option("--gap", metavar="SECONDS", help="Longest pause inside a flow; a later record is late.")
    ] = 10.0,
    idle: Annotated[
        float,
        typer.Option("--idle", metavar="SECONDS", help="Do not wait for nodes that wrote no segment for so long."),
    ] = 60.0,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read the segments that are there, in batches, and end.")
    ] = False,
    final: Annotated[
        bool,
        typer.Option("--final", help="In the end, or when stopped, close all flows and settle all days."),
    ] = False,
    max_files: Annotated[
        int | None, typer.Option("--max-files", metavar="NUMBER", help="New segments in a batch, of each of CAPTURES.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Configuration with [security]: signatures are checked by it.")
    ] = None,
    window: Annotated[int, typer.Option("--window", help="Seconds of a window in handlers, edges and security.")] = 60,
    with_bodies: Annotated[
        bool,
        typer.Option("--with-bodies", help="Keep the body frames in messages, up to 64 KiB of each message."),
    ] = False,
    skip_bad_files: Annotated[
        bool,
        typer.Option("--skip-bad-files", help="Skip files that cannot be read, with a warning, instead of stopping."),
    ] = False,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus.")
    ] = None,
    master: MasterOption = None,
    memory: MemoryOption = "2g",
    conf: ConfOption = None,
    verbose: VerboseOption = False,
    debug: DebugOption = False,
) -> None:
    """Follow captures, and keep the tables up to date while the network runs."""
    with pipeline_errors("pipeline stream", debug=debug), ExitStack() as stack:
        from hopline.cli.stream_display import shown_stream
        from hopline.pipeline.stream.options import StreamOptions
        from hopline.pipeline.stream.running import run_stream

        options = StreamOptions(
            captures=tuple(captures),
            out=out,
            keys=keys,
            window_s=window,
            with_bodies=with_bodies,
            trigger_s=trigger,
            gap_s=gap,
            idle_s=idle,
            max_files=max_files,
            available_now=available_now,
            is_final=final,
            skip_bad_files=skip_bad_files,
            master=master,
            memory=memory,
            conf=settings_of(conf or []),
            verbose=verbose,
        )
        stop = stack.enter_context(stopped_by_signal())
        stack.enter_context(own_logs_only(debug=debug))
        console = make_console()
        display = stack.enter_context(shown_stream(console, options))
        if metrics is not None:
            from hopline.cli.stream_metrics import serve_metrics

            stack.enter_context(serve_metrics(metrics, display))
        run_stream(options, display, display, stop)
        console.print(display.summary())


stream_command.__doc__ = f"{stream_command.__doc__}\n{EPILOG}"


@contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """Return an event that the first SIGINT or SIGTERM sets; the second one raises KeyboardInterrupt."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def end(_number: int, _frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
