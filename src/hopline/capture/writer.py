"""The thread that writes: batches into the open segment, and old segments away.

Nothing that goes wrong here ever reaches the node: what cannot be written is dropped and counted, one line in the log
says so, and writing begins again when the disk takes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

from hopline.capture.blocks import Opening
from hopline.capture.naming import name_of
from hopline.capture.numbering import next_number
from hopline.capture.open_segment import OpenSegment
from hopline.capture.packing import DAY, Batch, by_day
from hopline.capture.records import shown
from hopline.capture.retention import Retention
from hopline.capture.room import Room
from hopline.capture.settings import MEBIBYTE, CaptureSettings
from hopline.message import get_logger

log = get_logger("hopline.capture")

_TICK = 1.0  # seconds between looks at the clock, while nothing comes
_END_TIME = 10.0  # seconds that the last segment may take to be closed
# What becomes a group of rows at once, by the recorder's measure, which counts more than the frames. Larger ones are
# hardly smaller on the disk; and no more than a share of what may wait in memory, so that there is room for the rest.
GROUP_BYTES = 16 * MEBIBYTE
_GROUP_SHARE = 4


class Writer:
    """Writes the records of one node. `take`, `flush` and `close_segment` never wait."""

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
        self._taken = 0  # bytes that were ever
        self._group_bytes = min(GROUP_BYTES, max(1, settings.buffer_bytes // _GROUP_SHARE))
        self._room = Room(self._group_bytes)
        self._segment: OpenSegment | None = None
        self._opened_at = 0.0
        self._midnight = 0.0  # when the day of the open segment ends
        self._unclosed: list[OpenSegment] = []  # that were to be closed, and could not be
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

    def flush(self) -> None:
        """See to it that what was taken before outlives a crash."""
        self._queue.put(self._flush)

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
            self.done = self._taken - self._held()

    def _held(self) -> int:
        open_now = [] if self._segment is None else [self._segment]
        return sum(segment.held for segment in (*open_now, *self._unclosed))

    def _write_days(self, batch: Batch) -> None:
        self._taken += batch.size
        for part in by_day(batch):
            self._write(part)

    def _write(self, batch: Batch) -> None:
        if not batch.records:
            self._lost += batch.span
            return
        if self._is_refused():
            self._drop(batch)
            return
        try:
            segment = self._segment_for(batch)
            segment.take(batch, self._lost)
        except OSError as error:
            self._drop(batch)
            self._failed(error)
            return
        except Exception:
            self._drop(batch)
            raise
        self._lost = batch.lost_at_end
        self.records += batch.records
        if self.problem:
            self._flush()  # only the disk can tell
        if segment.size >= self._settings.segment_bytes:
            self._rotate()

    def _drop(self, batch: Batch) -> None:
        self._lost += batch.span
        self.dropped += batch.records

    def _failed(self, error: OSError) -> None:
        if not self.problem:
            log.error("capture stops, the node goes on: %s; from now on what is not recorded is only counted", error)
        self.problem = str(error)
        self._retry_at = self._clock() + self._settings.retry_time

    def _is_refused(self) -> bool:
        """Tell whether the disk refuses, after another try to close what it refused before if it is time for that."""
        if not self.problem:
            return False
        if self._clock() < self._retry_at:
            return True
        self._close_all()
        return bool(self._unclosed)

    def _works_again(self) -> None:
        if self.problem:
            self.problem = ""
            log.warning("capture goes on; %d records were dropped since the node started", self.dropped)

    # -- segments ------------------------------------------------------------------------------------------------------

    def _segment_for(self, batch: Batch) -> OpenSegment:
        """Give the open segment, and another one for another day."""
        when = batch.first_time
        if self._segment is not None and (when >= self._midnight or self._segment.is_lost):
            self._rotate()
        if self._segment is None:
            name = name_of(self._opening.node, when, batch.first_record)
            if self._unclosed:  # and may still have something in the room
                self._room = Room(self._group_bytes)
            self._segment = OpenSegment(self._directory, name, self._opening, self._group_bytes, self._room)
            self._midnight = (when // DAY + 1) * DAY
            self._opened_at = self._clock()
        return self._segment

    def _look_at_clock(self) -> None:
        now = self._clock()
        if self._segment is not None and now - self._opened_at >= self._settings.segment_time:
            self._rotate()
        if self._unclosed and now >= self._retry_at:
            self._close_all()
        self._retention.look(now)

    def _flush(self) -> None:
        if self._segment is None or (self.problem and self._clock() < self._retry_at):
            return
        try:
            if self._segment.flush():
                self._works_again()
        except OSError as error:
            self._failed(error)

    def _rotate(self) -> None:
        """Close the open segment; the next record begins another one."""
        if self._segment is not None:
            self._unclosed.append(self._segment)
            self._segment = None
            self._close_all()

    def _close_all(self) -> None:
        """Close what is to be closed. What cannot be stays as it is, to be tried again, or recovered."""
        waiting, self._unclosed = self._unclosed, []
        for segment in waiting:
            try:
                if segment.is_lost:
                    self._lose(segment)
                else:
                    size = segment.close()
                    self.segment_bytes += size
                    self.segments += size > 0
                    self._retention.due()
            except FileNotFoundError:  # nor will it be there another time
                self._lose(segment)
            except OSError as error:
                self._failed(error)
                self._unclosed.append(segment)
            except Exception:  # it would be the same another time
                log.exception("%s cannot be closed", segment.path)
                self._leave(segment)

    def _lose(self, segment: OpenSegment) -> None:
        """Count what somebody deleted before it was closed."""
        log.error("capture lost %d records: %s was taken away while it was written", segment.records, segment.path)
        self.dropped += segment.records
        self.records -= segment.records
        self._lost += segment.records
        segment.abandon()

    def _end(self) -> None:
        self._is_ending = True
        self._rotate()
        for segment in self._unclosed:
            self._leave(segment)

    def _leave(self, segment: OpenSegment) -> None:
        """Leave a segment that cannot be closed to whoever recovers it; what is in memory only is lost."""
        try:
            segment.save()
        except Exception as error:
            lost = segment.unsaved
            log.error("capture lost %d records, which cannot be written: %s", lost, error)
            self.dropped += lost
            self.records -= lost
            self._lost += lost
        log.error("capture left %s as it is: `hopline capture recover` makes a segment of it", segment.journal_path)
        segment.abandon()


def open_writer(settings: CaptureSettings, node: bytes, uri: str) -> tuple[Writer, int]:
    """Start the writer of a node, and give the number of its first record."""
    opening = Opening(shown(node), uri)
    return Writer(settings, opening), next_number(Path(settings.directory), opening.node)
