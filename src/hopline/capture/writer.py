"""The thread that writes: batches into the open segment, the segment into Parquet, old segments away.

Nothing that goes wrong here ever reaches the node: what cannot be written is dropped and counted, one line in the log
says so, and writing begins again when the disk takes it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

from hopline.capture.blocks import Opening
from hopline.capture.journal import Journal
from hopline.capture.naming import name_of
from hopline.capture.numbering import next_number
from hopline.capture.packing import DAY, Batch, by_day
from hopline.capture.records import shown
from hopline.capture.retention import Retention
from hopline.capture.settings import CaptureSettings

log = logging.getLogger("hopline.capture")

_TICK = 1.0  # seconds between looks at the clock, while nothing comes
_END_TIME = 10.0  # seconds that the last segment may take to be closed


class Writer:
    """Writes the records of one node. `take` and `close_segment` never wait."""

    def __init__(
        self,
        settings: CaptureSettings,
        opening: Opening,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self.records = self.dropped = self.segments = self.segment_bytes = 0
        self.problem = ""  # why nothing is written now
        self._settings = settings
        self._directory = Path(settings.directory)
        self._opening = opening
        self._clock = clock
        self._queue: SimpleQueue[Batch | Callable[[], None]] = SimpleQueue()
        self._journal: Journal | None = None
        self._opened_at = self._flushed_at = 0.0
        self._midnight = 0.0  # when the day of the open segment ends
        self._unclosed: list[Journal] = []  # that could not be turned into segments yet
        self._retry_at = 0.0
        self._lost = 0  # records since the last one that was written
        self._retention = Retention(self._directory, keep_time=settings.keep_time, keep_bytes=settings.keep_bytes)
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="hopline-capture", daemon=True)
        self._thread.start()

    # -- for the event loop --------------------------------------------------------------------------------------------

    def take(self, batch: Batch) -> None:
        """Take a batch of records."""
        self._queue.put(batch)

    def close_segment(self) -> None:
        """Close the open segment, after what was taken before."""
        self._queue.put(self._rotate)

    def end(self) -> bool:
        """Write everything, close the segment and end the thread; waits for that, and tells whether it came to be."""
        self._queue.put(self._end)
        self._thread.join(_END_TIME)
        if self._thread.is_alive():
            log.error("the capture in %s did not end within %g s; its tail may be lost", self._directory, _END_TIME)
        return not self._thread.is_alive()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_ending:
            try:
                work = self._queue.get(timeout=_TICK)
            except Empty:
                work = self._look_at_clock
            try:
                if isinstance(work, Batch):
                    self._write_days(work)
                    self._look_at_clock()
                else:
                    work()
            except Exception:  # the thread must outlive whatever it is; what it could not write was counted
                log.exception("capture failed")

    def _write_days(self, batch: Batch) -> None:
        try:
            for part in by_day(batch):
                self._write(part)
        finally:
            self.done += batch.size

    def _write(self, batch: Batch) -> None:
        if not batch.records:
            self._lost += batch.span
            return
        if self.problem and self._clock() < self._retry_at:
            self._drop(batch)
            return
        try:
            journal = self._journal_for(batch)
            journal.write(batch, self._lost)
        except OSError as error:
            self._drop(batch)
            self._failed(error)
            return
        except Exception:
            self._drop(batch)
            raise
        self._lost = batch.lost_at_end
        self.records += batch.records
        self._works_again()
        if journal.size >= self._settings.segment_bytes:
            self._rotate()

    def _drop(self, batch: Batch) -> None:
        self._lost += batch.span
        self.dropped += batch.records

    def _failed(self, error: OSError) -> None:
        if not self.problem:
            log.error("capture stops, the node goes on: %s; from now on what is not recorded is only counted", error)
        self.problem = str(error)
        self._retry_at = self._clock() + self._settings.retry_time

    def _works_again(self) -> None:
        if self.problem:
            self.problem = ""
            log.warning("capture goes on; %d records were dropped since the node started", self.dropped)

    # -- segments ------------------------------------------------------------------------------------------------------

    def _journal_for(self, batch: Batch) -> Journal:
        """Give the open segment, and another one for another day."""
        when = batch.first_time
        if self._journal is not None and (when >= self._midnight or self._journal.is_lost):
            self._rotate()
        if self._journal is None:
            name = name_of(self._opening.node, when, batch.first_record)
            self._journal = Journal(self._directory, name, self._opening)
            self._midnight = (when // DAY + 1) * DAY
            self._opened_at = self._flushed_at = self._clock()
        return self._journal

    def _look_at_clock(self) -> None:
        now, journal = self._clock(), self._journal
        if journal is not None and now - self._opened_at >= self._settings.segment_time:
            self._rotate()
        elif journal is not None and now - self._flushed_at >= self._settings.flush_time:
            self._flushed_at = now
            try:
                journal.flush()
            except OSError as error:
                self._failed(error)
        if self._unclosed and now >= self._retry_at:
            self._close_all()
        self._retention.look(now)

    def _rotate(self) -> None:
        """Close the open segment; the next record begins another one."""
        if self._journal is not None:
            self._unclosed.append(self._journal)
            self._journal = None
            self._close_all()

    def _close_all(self) -> None:
        """Turn what was written into segments. What cannot be stays as it is, to be tried again, or recovered."""
        waiting, self._unclosed = self._unclosed, []
        for journal in waiting:
            try:
                if journal.is_lost:
                    self._lose(journal)
                else:
                    self.segment_bytes += journal.close().stat().st_size
                    self.segments += 1
                    self._retention.due()
            except OSError as error:
                self._failed(error)
                self._unclosed.append(journal)

    def _lose(self, journal: Journal) -> None:
        """Count what somebody deleted before it was closed."""
        log.error("capture lost %d records: %s was deleted while it was written", journal.records, journal.path)
        self.dropped += journal.records
        self.records -= journal.records
        self._lost += journal.records
        journal.abandon()

    def _end(self) -> None:
        self._is_ending = True
        self._rotate()
        for journal in self._unclosed:
            log.error("capture left %s as it is: `hopline capture recover` makes a segment of it", journal.path)
            journal.abandon()


def open_writer(settings: CaptureSettings, node: bytes, uri: str) -> tuple[Writer, int]:
    """Start the writer of a node, and give the number of its first record."""
    opening = Opening(shown(node), uri)
    return Writer(settings, opening), next_number(Path(settings.directory), opening.node)
