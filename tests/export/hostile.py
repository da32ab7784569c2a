"""A capture whose names are chosen to do harm wherever they are shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.pipeline.captures import frames, record, write_day

NODE = '"}]}<node>\x1b]0;owned\x07'
IDENTITY = '<script>alert("1")</script>\x00\x1b[31m\u202eé漢😀\u2028\x7f\x85\ue000\\'
FLOW = "\r\n'; drop table flows --\U000e0001"
REASON = 'ValueError: first line\nsecond\tline "quoted" \x9b2J'
EVENT = "\x1b[2Jgone\u202e"
BROKEN = b"\xff\xed\xa0\x80not text"
AT = datetime(2026, 3, 2, 9, tzinfo=UTC)  # within the day of the generated captures


def write_hostile(folder: Path) -> None:
    """Write one flow with such names, one whose kind is not even text, and one of a record of no known event."""
    records: list[dict[str, Any]] = []
    for base, flow, identity in ((0, FLOW.encode(), IDENTITY.encode()), (100, b"broken", BROKEN)):
        content = frames(flow, identity)
        receiver = {"receiver": NODE, "receiver_name": "<b>Actor", "handler": "\x1b[2J"}
        records += [
            record(base + 1, "submitted", NODE, AT, frames=content),
            record(base + 2, "delivered", NODE, AT, frames=content, duration_us=70, **receiver),
            record(
                base + 3,
                "handled",
                NODE,
                AT,
                frames=content,
                cause=base + 2,
                duration_us=900,
                reason=REASON,
                **receiver,
            ),
        ]
    records.append(record(201, EVENT, NODE, AT, frames=frames(b"strange", b"KIND")))
    write_day(folder, records, "hostile-1-1.parquet")
