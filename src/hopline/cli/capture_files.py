"""The files of captures: what is there, what is in it, and what a crash left."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table

from hopline.cli.console import FAILED, UsageError, folding, make_console, one_line_errors, say, say_json
from hopline.cli.names import kind_text, shortened
from hopline.cli.options import DebugOption, JsonOption
from hopline.message import printable
from hopline.node.tap import require_pyarrow
from hopline.wire import RemoteError, decode

if TYPE_CHECKING:
    from hopline.capture.listing import SegmentSummary
    from hopline.capture.recovery import Recovery

PathArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A capture directory, or one file of it.", show_default=False)
]


def existing(path: Path) -> Path:
    """Give the path of something that is there, and say so clearly if it is not."""
    require_pyarrow()
    if not path.exists():
        raise UsageError(f"there is no {path}")
    return path


def recover_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The capture directory.", show_default=False)],
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make segments of what crashed nodes left open, and say what was saved and what could not be read.

    A node that crashes leaves its open segment as hidden files (`.….open`, `.….rows`), which no reader looks at. What
    had reached the disk is saved; what the node had only in memory (its last half second, by default) is not there.
    Damage costs the group or block of records that it hit. A file that could not be read to its last byte is kept, with
    `.damaged` behind its name. Nodes that run are left alone, so that this can be done at any time, and again.
    """
    with one_line_errors("capture recover", debug=debug):
        if not existing(directory).is_dir():
            raise UsageError(f"{directory} is not a directory")
        from hopline.capture.recovery import Fate, recover

        found = list(recover(directory))
        if as_json:
            say_json([_recovery_document(one) for one in found])
        else:
            for one in found:
                say(_told(one))
            if not found:
                say(f"nothing to recover in {directory}")
        if any(one.fate in (Fate.UNREADABLE, Fate.DAMAGED) for one in found):
            raise typer.Exit(FAILED)


def _recovery_document(one: Recovery) -> dict[str, Any]:
    segment = None if one.segment is None else str(one.segment)
    damaged = [str(path) for path in one.damaged]
    return {**msgspec.structs.asdict(one), "journal": str(one.journal), "segment": segment, "damaged": damaged}


def _told(one: Recovery) -> str:
    text = {
        "recovered": f"recovered {one.records:,} records: {one.segment}",
        "empty": f"{one.journal}: there was nothing in it",
        "saved before": f"{one.journal}: its {one.records:,} records were in {one.segment} already",
        "damaged": f"{one.journal}: none of its records can be read",
        "in use": f"{one.journal}: left alone, its node runs",
        "unreadable": f"{one.journal}: left as it is, this is no segment that can be read",
    }[one.fate]
    if one.missing:
        text += f"; {one.missing:,} records are missing"
    if one.damaged:
        text += f"; {one.unread_bytes:,} bytes could not be read, kept in {', '.join(map(str, one.damaged))}"
    return text


def list_command(path: PathArgument, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the segments of a capture: records, time span, size."""
    with one_line_errors("capture list", debug=debug):
        from hopline.capture.listing import summaries

        found = list(summaries(existing(path)))
        if as_json:
            say_json([{**msgspec.structs.asdict(one), "path": str(one.path)} for one in found])
        else:
            make_console().print(_table(found) if found else f"there are no segments in {path}")
        if any(one.problem for one in found):
            raise typer.Exit(FAILED)


def _table(found: list[SegmentSummary]) -> Table:
    table = folding("segment", "node", "records", "first", "last", "bytes", "")
    for at in (2, 5):
        table.columns[at].justify = "right"
    for one in found:
        first, last = (f"{when:%Y-%m-%d %H:%M:%S}" if when is not None else "" for when in (one.first, one.last))
        state = f"unreadable: {one.problem}" if one.problem else one.state
        count = "" if one.is_open or one.problem else f"{one.records:,}"
        table.add_row(
            printable(one.path.name), printable(one.node), count, first, last, f"{one.size:,}", printable(state)
        )
    table.add_section()
    count = f"{len(found)} file{'' if len(found) == 1 else 's'}"
    table.add_row(count, "", f"{sum(one.records for one in found):,}", "", "", _sum_of_sizes(found), "")
    return table


def _sum_of_sizes(found: list[SegmentSummary]) -> str:
    return f"{sum(one.size for one in found):,}"


def show_command(
    path: PathArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most so many records.")] = 50,
    event: Annotated[list[str] | None, typer.Option("--event", help="Only these events.")] = None,
    seq: Annotated[
        list[int] | None, typer.Option("--seq", help="Only the records with these numbers, as the tables name them.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the first records of a capture, one line each.

    With `--json` every record is a line with its frames as hex, which `hopline decode` takes apart.
    """
    with one_line_errors("capture show", debug=debug):
        records = islice(_records(existing(path), event or [], seq or []), limit)
        if as_json:
            for record in records:
                frames = [frame.hex() for frame in record["frames"]]
                say_json({**record, "frames": frames})
            return
        table = folding("time", "seq", "node", "event", "message", "hops", "peer or receiver", "cause", "µs", "reason")
        for record in records:
            table.add_row(*_row(record))
        make_console().print(table if table.row_count else f"there are no such records in {path}")


def _records(path: Path, events: list[str], numbers: list[int]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from hopline.capture.listing import segments_at
    from hopline.capture.reading import foreign_column

    wanted = pc.scalar(value=True)
    if events:
        wanted &= pc.field("event").isin(events)
    if numbers:
        wanted &= pc.field("seq").isin(numbers)
    for segment in segments_at(path):
        try:
            dataset = ds.dataset(segment, format="parquet")
            if foreign := foreign_column(dataset.schema):
                raise UsageError(f"{segment} is no segment: {foreign}")
            for batch in dataset.to_batches(filter=wanted, batch_size=1_000):
                yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{segment} cannot be read: {str(error).partition(chr(10))[0]}") from None


def _row(record: dict[str, Any]) -> list[str]:
    def of(name: str) -> str:
        value = record.get(name)
        return "" if value is None else printable(str(value).lstrip("\0\1"))

    try:
        message = decode([b"", *record["frames"]])
        what, hops = kind_text(message.identifier), str(message.hops)
    except RemoteError as error:
        what, hops = f"unreadable ({error.reason})", ""
    when = f"{record['ts']:%H:%M:%S.%f}" if record.get("ts") is not None else ""
    lost = record.get("dropped") or 0
    number = of("seq") + (f" (after {lost} lost)" if lost else "")
    handler = ".".join(of(name) for name in ("receiver_name", "handler") if of(name))
    other = of("peer") or f"{handler} {shortened(of('receiver'))}".strip()
    return [when, number, of("node"), of("event"), what, hops, other, of("cause"), of("duration_us"), of("reason")]
