"""How long segments are kept, and how much room they may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hopline.capture.naming import segments_in
from hopline.message import get_logger

log = get_logger("hopline.capture")

PERIOD = 60.0  # seconds between looks, when no segment is closed meanwhile


def expendable(
    segments: Iterable[tuple[Path, float, int]], now: float, *, keep_time: float, keep_bytes: int
) -> list[Path]:
    """Choose the segments to delete: of those given oldest first, with when they were closed and how large they are."""
    kept = list(segments)
    gone: list[Path] = []
    if keep_time:
        gone = [path for path, closed_at, _ in kept if closed_at < now - keep_time]
        kept = [one for one in kept if one[0] not in set(gone)]
    total = sum(size for _, _, size in kept)
    for path, _, size in kept:
        if not keep_bytes or total <= keep_bytes:
            break
        gone.append(path)
        total -= size
    return gone


class Retention:
    """Deletes the closed segments of a directory that are too old or too many. It never sees an open one."""

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
        """Look next time in any case."""
        self._due_at = 0.0

    def look(self, now: float) -> None:
        """Delete what is expendable, if it is time to look."""
        if now < self._due_at or not (self._keep_time or self._keep_bytes):
            return
        self._due_at = now + PERIOD
        segments = [seen for path in segments_in(self._directory) if (seen := _seen(path)) is not None]
        gone = expendable(segments, self._wall_clock(), keep_time=self._keep_time, keep_bytes=self._keep_bytes)
        for path in gone:
            try:
                path.unlink(missing_ok=True)  # another node may look after the same directory
            except OSError as error:
                log.warning("a segment that is too old or too much cannot be deleted: %s", error)
            else:
                self.deleted += 1


def _seen(path: Path) -> tuple[Path, float, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return path, status.st_mtime, status.st_size
