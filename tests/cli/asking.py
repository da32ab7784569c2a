"""``hopline tables TABLES --sql QUESTION``, which says when DuckDB is at work: for the test of Ctrl-C."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from hopline.cli import app
from hopline.query import tables

_BUSY_SECONDS = 0.5
_INTERRUPTIBLE = tables.interruptible


def _telling(cursor: Any, call: Callable[[], Any]) -> Any:
    threading.Thread(target=_tell_when_busy, daemon=True).start()
    return _INTERRUPTIBLE(cursor, call)


def _tell_when_busy() -> None:
    """Wait until the process has computed for a while, which only DuckDB does here."""
    begin = time.process_time()
    while time.process_time() < begin + _BUSY_SECONDS:
        time.sleep(0.01)
    sys.stdout.write("asked\n")
    sys.stdout.flush()


if __name__ == "__main__":
    tables.interruptible = _telling
    app(["tables", sys.argv[1], "--sql", sys.argv[2]])
