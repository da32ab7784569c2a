"""``hopline replay``: send the requests of a recording again, into a running network."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hopline.cli.capture_files import existing
from hopline.cli.client import everybody, joined_node
from hopline.cli.console import FAILED, UsageError, make_console, one_line_errors, say, say_json
from hopline.cli.names import kind_text
from hopline.cli.options import (
    ConfigOption,
    DebugOption,
    JsonOption,
    RendezvousOption,
    WireFormatOption,
    client_configuration,
)
from hopline.cli.replaying import Outcomes, drive
from hopline.config import Configuration
from hopline.message import Message

if TYPE_CHECKING:
    from hopline.capture.replay import Request, Selection

EPILOG = """
**Examples**

    hopline replay captures --dry-run
    hopline replay captures --speed 2
    hopline replay captures/date=2026-11-16 --speed max --only ORDER.PRICE --limit 10000

What began the flows is sent again: what hubs submitted, or, where only the wire was recorded, what nodes sent first.
What handlers sent is left out, because they send it again. Each request becomes a flow of its own, goes to whoever
handles it now, and waits for the answer that its first sender waited for. The protocol's own messages are left out.

**Exit code**: 0 when every request was answered (or sent, where no answer was asked for), 1 when some were not, 2 when
the command makes no sense, 130 after Ctrl-C, which stops sending, forgets what was not answered yet, and tells how far
it came.
"""

AT_ONCE = "max"
MOST_REASONS = 10
REFRESH = 10  # times a second


def replay_command(
    captures: Annotated[
        list[Path], typer.Argument(metavar="CAPTURES...", help="Capture directories or segments.", show_default=False)
    ],
    speed: Annotated[
        str, typer.Option("--speed", help="How many times as fast as it was recorded, or `max`: as fast as it goes.")
    ] = "1",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="IDENTITY", help="Only messages of this identity.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many requests.")] = None,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Requests that may be unanswered at once.")
    ] = 1000,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, help="Seconds to wait. Default: the message's own lifetime.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")] = False,
    config: ConfigOption = None,
    rendezvous: RendezvousOption = None,
    wire_format: WireFormatOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Send the requests of a recording again, at their own or another pace, and tell how they were answered."""
    with one_line_errors("replay", debug=debug):
        factor = speed_of(speed)
        selection = _select(captures, only or [], limit)
        if dry_run:
            _tell_plan(selection, factor, as_json=as_json)
            return
        if not selection.requests:
            raise UsageError("there is no request in these captures that could be sent again; --dry-run tells more")
        configuration = client_configuration(config, rendezvous, wire_format)
        outcomes = Outcomes()
        try:
            start = None if as_json else f"replaying {_pace(selection.requests, factor)}; Ctrl-C ends it"
            asyncio.run(_replay(configuration, selection.requests, outcomes, factor, in_flight, timeout, start))
        finally:
            if outcomes.sent:
                _tell_outcomes(outcomes, len(selection.requests), as_json=as_json)
        if outcomes.failed:
            raise typer.Exit(FAILED)


replay_command.__doc__ = f"{replay_command.__doc__}\n{EPILOG}"


def speed_of(text: str) -> float | None:
    """Read a speed; None is as fast as it goes."""
    if text == AT_ONCE:
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise UsageError(f"--speed: expected a number above zero, or {AT_ONCE}, found {text!r}")
    return factor


def _select(captures: Sequence[Path], only: Sequence[str], limit: int | None) -> Selection:
    segments = [segment for path in captures for segment in _segments(path)]
    from hopline.capture.replay import requests_in

    identities = {identity.encode() for identity in only}

    def wanted(message: Message) -> bool:
        return not identities or message.identity in identities

    console = make_console()
    columns = TextColumn("reading {task.fields[count]:,} records")
    with Progress(columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None, count=0)
        seen = 0

        def look(count: int) -> None:
            nonlocal seen
            seen += count
            progress.update(task, count=seen)

        selection = requests_in(segments, wanted, look)
    selection.requests = selection.requests[:limit]
    return selection


