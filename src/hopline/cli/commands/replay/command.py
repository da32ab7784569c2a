"""``hopline replay``: send the requests of a capture again, into a running network."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hopline.cli.capture_paths import require_capture
from hopline.cli.client import discover_nodes, joined_node
from hopline.cli.commands.replay.driver import ReplayResults, drive
from hopline.cli.errors import FAILED, UsageError, one_line_errors
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    JsonOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.cli.record_table import RecordTable
from hopline.cli.terminal import make_console, write_json, write_wrapped
from hopline.config import Configuration
from hopline.display.frames import plural
from hopline.message import Message

if TYPE_CHECKING:
    from hopline.capture.replay import Request, Selection

EPILOG = """
**Examples**

    hopline replay captures --dry-run
    hopline replay captures --speed 2
    hopline replay captures/date=2026-11-16 --speed max \\
        --only ORDER.PRICE --limit 10000

The messages that began the recorded flows are sent again: those that hubs submitted or, in captures of level `wire`,
those that nodes sent first. Messages that handlers sent are left out, because the handlers send them again, and so are
the service messages of the protocol. Each request begins a new flow, is routed to the actors that handle it now, and
waits for the answer that its first sender waited for.

**Exit codes**: 0 every request was answered (or sent, if it expects no answer), 1 some were not, 2 wrong usage, 130
stopped by Ctrl-C, which stops sending and reports the results so far.
"""

WITHOUT_PAUSES = "max"
MOST_REASONS = 10
REFRESHES_PER_SECOND = 10


def replay_command(
    captures: Annotated[
        list[Path], typer.Argument(metavar="CAPTURES...", help="Capture directories or segments.", show_default=False)
    ],
    speed: Annotated[
        str, typer.Option("--speed", help="How many times as fast as recorded, or `max`: without pauses.")
    ] = "1",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="IDENTITY", help="Only messages of this identity; may be repeated."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of requests.")] = None,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Requests that may be unanswered at the same time.")
    ] = 1000,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0.001, help="Seconds to wait for an answer. Default: the message's own lifetime."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Send the requests of a capture again, at the recorded speed or another, and show how they were answered."""
    with one_line_errors("replay", debug=debug):
        factor = speed_of(speed)
        selection = _select(captures, only or [], limit)
        if dry_run:
            _show_plan(selection, factor, as_json=as_json)
            return
        if not selection.requests:
            raise UsageError("there is no request in these captures to send again; --dry-run shows why")
        configuration = client_configuration(config, rendezvous, wire_format)
        results = ReplayResults()
        try:
            start = None if as_json else f"replaying {_plan_text(selection.requests, factor)}; Ctrl-C stops it"
            asyncio.run(_replay(configuration, selection.requests, results, factor, in_flight, timeout, start))
        finally:
            if results.sent:
                _show_results(results, len(selection.requests), as_json=as_json)
        if results.failed:
            raise typer.Exit(FAILED)


replay_command.__doc__ = f"{replay_command.__doc__}\n{EPILOG}"


def speed_of(text: str) -> float | None:
    """Parse a speed; None means without pauses."""
    if text == WITHOUT_PAUSES:
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(f"--speed: expected a number above zero, or {WITHOUT_PAUSES}, found {text!r}")
    return speed


def _select(captures: Sequence[Path], only: Sequence[str], limit: int | None) -> Selection:
    segments = [segment for path in captures for segment in _segments(path)]
    from hopline.capture.replay import requests_in

    identities = {identity.encode() for identity in only}

    def is_chosen(message: Message) -> bool:
        return not identities or message.identity in identities

    console = make_console()
    columns = TextColumn("reading {task.fields[count]:,} records")
    with Progress(columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None, count=0)
        read = 0

        def count_records(count: int) -> None:
            nonlocal read
            read += count
            progress.update(task, count=read)

        selection = requests_in(segments, is_chosen, count_records)
    selection.requests = selection.requests[:limit]
    return selection


