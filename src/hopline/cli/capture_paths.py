"""Paths of captures that a user names on the command line."""

from __future__ import annotations

from pathlib import Path

from hopline.cli.errors import UsageError
from hopline.observers.recorder import require_pyarrow


def require_capture(path: Path) -> Path:
    """Return the path of a capture.

    Raises:
        ArgumentError: If pyarrow, which reads captures, is not installed.
        UsageError: If there is nothing at the path.
    """
    require_pyarrow()
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    return path
