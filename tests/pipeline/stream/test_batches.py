"""The batches of a stream come to the tables of a run, whatever happens to them on the way."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from hopline.decoding.keys import Keyring
from hopline.explorer.app import Explorer, create_app
from hopline.explorer.hosts import Hosts
from hopline.explorer.live_tables import LiveTables
from hopline.explorer.records import RecordedFrames
from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.days import Day
from hopline.pipeline.failures import BadCapturesError
from hopline.pipeline.spark_work import with_settings
from hopline.pipeline.storage import DYNAMIC_OVERWRITE, PathTables
from hopline.pipeline.stream.batch import Batches
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.publication import Publication
from hopline.pipeline.stream.running import stream
from hopline.pipeline.stream.state import State
from hopline.pipeline.stream.state_files import States
from hopline.query.tables import open_tables
from tests.explorer.asking import Client
from tests.explorer.test_pages import text_of
from tests.pipeline.stream.arrivals import CrashError
from tests.pipeline.stream.comparing import OF_SKEW, differences

ROUNDS = 3
ROUND_S = 30.0
IDLE_S = 50.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate captures, and divide what each node recorded into as many segments as there are rounds."""
    folder = tmp_path_factory.mktemp("made")
    generate(folder, Options(messages=1_000, seed=3))
    (folder / "segments").mkdir()
    for path in (folder / "captures").rglob("*.parquet"):
        records = pq.read_table(path)
        size = -(-len(records) // ROUNDS)
        for number in range(ROUNDS):
            part = records.slice(number * size, size)
            pq.write_table(part, folder / "segments" / f"{number}-{path.name}")
    return folder


@pytest.fixture(scope="module")
def whole(made: Path, spark: SparkSession) -> Path:
    """Make the tables of a run."""
    captures, keys = (str(made / "segments"),), made / "keys/hopline.toml"
    run(PipelineOptions(captures=captures, out=made / "whole", keys=keys), spark)
    return made / "whole"


class Driver:
    """A stream whose batches are started by hand, and whose clock is set by hand."""

    def __init__(self, spark: SparkSession, made: Path, out: Path) -> None:
        self.now = 1_000.0
        self.out = out
        self._spark = spark
        self._made = made
        self._keys = made / "keys/hopline.toml"
        self.restart()

    def restart(self, **options: Any) -> None:
        """Begin anew, as a new process does."""
        captures = (str(self._made / "segments"),)
        chosen = StreamOptions(captures=captures, out=self.out, keys=self._keys, idle_s=IDLE_S, **options)
        self.batches = Batches(chosen, Keyring.load(self._keys), self._spark, lambda: self.now)

    def round(self, number: int, batch: int) -> State:
        """Let a batch read the segments of a round."""
        self.now += ROUND_S
        segments = sorted(map(str, (self._made / "segments").glob(f"{number}-*.parquet")))
        return self.batches.run(segments, batch)

    def silence(self, batch: int) -> State:
        """Let a batch find that all nodes have been silent for the idle time."""
        self.now += IDLE_S
        return self.batches.run([], batch)

    def end(self, batch: int) -> State:
        """Let a batch close everything, and settle all days."""
        self.batches.is_final = True
        return self.batches.run([], batch)


@pytest.fixture
def driver(spark: SparkSession, made: Path, tmp_path: Path) -> Iterator[Driver]:
    with with_settings(spark, DYNAMIC_OVERWRITE):
        yield Driver(spark, made, tmp_path / "tables")


def count(tables: Path, table: str, condition: str = "true") -> int:
    with open_tables(tables) as opened:
        return int(opened.ask(f"select count(*) from {table} where {condition}").fetch()[0][0])  # noqa: S608


@contextmanager
def explorer_over(tables: Path) -> Iterator[Client]:
    live = LiveTables(tables)
    try:
        yield Client(create_app(Explorer(live, Hosts("127.0.0.1"), RecordedFrames(None))))
    finally:
        live.close()


def flows_on_the_page(client: Client) -> int:
    shown = re.search(r"Overview.* Flows ([\d,]+)", text_of(client, "/"))
    assert shown
    return int(shown[1].replace(",", ""))


def test_tables_grow_with_the_batches_the_explorer_shows_each_and_they_come_to_those_of_a_run(
    driver: Driver, whole: Path
) -> None:
    states = [driver.round(0, batch=0)]
    assert 0 < count(driver.out, "edges", "provisional") == count(driver.out, "edges")
    with explorer_over(driver.out) as client:
        assert '<span class="badge provisional"' in client.get("/audit").text
        shown = [flows_on_the_page(client)]
        for number in range(1, ROUNDS):
            states.append(driver.round(number, batch=number))
            shown.append(flows_on_the_page(client))
        freshness = client.get("/state").json()["freshness"]
        assert freshness.startswith("Stream: last whole batch began ")
        assert f"{states[-1].pending_units:,} flows still open" in freshness
    flows = [state.totals.flows for state in states]
    assert shown == flows
    assert 0 < flows[0] < flows[1] < flows[-1]
    assert states[0].pending > 0
    horizons = [state.horizon_us for state in states]
    assert horizons[0] is None  # it may not have heard of all nodes yet
    assert horizons[-1] is not None
    assert count(driver.out, "edges", "not provisional") > 0
    state = driver.silence(batch=ROUNDS)
    assert (state.pending, state.totals.late) == (0, 0)
    assert count(driver.out, "edges", "provisional") == 0
    assert count(driver.out, "flows", "not provisional") == 0  # the skew of the day may still change
    assert differences(driver.out, whole, OF_SKEW) == {}


def test_a_batch_that_is_repeated_after_a_crash_replaces_what_it_wrote(
    driver: Driver, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise CrashError

    driver.round(0, batch=0)
    with monkeypatch.context() as patch:  # when some tables are written aside
        patch.setattr(Publication, "write_by_mark", crash)
        with pytest.raises(CrashError):
            driver.round(1, batch=1)
    driver.restart()
    driver.round(1, batch=1)
    with monkeypatch.context() as patch:  # when all is published, and nothing says so
        patch.setattr(States, "commit", crash)
        with pytest.raises(CrashError):
            driver.round(2, batch=2)
    driver.restart()
    driver.round(2, batch=2)
    driver.restart()
    driver.round(2, batch=2)  # it was whole, but Spark did not see it end
    driver.silence(batch=3)
    assert differences(driver.out, whole, OF_SKEW) == {}


def test_days_that_were_half_settled_are_settled_when_the_stream_goes_on(
    driver: Driver, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = PathTables.replace

    def replace_until_flows(tables: PathTables, name: str, rows: DataFrame, days: Sequence[Day]) -> int:
        if days and name == "flows":
            raise CrashError
        return replace(tables, name, rows, days)

    for number in (0, 1):
        driver.round(number, batch=number)
    with monkeypatch.context() as patch:
        patch.setattr(PathTables, "replace", replace_until_flows)
        driver.batches.is_final = True
        with pytest.raises(CrashError):
            driver.round(2, batch=2)
    driver.restart()  # and nobody says again that nothing more will come
    state = driver.round(2, batch=2)
    assert (state.days, state.pending) == ((), 0)
    assert differences(driver.out, whole) == {}


def test_segments_of_a_node_in_the_wrong_order_are_put_right_as_long_as_nothing_is_closed(
    driver: Driver, whole: Path
) -> None:
    driver.restart(gap_s=10_000.0)
    for batch, number in enumerate(reversed(range(ROUNDS))):
        driver.round(number, batch)
    state = driver.silence(batch=ROUNDS)
    assert (state.pending, state.totals.late) == (0, 0)
    assert count(driver.out, "messages", "verdict = 'verified'") > 0
    assert differences(driver.out, whole, OF_SKEW) == {}


def test_what_comes_too_late_is_named_and_becomes_part_of_its_day_when_that_is_settled(
    driver: Driver, whole: Path
) -> None:
    for number in (0, 2):
        driver.round(number, batch=number)
    driver.silence(batch=3)
    state = driver.round(1, batch=4)
    late = state.totals.late
    assert late > 0
    assert count(driver.out, "late") == late
    assert count(driver.out, "late", "missed = 'window'") > 0
    assert "messages" not in differences(driver.out, whole)
    assert "flows" in differences(driver.out, whole)
    state = driver.end(batch=5)
    assert state.days == ()
    assert differences(driver.out, whole) == {}
    assert count(driver.out, "late") == 0
    assert sum(count(driver.out, name, "provisional") for name in ("flows", "hops", "skew", "audit", "handlers")) == 0


def test_a_segment_that_cannot_be_read_stops_the_stream_or_is_skipped_and_counted(
    driver: Driver, made: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(BadCapturesError, match=r"damaged\.parquet"):
        driver.batches.run([str(damaged)], 0)
    driver.restart(skip_bad_files=True)
    state = driver.batches.run([str(damaged)], 0)
    assert (state.totals.skipped, state.totals.segments, state.totals.records) == (1, 0, 0)


def test_a_segment_that_was_deleted_before_it_was_read_is_skipped_and_counted(
    spark: SparkSession, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise CrashError

    captures = tmp_path / "captures"
    captures.mkdir()
    kept, deleted = sorted((made / "segments").glob("0-*.parquet"))[:2]
    for segment in (kept, deleted):
        shutil.copy(segment, captures)
    options = StreamOptions((str(captures),), tmp_path / "tables", made / "keys/hopline.toml", available_now=True)
    with monkeypatch.context() as patch:
        patch.setattr(Batches, "run", crash)
        with pytest.raises(CrashError):
            stream(options, spark)
    (captures / deleted.name).unlink()
    state = stream(options, spark)
    assert state.totals.records == pq.read_metadata(kept).num_rows
    with with_settings(spark, DYNAMIC_OVERWRITE):
        batches = Batches(options, Keyring(), spark)
        state = batches.run([str(captures / deleted.name)], state.batch + 1)
    assert (state.totals.skipped, state.totals.segments) == (1, 1)


def test_nothing_is_written_while_nothing_happens(driver: Driver) -> None:
    assert driver.batches.run([], 0).batch == -1
    first = driver.round(0, batch=1)
    driver.now += 1
    assert driver.batches.run([], 2) == first


def test_what_is_closed_is_remembered_for_an_hour_in_few_folders(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopline.pipeline.stream.state_files._MOST_BATCHES_OF_CLOSED", 2)
    states, state = States(spark, HadoopFiles(spark, str(tmp_path))), State()
    for number in range(5):
        keys = spark.createDataFrame([(number,)], "flow_key long")
        state = State(batch=number, closed=states.write_closed(state, number, keys, now=number * 1_000.0))
        states.keep_only(state)
    assert list(state.closed) == ["4"]
    assert {row.flow_key for row in states.read_closed(state).collect()} == {1, 2, 3, 4}
