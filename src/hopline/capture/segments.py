"""Segments: the Parquet files of a capture, which appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from hopline.capture.naming import UNFINISHED
from hopline.capture.row_groups import RowGroups


def write_segment(path: Path, groups: Iterable[pa.Table]) -> None:
    """Write a segment, on the disk before it appears."""
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    rows = RowGroups(unfinished)
    try:
        for group in groups:
            rows.add(group)
        rows.finish()
        unfinished.rename(path)
        sync_folder(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    finally:
        rows.close()


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
