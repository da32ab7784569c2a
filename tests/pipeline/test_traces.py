"""Traces: what is made of them is the same however they lie in files, and whoever brought them together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import MESSAGES, SKEW
from hopline.pipeline.tables.callbacks import asking
from hopline.pipeline.tables.handlers import running
from hopline.pipeline.tables.hops import matching
from hopline.pipeline.tables.talks import talking
from hopline.pipeline.traces import Chest, Kernel, TracesInFiles, TracesOfMessages, kernels, traces_of
from hopline.pipeline.traces.kernels import divided
from hopline.pipeline.traces.parcels import rows_in
from tests.pipeline.coincidences import coincidences
from tests.pipeline.random_traffic import captures
from tests.pipeline.rows import Row, message, rows_of, table

NO_SKEW = arrow_schema(SKEW).empty_table()
NOBODY_WATCHED = pa.table({"node": pa.array([], pa.string()), "last_ts": pa.array([], pa.int64())})
ASKING, MATCHING = asking(NOBODY_WATCHED), matching(NO_SKEW, NOBODY_WATCHED)
TALKING = talking(60, NO_SKEW, NOBODY_WATCHED)
KERNELS = {"asking": ASKING, "matching": MATCHING, "running": running(60), "talking": TALKING}


def chest_of(rows: list[Row], folder: Path, drawers: int = 3) -> Chest:
    mixed = list(rows)
    Random(drawers).shuffle(mixed)
    chest = Chest(folder, drawers)
    for number in range(5):
        part = pa.Table.from_pylist(mixed[number::5], to_arrow_schema(MESSAGES, timezone="UTC"))
        chest.write(f"part-{number}", [traces_of(part.slice(0, 50)), traces_of(part.slice(50))])
    return chest


def made(kernel: Kernel, parts: Iterable[pa.Table]) -> list[str]:
    batches = [batch for rows in parts for batch in kernel.run(rows)]
    return in_order(pa.Table.from_batches(batches, kernel.schema).to_pylist())


def in_order(rows: Iterable[Row]) -> list[str]:
    """Sort rows, those in parcels as well."""
    return sorted(repr(one) for row in rows for one in (rows_in(row["rows"]).to_pylist() if "rows" in row else [row]))


def drawn(chest: Chest, kernel: Kernel) -> list[str]:
    with chest.opened(kernel.needs()) as drawers:
        return made(kernel, (rows for number in range(chest.drawers) for rows in divided(drawers, number, kernel)))


@pytest.fixture(scope="module")
def traffic() -> list[Row]:
    return captures(seed=11, flows=80)


@pytest.mark.parametrize("name", sorted(KERNELS.keys() - {"talking"}))
def test_drawers_may_be_large_or_small(
    traffic: list[Row], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = drawn(chest_of(traffic, tmp_path / "one", 1), KERNELS[name])
    assert at_once
    assert drawn(chest_of(traffic, tmp_path / "many", 7), KERNELS[name]) == at_once
    monkeypatch.setattr(kernels, "MOST_ROWS", 40)
    assert drawn(chest_of(traffic, tmp_path / "parts", 2), KERNELS[name]) == at_once


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_spark_and_files_bring_the_same_together(
    spark: SparkSession, traffic: list[Row], name: str, tmp_path: Path
) -> None:
    # Where causes are looked for depends on what lies beside.
    rows = [row | {"cause": None} for row in (*traffic, *coincidences(4))]
    in_files = TracesInFiles(spark, chest_of(rows, tmp_path)).made_by(KERNELS[name])
    by_spark = TracesOfMessages(table(spark, rows)).made_by(KERNELS[name])
    assert in_order(rows_of(in_files)) == in_order(rows_of(by_spark))


def test_a_chest_of_no_records_has_nothing_in_any_drawer(tmp_path: Path) -> None:
    chest = Chest.for_records(tmp_path, 0)
    chest.write("part-0", [])
    assert drawn(chest, MATCHING) == drawn(chest, ASKING) == []


def test_what_has_no_flow_lies_with_its_message(tmp_path: Path) -> None:
    rows = [message(event, "a", at=at, message_id=at % 5) for at, event in enumerate(("submitted", "delivered") * 20)]
    chest = chest_of(rows, tmp_path, 4)
    with chest.opened(("message_id",)) as drawers:
        found = [
            {number for _, rows in drawers.read(one) for number in rows["message_id"].to_pylist()} for one in range(4)
        ]
        assert sum(map(drawers.rows, range(4))) == len(rows)
    assert sorted(number for numbers in found for number in numbers) == list(range(5))
