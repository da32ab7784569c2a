"""The commands for the files of a capture: ``hopline capture recover``, ``list`` and ``show``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from hopline.cli.capture_paths import require_capture
from hopline.cli.errors import FAILED, UsageError, one_line_errors
from hopline.cli.identifiers import shorten_identity
from hopline.cli.options import DebugOption, JsonOption
from hopline.cli.record_table import RecordTable
from hopline.cli.terminal import make_console, write_json, write_wrapped
from hopline.display.frames import plural
from hopline.message import printable
from hopline.wire import RemoteError, decode

if TYPE_CHECKING:
    from hopline.capture.recovery import Recovery
    from hopline.capture.summary import SegmentSummary

_BATCH_ROWS = 1_000

PathArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A capture directory, or one file of it.", show_default=False)
]


# -- recover -----------------------------------------------------------------------------------------------------------


def recover_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The capture directory.", show_default=False)],
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Turn the segments that crashed nodes left open into readable ones.

    A node that crashes leaves its open segment as hidden files (`.….open`, `.….rows`), which no reader opens. Every
    record that had reached the disk is recovered; those that were only in memory (by default, of the last half second)
    are lost. Damage costs the group or block of records in which it is. A file that cannot be read to its end is kept,
    with `.damaged` appended to its name. Running nodes are not disturbed, so the command can be run at any time, and
    repeated.

    **Exit codes**: 0 success, 1 files that are damaged or unreadable, 2 wrong usage.
    """
    with one_line_errors("capture recover", debug=debug):
        if not require_capture(directory).is_dir():
            raise UsageError(f"{directory} is not a directory")
        from hopline.capture.recovery import Fate, recover

        recoveries = list(recover(directory))
        if as_json:
            write_json([_recovery_document(recovery) for recovery in recoveries])
        else:
            for recovery in recoveries:
                write_wrapped(_recovery_text(recovery))
            if not recoveries:
                write_wrapped(f"nothing to recover in {directory}")
        if any(recovery.fate in (Fate.UNREADABLE, Fate.DAMAGED) for recovery in recoveries):
            raise typer.Exit(FAILED)


def _recovery_document(recovery: Recovery) -> dict[str, Any]:
    document = msgspec.structs.asdict(recovery)
    document["journal"] = str(recovery.journal)
    document["segment"] = None if recovery.segment is None else str(recovery.segment)
    document["damaged"] = [str(path) for path in recovery.damaged]
    return document


def _recovery_text(recovery: Recovery) -> str:
    records = plural(recovery.records, "record")
    text = {
        "recovered": f"recovered {records}: {recovery.segment}",
        "empty": f"{recovery.journal}: empty, removed",
        "saved before": f"{recovery.journal}: removed, its {records} are in {recovery.segment} already",
        "damaged": f"{recovery.journal}: damaged, no record can be read",
        "in use": f"{recovery.journal}: skipped, its node is running",
        "unreadable": f"{recovery.journal}: skipped, not a segment of a capture",
    }[recovery.fate]
    if recovery.missing:
        text += f"; {plural(recovery.missing, 'record')} missing"
    if recovery.damaged:
        kept = ", ".join(map(str, recovery.damaged))
        text += f"; {plural(recovery.unread_bytes, 'byte')} could not be read, kept in {kept}"
    return text


# -- list --------------------------------------------------------------------------------------------------------------


def list_command(path: PathArgument, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the segments of a capture: records, time span, size."""
    with one_line_errors("capture list", debug=debug):
        from hopline.capture.summary import summaries

        segments = list(summaries(require_capture(path)))
        if as_json:
            write_json([{**msgspec.structs.asdict(segment), "path": str(segment.path)} for segment in segments])
        else:
            make_console().print(_draw_segments(segments) if segments else f"there are no segments in {path}")
        if any(segment.problem for segment in segments):
            raise typer.Exit(FAILED)


def _draw_segments(segments: list[SegmentSummary]) -> RecordTable:
    table = RecordTable("segment", "node", "records", "first", "last", "bytes", "", right=("records", "bytes"))
    for segment in segments:
        is_counted = not (segment.is_open or segment.problem)
        records = f"{segment.records:,}" if is_counted else ""
        state = f"unreadable: {segment.problem}" if segment.problem else segment.state
        table.add_row(
            printable(segment.path.name),
            printable(segment.node),
            records,
            _time_text(segment.first),
            _time_text(segment.last),
            f"{segment.size:,}",
            printable(state),
        )
    all_records = sum(segment.records for segment in segments)
    all_bytes = sum(segment.size for segment in segments)
    table.add_row(plural(len(segments), "file"), "", f"{all_records:,}", "", "", f"{all_bytes:,}")
    return table


def _time_text(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


# -- show --------------------------------------------------------------------------------------------------------------


def show_command(
    path: PathArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of records.")] = 50,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="Only records of this event; may be repeated.")
    ] = None,
    seq: Annotated[
        list[int] | None, typer.Option("--seq", help="Only the record with this number (seq); may be repeated.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the first records of a capture.

    With `--json` every record is one line, with its frames in hex, which `hopline decode` takes as input.

    **Examples**:

        hopline capture show captures --event received --limit 10

        hopline capture show captures --seq 4711 --json | hopline decode
    """
    with one_line_errors("capture show", debug=debug):
        records = islice(_records(require_capture(path), event or [], seq or []), limit)
        if as_json:
            for record in records:
                frames = [frame.hex() for frame in record["frames"]]
                write_json({**record, "frames": frames})
            return
        columns = ("time", "seq", "node", "event", "message", "hops", "peer or receiver", "cause", "µs", "reason")
        table = RecordTable(*columns, right=("seq", "hops", "cause", "µs"))
        for record in records:
            table.add_row(*_cells(record))
        make_console().print(table if table.row_count else f"there are no such records in {path}")


def _records(path: Path, events: list[str], numbers: list[int]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from hopline.capture.segment_files import column_problem, first_line, segments_at

    condition = pc.scalar(value=True)
    if events:
        condition &= pc.field("event").isin(events)
    if numbers:
        condition &= pc.field("seq").isin(numbers)
    for segment in segments_at(path):
        try:
            dataset = ds.dataset(segment, format="parquet")
            problem = column_problem(dataset.schema)
            if problem is not None:
                raise UsageError(f"{segment} is not a segment of a capture: {problem}")
            for batch in dataset.to_batches(filter=condition, batch_size=_BATCH_ROWS):
                yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{segment} cannot be read: {first_line(error)}") from None


def _cells(record: dict[str, Any]) -> list[str]:
    def text_of(column: str) -> str:
        value = record.get(column)
        return "" if value is None else printable(str(value).lstrip("\0\1"))  # without the marks of hubs and actors

    kind, hops = _kind_and_hops(record["frames"])
    time = record.get("ts")
    dropped = record.get("dropped")
    number = text_of("seq")
    if dropped:
        number += f" ({dropped} dropped before it)"
    handler = ".".join(filter(None, (text_of("receiver_name"), text_of("handler"))))
    receiver = f"{handler} {shorten_identity(text_of('receiver'))}".strip()
    return [
        "" if time is None else f"{time:%H:%M:%S.%f}",
        number,
        text_of("node"),
        text_of("event"),
        kind,
        hops,
        text_of("peer") or receiver,
        text_of("cause"),
        text_of("duration_us"),
        text_of("reason"),
    ]


def _kind_and_hops(frames: list[bytes]) -> tuple[str, str]:
    try:
        message = decode([b"", *frames])
    except RemoteError as error:
        return f"unreadable ({error.reason})", ""
    return str(message.identifier), str(message.hops)
