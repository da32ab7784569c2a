"""Standard output as it may be: closed, full, read by somebody who has seen enough, or without some letters."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def prepare_output() -> None:
    """Let whatever is written be taken: by nobody where an output is closed, and with letters escaped that it lacks."""
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Write what is buffered, before something is said elsewhere; an output that refuses it gets nothing more."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up_output()


def give_up_output() -> None:
    """Let nothing more be written: what is still buffered must not fail once more when the process ends."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _nowhere() -> TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - a device, for as long as the process lives
