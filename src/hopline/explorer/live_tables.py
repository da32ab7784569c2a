"""The tables that the pages show, which a run or a stream may replace at any time.

A *snapshot* is the tables as they were listed at one moment: its files, one database over them, and the answers to
questions that were asked before. Spark gives every file that it writes a new name, so the names and sizes of all files
are the state of the tables on any storage: when they differ, a new snapshot takes the place of the old one. The old one
is closed when the last page that reads it is done. A stream that writes the tables says besides how far it has come.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hopline.explorer.contract import COLUMNS
from hopline.explorer.freshness import freshness_text, last_state
from hopline.query.errors import StorageError
from hopline.query.files import list_files, list_tables, open_storage
from hopline.query.tables import Tables, open_tables

Result = TypeVar("Result")

LISTED_EVERY_SECONDS = 1.0
ANSWERS_KEPT = 64
_MOST_ATTEMPTS = 5  # to make a page while files are being replaced


class Snapshot:
    """The tables at one moment, with the answers that were computed of them."""

    def __init__(self, location: str | Path, state: str) -> None:
        self._resources = ExitStack()
        self.tables: Tables = self._resources.enter_context(open_tables(location))
        self.state = state
        self.readers = 0
        self.is_replaced = False
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, question: Callable[..., Result], *parameters: Hashable) -> Result:
        """Return what a question answers; the last answers are kept as long as the tables stay as they are."""
        key = (question, parameters)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                kept: Result = self._answers[key]
                return kept
        answer = question(self.tables, *parameters)
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return answer

    def close(self) -> None:
        """Close the database."""
        self._resources.close()


class LiveTables:
    """The tables at a location, as they are now."""

    def __init__(self, location: str | Path) -> None:
        self.location = location
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._of_stream = last_state(location)
        self._snapshot = Snapshot(location, listed_state(location))
        self._listed = time.monotonic()

    def state(self) -> str:
        """Return what differs whenever the tables do. Lists their files, but not more than once a second."""
        self._refresh()
        with self._lock:
            return self._snapshot.state

    def freshness(self) -> str:
        """Return how fresh the tables are, as text; nothing where no stream writes them."""
        self._refresh()
        return freshness_text(self._of_stream, time.time())

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Return the tables as they are now; they stay open until the caller is done."""
        self._refresh()
        with self._lock:
            snapshot = self._snapshot
            snapshot.readers += 1
        try:
            yield snapshot
        finally:
            self._release(snapshot)

    def read(self, page: Callable[[Snapshot], Result]) -> Result:
        """Make a page of the tables; again where a run or a stream replaced files while it was made."""
        for _ in range(_MOST_ATTEMPTS - 1):
            with self.reading() as snapshot:
                try:
                    return page(snapshot)
                except StorageError:
                    self._listed = 0.0
                    if self.state() == snapshot.state:
                        raise
        with self.reading() as snapshot:
            return page(snapshot)

    @property
    def is_read(self) -> bool:
        """Return whether a page is being made of them."""
        with self._lock:
            return self._snapshot.readers > 0

    def close(self) -> None:
        """Close the tables. Pages that are still being made fail."""
        self._snapshot.close()

    def _refresh(self) -> None:
        if time.monotonic() - self._listed < LISTED_EVERY_SECONDS or not self._listing.acquire(blocking=False):
            return
        try:
            self._of_stream = last_state(self.location)  # first, so that the tables are never older than it says
            state = listed_state(self.location)
            self._listed = time.monotonic()
            if state == self._snapshot.state:
                return
            snapshot = Snapshot(self.location, state)
            with self._lock:
                replaced, self._snapshot = self._snapshot, snapshot
                replaced.is_replaced = True
                is_idle = replaced.readers == 0
            if is_idle:
                replaced.close()
        finally:
            self._listing.release()

    def _release(self, snapshot: Snapshot) -> None:
        with self._lock:
            snapshot.readers -= 1
            is_last = snapshot.is_replaced and snapshot.readers == 0
        if is_last:
            snapshot.close()


def listed_state(location: str | Path) -> str:
    """Return a hash of the names and sizes of all files of the tables at a location.

    Raises:
        StorageError: They cannot be listed.

    """
    storage = open_storage(location)
    digest = hashlib.sha256()
    for name in list_tables(location, storage, COLUMNS):
        for file in list_files(location, storage, name):
            digest.update(f"{file.path}\0{file.size}\n".encode())
    return digest.hexdigest()[:16]
