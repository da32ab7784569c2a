"""Standard output and standard error that may be closed, full, cut off by a pipe's reader, or of a small encoding."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def prepare_streams() -> None:
    """Make both streams writable: replace closed ones by the null device, and escape characters they cannot encode."""
    if sys.stdout is None:
        sys.stdout = _open_null_device()
    if sys.stderr is None:
        sys.stderr = _open_null_device()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_stdout() -> None:
    """Flush standard output before something is written to standard error; discard the rest if that fails."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()


def discard_stdout() -> None:
    """Discard whatever is still buffered, so that the interpreter's own flush at exit cannot fail again."""
    with open(os.devnull, "wb") as null_device:  # noqa: PTH123 - a device
        os.dup2(null_device.fileno(), sys.stdout.fileno())


def _open_null_device() -> TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - a device, open until the process ends
