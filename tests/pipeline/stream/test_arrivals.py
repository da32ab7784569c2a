"""A stream comes to the tables of a run, however its records were split, in whatever order they came, despite crashes.

Two laws, by whether segments come in time:

* Those of a node in order, and nobody is silent before all is there: the tables are equal when all flows are closed,
  but for the clocks' skew.
* In any order, with nodes that fall silent in between: messages and rejects are equal when all is there, what came too
  late is counted, and all tables are equal when their days are settled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.spark_work import with_settings
from hopline.pipeline.storage import DYNAMIC_OVERWRITE
from hopline.query.tables import open_tables
from tests.pipeline.stream.arrivals import IDLE_S, Life, Records, arrivals, difficult_records, split
from tests.pipeline.stream.comparing import OF_SKEW, differences

GAP_S = 20.0
OF_SPLIT = {"segment"}  # each example has other segments than the run
one_example = settings(
    max_examples=1,
    phases=[Phase.explicit, Phase.generate],  # an example takes too long to be made smaller
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
many_examples = settings(one_example, max_examples=12)
randoms = st.integers(1, 2**31).map(Random)


@dataclass(frozen=True)
class Made:
    """Records, and the tables that a run makes of them."""

    records: Records
    keys: Path
    tables: Path


def make(folder: Path, seed: int, spark: SparkSession) -> Made:
    records = difficult_records(folder, seed)
    for node, table in records.items():
        (folder / "whole").mkdir(exist_ok=True)
        pq.write_table(table, folder / "whole" / f"{node}.parquet")
    keys = folder / "keys/hopline.toml"
    run(PipelineOptions((str(folder / "whole"),), out=folder / "tables", keys=keys), spark)
    return Made(records, keys, folder / "tables")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Made:
    return make(tmp_path_factory.mktemp("made"), 3, spark)


@pytest.fixture(autouse=True, scope="module")
def _overwriting_days(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, DYNAMIC_OVERWRITE):
        yield


def late_records(tables: Path) -> int:
    with open_tables(tables) as opened:
        return int(opened.ask("select count(*) from late").fetch()[0][0])


def check_segments_in_order(spark: SparkSession, made: Made, random: Random, batches: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        segments = split(made.records, random, Path(home), most=batches)
        life = Life(spark, Path(home) / "tables", made.keys, random, GAP_S, crashes=4)
        for paths in arrivals(segments, random, batches, in_order=True):
            life.batch(paths, seconds=IDLE_S / 2 / batches)
        state = life.batch([], seconds=IDLE_S)
        note(f"killed at {life.killed}")
        assert (state.pending, state.totals.late) == (0, 0)
        assert differences(life.out, made.tables, OF_SKEW | OF_SPLIT) == {}


def check_any_order(spark: SparkSession, made: Made, random: Random, batches: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        segments = split(made.records, random, Path(home), most=batches)
        life = Life(spark, Path(home) / "tables", made.keys, random, GAP_S, crashes=4)
        state = None
        for paths in arrivals(segments, random, batches, in_order=False):
            state = life.batch(paths, seconds=random.choice([1, IDLE_S / 2, IDLE_S, 2 * IDLE_S]))
        note(f"killed at {life.killed}")
        assert state is not None
        assert late_records(life.out) == state.totals.late
        assert differences(life.out, made.tables, OF_SPLIT).keys().isdisjoint({"messages", "rejects"})
        state = life.batch([], seconds=1, is_final=True)
        note(f"killed at {life.killed}")
        assert (state.days, state.pending) == ((), 0)
        assert differences(life.out, made.tables, OF_SPLIT) == {}


@one_example
@given(random=randoms)
def test_segments_that_come_in_time_make_the_tables_of_a_run(spark: SparkSession, made: Made, random: Random) -> None:
    check_segments_in_order(spark, made, random, batches=2)


@one_example
@given(random=randoms)
def test_segments_in_any_order_make_the_tables_of_a_run_when_their_days_are_settled(
    spark: SparkSession, made: Made, random: Random
) -> None:
    check_any_order(spark, made, random, batches=2)


@pytest.mark.slow
@many_examples
@given(random=randoms, batches=st.integers(1, 6))
def test_many_segments_that_come_in_time_make_the_tables_of_a_run(
    spark: SparkSession, made: Made, random: Random, batches: int
) -> None:
    check_segments_in_order(spark, made, random, batches)


@pytest.mark.slow
@many_examples
@given(random=randoms, batches=st.integers(1, 6))
def test_many_segments_in_any_order_make_the_tables_of_a_run_when_their_days_are_settled(
    spark: SparkSession, made: Made, random: Random, batches: int
) -> None:
    check_any_order(spark, made, random, batches)
