"""How late records are is counted once for each, when its file is there."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.soak.stream import Lateness, quantiles


def add(tables: Path, batch: int, ages: list[float]) -> None:
    folder = tables / "messages" / "date=2026-01-31" / f"stream-{batch:09}"
    folder.mkdir(parents=True, exist_ok=True)
    times = pa.array([int((time.time() - age) * 1_000_000) for age in ages], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"ts": times}), folder / "part-0.parquet")


def test_records_are_as_late_as_they_are_old_when_they_are_first_seen(tmp_path: Path) -> None:
    lateness = Lateness(tmp_path)
    add(tmp_path, 0, [10.0] * 90 + [60.0] * 10)
    lateness.look()
    add(tmp_path, 0, [500.0])  # a batch that is repeated
    lateness.look()
    assert lateness.quantiles()["p50"] == pytest.approx(10, abs=1)
    assert lateness.quantiles()["p95"] == pytest.approx(60, abs=1)


def test_a_stream_that_has_written_nothing_has_no_lateness(tmp_path: Path) -> None:
    lateness = Lateness(tmp_path)
    lateness.look()
    assert lateness.quantiles() == {}


def test_a_quantile_is_the_age_that_a_share_of_the_records_has_at_most() -> None:
    assert quantiles({10: 50, 20: 45, 30: 5}) == {"p50": 1.0, "p95": 2.0}
