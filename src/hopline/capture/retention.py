"""Delete old segments, by age and by total size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hopline.capture.segment_files import segments_in
from hopline.message import get_logger

log = get_logger("hopline.capture")

PERIOD = 60.0  # seconds between checks, unless a segment is closed in between


def expendable(
    segments: Iterable[tuple[Path, float, int]], now: float, *, keep_time: float, keep_bytes: int
) -> list[Path]:
    """Return the segments to delete.

    Args:
        segments: Path, time of closing and size of each, the oldest first.
        now: The present time.
        keep_time: Segments that were closed longer ago are deleted; 0 keeps all.
        keep_bytes: The oldest are deleted until the others take no more than this; 0 keeps all.
    """
    expired: list[Path] = []
    remaining: list[tuple[Path, int]] = []
    for path, closed_at, size in segments:
        if keep_time and closed_at < now - keep_time:
            expired.append(path)
        else:
            remaining.append((path, size))
    if not keep_bytes:
        return expired
    total = sum(size for _, size in remaining)
    for path, size in remaining:
        if total <= keep_bytes:
            break
        expired.append(path)
        total -= size
    return expired


class Retention:
    """Deletes closed segments of a directory that exceed the limits. Journals are never touched."""

    def __init__(
        self, directory: Path, *, keep_time: float, keep_bytes: int, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.deleted = 0
        self._directory = directory
        self._keep_time = keep_time
        self._keep_bytes = keep_bytes
        self._wall_clock = wall_clock
        self._due_at = 0.0

    def due(self) -> None:
        """Check at the next opportunity."""
        self._due_at = 0.0

    def look(self, now: float) -> None:
        """Delete what exceeds the limits, if a check is due."""
        if now < self._due_at or not (self._keep_time or self._keep_bytes):
            return
        self._due_at = now + PERIOD
        statuses = [_status(path) for path in segments_in(self._directory)]
        segments = [status for status in statuses if status is not None]
        wall_time = self._wall_clock()
        for path in expendable(segments, wall_time, keep_time=self._keep_time, keep_bytes=self._keep_bytes):
            try:
                path.unlink(missing_ok=True)  # another node may do the same
            except OSError as error:
                log.warning("capture cannot delete a segment beyond keep_time or keep_bytes: %s", error)
            else:
                self.deleted += 1


def _status(path: Path) -> tuple[Path, float, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return path, status.st_mtime, status.st_size
