"""A segment while it is open: records that wait in memory, groups of rows that do not, and a journal for a crash.

Many records become a group of rows at once, and are never written as they came, which would be many times as much.
Only where few come, so that they would wait for longer than may get lost, they go to the journal until they are many.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from hopline.capture.blocks import Block, Opening, block_of
from hopline.capture.columns import rows_of, runs_of
from hopline.capture.journal import Journal
from hopline.capture.naming import SegmentName
from hopline.capture.packing import Batch
from hopline.capture.room import Room
from hopline.capture.row_groups import RowGroups
from hopline.capture.segments import sync_folder

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
        self._journaled = 0  # how many of those that wait are in the journal as well
        self._grouped_seq = 0  # the number after the last one that is in a group
        self._marked = 0  # how far the journal says that there are groups
        self._synced = 0  # how far the groups are on the disk
        self._journal = Journal(name.journal(directory), opening)
        self._rows: RowGroups | None = None
        self._closed_size = 0
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
        self.records += batch.records
        self.size += block.size

    def _write_group(self) -> None:
        if self._rows is None:
            self._rows = RowGroups(self._rows_path)
        runs = [rows_of(self._opening, run) for run in runs_of(self._waiting, _MOST_ROWS)]
        self._rows.add(pa.concat_tables(runs).unify_dictionaries())
        self._grouped_seq = self._waiting[-1].last_seq + 1
        self._waiting = []
        self._journaled = self.held = 0
        self._room.clear()
        with suppress(OSError):  # the records are written; where they are can still be said when they are flushed
            self._mark_groups(self._rows)

    def _mark_groups(self, rows: RowGroups) -> None:
        """Write down where the groups are, behind them and in the journal."""
        mark = rows.mark(self._grouped_seq)
        rows.seal(mark)
        self._journal.write(mark)
        self._marked = rows.end

    def flush(self) -> bool:
        """See to it that all records outlive a crash, and tell whether there was something to be written for that."""
        if self.held * _FLUSHED_SHARE >= self._group_bytes:
            self._write_group()
        return self.save()

    def save(self) -> bool:
        """Do as `flush` does, with the journal alone."""
        is_behind = self._rows is not None and self._rows.end != self._synced
        if self._rows is not None and is_behind:
            if self._rows.end != self._marked:
                self._mark_groups(self._rows)
            self._rows.sync()
            self._synced = self._rows.end
        unsaved = self._waiting[self._journaled :]
        for block in unsaved:
            self._journal.write(block)
            self._journaled += 1
        if not is_behind and not unsaved:
            return False
        self._journal.sync()
        return True

    @property
    def unsaved(self) -> int:
        """How many records nobody can recover."""
        return sum(block.records for block in self._waiting[self._journaled :])

    def close(self) -> int:
        """Let the segment appear, and give its size. If that fails, it stays as it is, and can be closed later."""
        if self._waiting:
            self._write_group()
        if self._rows is not None and self.records:
            self._closed_size = self._rows.finish()
            self._rows.path.rename(self.path)
        elif self._rows is not None:  # and no batch found room
            self._rows.path.unlink(missing_ok=True)
        self._close_rows()  # first: who tries again must not find the segment that is there now
        sync_folder(self.path.parent)  # or a crash could bring the journal's end without the segment's beginning
        self._journal.discard()
        return self._closed_size

    def abandon(self) -> None:
        """Leave it as it is, for whoever recovers it."""
        self._journal.abandon()
        self._close_rows()

    def _close_rows(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None
