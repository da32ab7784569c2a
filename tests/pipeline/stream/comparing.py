"""Comparing the tables of a stream with those of a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hopline.query.comparison import compare_tables

OF_SKEW = frozenset({"skew_us", "skew_bound_us"})


def differences(stream: Path, batch: Path, ignored: Collection[str] = ()) -> dict[str, list[str]]:
    """Return by table what differs, with examples."""
    compared = compare_tables(stream, batch, ignored)
    return {each.table: [str(each), *each.examples] for each in compared if not each.is_equal}
