"""The thread that writes a node's records: batches into the journal, journals into segments, old segments away.

Theory of operation
-------------------
The event loop puts batches and commands into a queue, and the thread carries them out in order. Each batch is appended
to the journal of the open segment at once; `flush` forces the journal to the disk. A segment is closed when it is large
or old enough, at midnight (UTC), and on command: `recovery.make_segment` makes a Parquet file of its journal.

Nothing that goes wrong here reaches the node:

* **The disk refuses a batch.** The thread keeps it and tries again every `retry_time`. Meanwhile batches wait in the
  queue. They still count against the event buffer's capacity, because `done` stands still; when that is exhausted the
  event buffer drops records. So records are dropped in one place only, as long as the node runs.
* **The disk refuses to close a segment.** Its journal stays, and closing is tried again later. Until then the open
  segment may grow beyond its limits, instead of leaving more and more journals open.
* **Somebody deletes the journal.** Its records are counted as dropped, and the next record begins another segment.
* **Anything else** is logged with its traceback. A batch is dropped; a journal is left for `hopline capture recover`.

When the node stops, each batch gets one more try. What cannot be written then is dropped and counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

import pyarrow as pa

from hopline.capture.journal import Journal
from hopline.capture.naming import name_of
from hopline.capture.packing import EventBatch
from hopline.capture.records import shown
from hopline.capture.recovery import Recovery, make_segment
from hopline.capture.retention import Retention
from hopline.capture.rows import Source, by_day, first_seq, first_time, midnight_after, rows_of, with_dropped
from hopline.capture.settings import CaptureSettings
from hopline.capture.summary import next_seq_of
from hopline.message import get_logger

log = get_logger("hopline.capture")

_TICK = 1.0  # seconds between looks at the clock while nothing is queued
_END_TIMEOUT = 30.0  # seconds for writing the queue and closing the last segment

Command: TypeAlias = Callable[[], None]


class CaptureWriter:
    """Writes the records of one node in a thread of its own. `take`, `flush` and `close_segment` do not block.

    Args:
        settings: Where and how much.
        source: The node.
        next_seq: The number of the first record; the records before it were not dropped.
    """

    def __init__(self, settings: CaptureSettings, source: Source, next_seq: int = 1) -> None:
        self.done = 0  # bytes of the batches that were written or dropped
        self.records = self.dropped = self.segments = self.segment_bytes = 0
        self.problem = ""  # why nothing can be written now
        self._settings = settings
        self._directory = Path(settings.directory)
        self._source = source
        self._queue: SimpleQueue[EventBatch | Command] = SimpleQueue()
        self._last_seq = next_seq - 1  # the last number that was written
        self._journal: Journal | None = None  # of the open segment
        self._opened_at = 0.0
        self._midnight = 0.0  # when the day of the open segment ends
        self._unclosed: list[Journal] = []  # which the disk refused to make segments of
        self._retry_at = 0.0
        self._retention = Retention(self._directory, keep_time=settings.keep_time, keep_bytes=settings.keep_bytes)
        self._is_stopping = threading.Event()
        self._is_finished = False
        self._refused = 0  # records, by the disk, until the node stopped
        self._thread = threading.Thread(target=self._run, name="hopline-capture", daemon=True)
        self._thread.start()

    # -- called by the event loop --------------------------------------------------------------------------------------

    def take(self, batch: EventBatch) -> None:
        """Queue a batch."""
        self._queue.put(batch)

    def flush(self) -> None:
        """Force to the disk what was queued before."""
        self._queue.put(self._flush)

    def close_segment(self) -> None:
        """Close the open segment after what was queued before."""
        self._queue.put(self._rotate)

    def end(self) -> bool:
        """Write everything, close the segment and end the thread. Blocks, and returns whether the thread has ended."""
        self._is_stopping.set()
        self._queue.put(self._finish)
        self._thread.join(_END_TIMEOUT)
        has_ended = not self._thread.is_alive()
        if not has_ended:
            log.error(
                "the capture in %s did not end within %g s: run `hopline capture recover` when the node has stopped",
                self._directory,
                _END_TIMEOUT,
            )
        return has_ended

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_finished:
            try:
                self._work()
            except Exception:
                log.exception("capture failed unexpectedly, and goes on")

    def _work(self) -> None:
        try:
            work = self._queue.get(timeout=_TICK)
        except Empty:
            self._look_at_clock()
            return
        if isinstance(work, EventBatch):
            self._write(work)
            self._look_at_clock()
        else:
            work()

    def _write(self, batch: EventBatch) -> None:
        unwritten = batch.records
        try:
            for rows in by_day(rows_of(batch, self._source)):
                self._append_or_wait(rows)
                unwritten -= rows.num_rows
        except Exception:
            self.dropped += unwritten
            log.exception("capture dropped %d records that cannot be written", unwritten)
        finally:
            self.done += batch.size

    def _append_or_wait(self, rows: pa.RecordBatch) -> None:
        """Append rows to the open segment, as soon as the disk takes them. Drop them if the node stops before that."""
        while True:
            is_last_try = self._is_stopping.is_set()
            try:
                self._append(rows)
            except OSError as error:
                self._report_refusal(error)
            else:
                return
            if is_last_try:
                self.dropped += rows.num_rows
                self._refused += rows.num_rows
                return
            self._is_stopping.wait(self._settings.retry_time)
            self._look_at_clock()  # deleting old segments may help

    def _append(self, rows: pa.RecordBatch) -> None:
        journal = self._journal_for(rows)
        journal.append(with_dropped(rows, self._last_seq))
        self._last_seq = max(self._last_seq, journal.last_seq)
        self.records += rows.num_rows
        if self.problem:
            self._flush()  # the system may accept what the disk refuses
        if journal.size >= self._settings.segment_bytes and not self._unclosed:
            self._rotate()

    def _flush(self) -> None:
        if self._journal is None:
            return
        try:
            was_written = self._journal.sync()
        except OSError as error:
            self._report_refusal(error)
            return
        if was_written:
            self._report_success()

    def _report_refusal(self, error: OSError) -> None:
        if not self.problem:
            log.error(
                "capture in %s cannot write: %s; records wait in memory up to buffer_bytes and are dropped beyond that",
                self._directory,
                error,
            )
        self.problem = str(error)
        self._retry_at = time.monotonic() + self._settings.retry_time

    def _report_success(self) -> None:
        if self.problem and not self._unclosed:
            self.problem = ""
            log.warning("capture in %s works again", self._directory)

    # -- segments ------------------------------------------------------------------------------------------------------

    def _journal_for(self, rows: pa.RecordBatch) -> Journal:
        """Return the journal that rows of one day belong to, which may be a new one."""
        start = first_time(rows)
        if self._journal is not None and (start >= self._midnight or self._journal.is_deleted):
            self._rotate()
        if self._journal is None:
            name = name_of(self._source.node, start, first_seq(rows))
            self._journal = Journal(self._directory, name, self._last_seq)
            self._midnight = midnight_after(start)
            self._opened_at = time.monotonic()
        return self._journal

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        is_old = self._journal is not None and now - self._opened_at >= self._settings.segment_time
        if is_old and not self._unclosed:
            self._rotate()
        if self._unclosed and now >= self._retry_at:
            self._close_journals()
        self._retention.look(now)

    def _rotate(self) -> None:
        """Close the open segment; the next record begins another one."""
        if self._journal is not None:
            self._unclosed.append(self._journal)
            self._journal = None
            self._close_journals()

    def _close_journals(self) -> None:
        """Make segments of the journals that are to be closed. Those that the disk refuses are tried again later."""
        journals = self._unclosed
        self._unclosed = []
        for journal in journals:
            try:
                if journal.is_deleted:
                    raise FileNotFoundError(journal.path)
                recovery = make_segment(journal.path, self._directory, checks_bodies=False)
            except FileNotFoundError:
                self._count_deleted(journal)
            except OSError as error:
                self._report_refusal(error)
                self._unclosed.append(journal)
                continue
            except Exception:  # it would be the same next time
                log.exception("%s cannot be closed; `hopline capture recover` may make a segment of it", journal.path)
            else:
                self._count_closed(recovery)
            journal.close()

    def _count_closed(self, recovery: Recovery) -> None:
        if recovery.unread_bytes:
            log.error(
                "capture lost at least %d records: %d bytes of %s were damaged on the disk",
                recovery.missing,
                recovery.unread_bytes,
                recovery.journal,
            )
            self.records -= recovery.missing
            self.dropped += recovery.missing
        if recovery.segment is not None:
            self.segments += 1
            self.segment_bytes += _size(recovery.segment)
            self._retention.due()
            self._report_success()

    def _count_deleted(self, journal: Journal) -> None:
        log.error("capture lost %d records: %s was deleted while it was written", journal.records, journal.path)
        self.records -= journal.records
        self.dropped += journal.records
        if self._last_seq == journal.last_seq:  # then the next record can count them
            self._last_seq = journal.previous_seq

    def _finish(self) -> None:
        self._is_finished = True
        self._rotate()
        if self._refused:
            log.error("capture dropped %d records that the disk refused until the node stopped", self._refused)
        for journal in self._unclosed:
            log.error("capture left %s open: run `hopline capture recover`", journal.path)
            self._flush_left(journal)
            journal.close()

    def _flush_left(self, journal: Journal) -> None:
        try:
            journal.sync()
        except OSError as error:
            log.error("the end of %s may not survive a power failure: %s", journal.path, error)


def _size(segment: Path) -> int:
    try:
        return segment.stat().st_size
    except OSError:  # the retention of another node may have deleted it already
        return 0


def open_writer(settings: CaptureSettings, node: bytes, uri: str) -> tuple[CaptureWriter, int]:
    """Start the writer of a node, and return it with the number of the node's first record."""
    source = Source(shown(node), uri)
    next_seq = next_seq_of(Path(settings.directory), source.node)
    return CaptureWriter(settings, source, next_seq), next_seq
