"""A segment while it is open: records that wait in memory, groups of rows that do not, and a journal for a crash.

Many records become a group of rows at once, and are never written as they came: that would be a hundred times as much.
Only where few come, so that they would wait for longer than may get lost, they go to the journal until they are many.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hopline.capture.blocks import Block, Opening, block_of, mark_of
from hopline.capture.columns import rows_of, runs_of
from hopline.capture.journal import Journal
from hopline.capture.naming import SegmentName
from hopline.capture.packing import Batch
from hopline.capture.room import Room
from hopline.capture.row_groups import RowGroups
from hopline.capture.segments import appear

_MOST_ROWS = 128 * 1024  # brought together at once
_FLUSHED_SHARE = 4  # a group may be so many times smaller when it is that or the journal


class OpenSegment:
    """Takes the records of one segment. `group_bytes` is how much of them waits in memory, at the most.

    The room is its own until it is closed.
    """

    def __init__(self, directory: Path, name: SegmentName, opening: Opening, group_bytes: int, room: Room) -> None:
        self.path = name.segment(directory)
        self.records = 0
        self.size = 0  # bytes of all records, before compression
        self.held = 0  # of memory
        self._opening = opening
        self._group_bytes = group_bytes
        self._room = room
        self._waiting: list[Block] = []
        self._next_seq = 0
        self._journaled = 0  # how many of those that wait are in the journal as well
        self._marked = 0  # how far the journal says that there are groups
        self._journal = Journal(name.journal(directory), opening)
        self._rows: RowGroups | None = None
        self._rows_path = name.rows(directory)

    @property
    def journal_path(self) -> Path:
        """Where a crash leaves what can be recovered."""
        return self._journal.path

    @property
    def is_lost(self) -> bool:
        """Tell whether somebody deleted its files: what is written to them goes nowhere."""
        return self._journal.is_lost

    def take(self, batch: Batch, lost: int) -> None:
        """Take a batch, wholly or not at all; so many records were lost before it."""
        block = block_of(batch, lost, self._room.keep)
        self._waiting.append(block)
        self.held += batch.size
        try:
            if self.held >= self._group_bytes:
                self._write_group()
        except BaseException:
            self._waiting.pop()
            self.held -= batch.size
            raise
        self._next_seq = batch.first_seq + batch.span
        self.records += batch.records
        self.size += block.size

    def _write_group(self) -> None:
        if self._rows is None:
            self._rows = RowGroups(self._rows_path)
        runs = [rows_of(self._opening, run) for run in runs_of(self._waiting, _MOST_ROWS)]
        self._rows.add(pa.concat_tables(runs).unify_dictionaries())
        self._waiting = []
        self._journaled = self.held = 0
        self._room.clear()

    def flush(self) -> None:
        """See to it that all records outlive a crash."""
        if self.held * _FLUSHED_SHARE >= self._group_bytes:
            self._write_group()
        if self._rows is not None and self._rows.end != self._marked:
            self._rows.sync()
            self._journal.write(mark_of(self._next_seq, self._rows.end, self._rows.footer()))
            self._marked = self._rows.end
        for block in self._waiting[self._journaled :]:
            self._journal.write(block)
            self._journaled += 1
        self._journal.sync()

    def close(self) -> int:
        """Let the segment appear, and give its size. If that fails, it stays as it is, and can be closed later."""
        if self._waiting:
            self._write_group()
        size = 0  # if not one batch could be taken
        if self._rows is not None:
            size = self._rows.finish()
            appear(self._rows.path, self.path)
            self._rows.close()
            self._rows = None
        self._journal.discard()
        return size

    def abandon(self) -> None:
        """Leave it as it is, for whoever recovers it."""
        self._journal.abandon()
        if self._rows is not None:
            self._rows.close()