def _segments(path: Path) -> list[Path]:
    require_capture(path)
    from hopline.capture.segment_files import segments_at

    segments = segments_at(path)
    if not segments:
        hint = "`hopline capture recover` turns what a crash left open into segments"
        raise UsageError(f"there are no segments in {path}; {hint}")
    return segments


async def _replay(
    configuration: Configuration,
    requests: Sequence[Request],
    results: ReplayResults,
    speed: float | None,
    in_flight: int,
    timeout: float | None,
    announcement: str | None,
) -> None:
    async with joined_node(configuration) as node:
        await discover_nodes(node)
        if announcement is not None:
            write_wrapped(announcement)
        async with _shown_progress(results, len(requests)):
            await drive(node.hub, requests, results, speed=speed, in_flight=in_flight, timeout=timeout)


@asynccontextmanager
async def _shown_progress(results: ReplayResults, total: int) -> AsyncIterator[None]:
    """Show a progress bar on a terminal."""
    console = make_console()
    columns = (
        TextColumn("replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, refresh_per_second=REFRESHES_PER_SECOND
    ) as progress:
        task = progress.add_task("replaying", total=total, counts="")

        async def update() -> None:
            while True:
                done = results.answered + results.accepted
                counts = f"{done:,} done, {results.failed:,} failed"
                progress.update(task, completed=results.sent, counts=counts)
                await asyncio.sleep(1 / REFRESHES_PER_SECOND)

        updating = asyncio.create_task(update())
        try:
            yield
        finally:
            updating.cancel()
            progress.update(task, completed=results.sent, counts="")


def _recorded_seconds(requests: Sequence[Request]) -> float:
    return (requests[-1].ts - requests[0].ts) / 1e6 if requests else 0.0


def _plan_text(requests: Sequence[Request], speed: float | None) -> str:
    seconds = _recorded_seconds(requests)
    pace = "without pauses" if speed is None else f"in {seconds / speed:.1f} s"
    return f"{plural(len(requests), 'request')} of {seconds:.1f} s, {pace}"


def _show_plan(selection: Selection, speed: float | None, *, as_json: bool) -> None:
    requests = selection.requests
    kinds = Counter(str(request.message.identifier) for request in requests)
    seconds = _recorded_seconds(requests)
    if as_json:
        document = {
            "requests": len(requests),
            "kinds": dict(kinds.most_common()),
            "recorded_seconds": seconds,
            "replay_seconds": 0.0 if speed is None else seconds / speed,
            "records": selection.records,
            "unreadable": selection.unreadable,
            "caused": selection.caused,
        }
        write_json(document)
        return
    table = RecordTable("message", "requests", right=("requests",))
    for kind, count in kinds.most_common():
        table.add_row(kind, f"{count:,}")
    if requests:
        make_console().print(table)
    write_wrapped(f"{_plan_text(requests, speed)}: nothing was sent")
    if selection.caused:
        write_wrapped(f"left out: {plural(selection.caused, 'request')} that handlers sent, and will send again")
    if selection.unreadable:
        write_wrapped(f"left out: {selection.unreadable:,} of {selection.records:,} records, which are not messages")


def _show_results(results: ReplayResults, planned: int, *, as_json: bool) -> None:
    document = results.document(planned)
    if as_json:
        write_json(document)
        return
    rate = f"{document['rate']:,.0f} per second"
    write_wrapped(f"sent {results.sent:,} of {plural(planned, 'request')} in {results.seconds:.1f} s ({rate})")
    if results.answered:
        latencies = ", ".join(f"{name} {value:.1f} ms" for name, value in document["latency_ms"].items())
        write_wrapped(f"  {results.answered:,} answered: {latencies}")
    if results.accepted:
        write_wrapped(f"  {results.accepted:,} sent that expect no answer")
    for reason, count in results.errors.most_common(MOST_REASONS):
        write_wrapped(f"  {count:,} failed: {reason}")
    if results.open:
        write_wrapped(f"  {results.open:,} not answered when it was stopped")
    if results.late > 1.0:
        remedy = "lower --speed, or raise --in-flight"
        write_wrapped(f"  fell behind the recording by up to {results.late:.1f} s: {remedy}")