def _segments(path: Path) -> list[Path]:
    existing(path)
    from hopline.capture.listing import segments_at

    found = segments_at(path)
    if not found:
        raise UsageError(f"there are no segments in {path}; `hopline capture recover` saves what a crash left open")
    return found


async def _replay(
    configuration: Configuration,
    requests: Sequence[Request],
    outcomes: Outcomes,
    factor: float | None,
    in_flight: int,
    timeout: float | None,
    announcement: str | None,
) -> None:
    console = make_console()
    bar = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[news]}"))
    progress = Progress(
        *bar, TimeRemainingColumn(), console=console, disable=not console.is_terminal, refresh_per_second=REFRESH
    )
    async with joined_node(configuration) as node:
        await everybody(node)
        if announcement is not None:
            say(announcement)
        with progress:
            task = progress.add_task("replaying", total=len(requests), news="")

            async def watch() -> None:
                while True:
                    done = outcomes.answered + outcomes.taken
                    news = f"{done:,} answered or taken, {outcomes.failed:,} failed"
                    progress.update(task, completed=outcomes.sent, news=news)
                    await asyncio.sleep(1 / REFRESH)

            watching = asyncio.create_task(watch())
            try:
                await drive(node.hub, requests, outcomes, factor=factor, in_flight=in_flight, timeout=timeout)
            finally:
                watching.cancel()
                progress.update(task, completed=outcomes.sent, news="")


def _span(requests: Sequence[Request]) -> float:
    return (requests[-1].ts - requests[0].ts) / 1e6 if requests else 0.0


def _pace(requests: Sequence[Request], factor: float | None) -> str:
    span = _span(requests)
    pace = "as fast as it goes" if factor is None else f"within {span / factor:.1f} s"
    return f"{len(requests):,} requests of {span:.1f} s, {pace}"


def _tell_plan(selection: Selection, factor: float | None, *, as_json: bool) -> None:
    requests = selection.requests
    kinds = Counter(kind_text(one.message.identifier) for one in requests)
    span = _span(requests)
    takes = 0.0 if factor is None else span / factor
    if as_json:
        document = {
            "requests": len(requests),
            "kinds": dict(kinds.most_common()),
            "recorded_seconds": span,
            "replay_seconds": takes,
            "records": selection.records,
            "unreadable": selection.unreadable,
            "caused": selection.caused,
        }
        say_json(document)
        return
    table = Table("message", "requests")
    table.columns[1].justify = "right"
    for kind, count in kinds.most_common():
        table.add_row(kind, f"{count:,}")
    if requests:
        make_console().print(table)
    say(f"{_pace(requests, factor)}: nothing was sent")
    if selection.caused:
        say(f"{selection.caused:,} requests that handlers sent were left out: they will send them again")
    if selection.unreadable:
        say(f"{selection.unreadable:,} of {selection.records:,} records are no messages, and were left out")


def _tell_outcomes(outcomes: Outcomes, planned: int, *, as_json: bool) -> None:
    document = outcomes.document(planned)
    if as_json:
        say_json(document)
        return
    latency = document["latency_ms"]
    say(
        f"sent {outcomes.sent:,} of {planned:,} requests in {outcomes.seconds:.1f} s ({document['rate']:,.0f} a second)"
    )
    if outcomes.answered:
        times = ", ".join(f"{name} {value:.1f} ms" for name, value in latency.items())
        say(f"  {outcomes.answered:,} answered: {times}")
    if outcomes.taken:
        say(f"  {outcomes.taken:,} wanted no answer, and were sent")
    for reason, count in outcomes.errors.most_common(MOST_REASONS):
        say(f"  {count:,} failed: {reason}")
    if outcomes.open:
        say(f"  {outcomes.open:,} were not answered yet when it was stopped")
    if outcomes.late > 1.0:
        say(f"  it fell behind the recording by up to {outcomes.late:.1f} s: lower --speed, or raise --in-flight")
