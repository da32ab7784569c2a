"""Runs that are cut short: after the next run, no row is lost and none is there twice.

The tables are on a storage that is served here, so that it is known exactly how far a run has come when it is ended: by
the death of its driver, or by a storage that takes nothing any more, which leaves the same behind at less expense.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Lock

import pytest
from pyspark.sql import SparkSession

from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.failures import SparkFailedError
from tests.pipeline.captures import NOON, crossing, record, write_day
from tests.pipeline.elsewhere import DEADLINE_S
from tests.pipeline.table_rows import Rows, contents
from tests.pipeline.webhdfs import Operation, webhdfs
from tests.spark_settings import QUICK_START

TABLES = ("messages", "rejects", "audit")
TODAY, TOMORROW = f"date={NOON:%Y-%m-%d}", f"date={NOON + timedelta(days=1):%Y-%m-%d}"
CHANGES = ("CREATE", "DELETE", "MKDIRS", "RENAME")

pytestmark = pytest.mark.timeout(900)


class Storage:
    """A folder that is served, and breaks down where it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = ""
        self.victim: int | None = None  # the group of processes that is killed when it comes to the fatal step
        self.has_died = False
        self.bytes_left: int | None = None
        self._fatal: tuple[str, str] | None = None
        self._lock = Lock()

    def break_down_at(self, operation: str, path: str) -> None:
        """Take no change any more from an operation on, on a path that matches a pattern."""
        self.has_died = False
        self._fatal = (operation, path)

    def mend(self) -> None:
        """Work again."""
        self._fatal = self.bytes_left = self.victim = None

    def watch(self, operation: Operation) -> None:
        """Break down if it is time."""
        with self._lock:
            if self._fatal is not None:
                name, path = self._fatal
                if operation.name == name and re.search(path, operation.path):
                    self.has_died = True
                    if self.victim is not None:
                        os.killpg(self.victim, signal.SIGKILL)
                if self.has_died and operation.name in CHANGES:
                    raise OSError("the storage is gone")
            if self.bytes_left is not None and operation.name == "CREATE":
                self.bytes_left -= operation.size
                if self.bytes_left < 0:
                    raise OSError("No space left on device")

    def options(self, captures: str, out: str = "tables") -> PipelineOptions:
        return PipelineOptions(captures=(str(self.folder / captures),), out=f"{self.uri}/{out}", tables=TABLES)

    def remains(self) -> list[Path]:
        """Return what was not committed."""
        hidden = [path for path in (self.folder / "tables").rglob("*") if path.name.startswith((".", "_"))]
        return [path for path in hidden if path.name != "_SUCCESS"]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    storage = Storage(tmp_path_factory.mktemp("storage"))
    today, tomorrow = NOON, NOON + timedelta(days=1)
    for captures, numbers in (("before", (1, 2, 3)), ("captures", (2, 3, 4, 5))):
        for name, day in (("a-1-1.parquet", today), ("a-1-2.parquet", tomorrow)):
            write_day(storage.folder / captures, [one for number in numbers for one in crossing(number, day)], name)
    garbage = [record(9, "received", "c", frames=[b"once", b"upon"])]
    write_day(storage.folder / "before", garbage, "c-1-1.parquet")  # of which the next run knows nothing
    with webhdfs(storage.folder, storage.watch) as storage.uri:
        yield storage


@pytest.fixture(scope="module")
def expected(storage: Storage, spark: SparkSession) -> Rows:
    """The tables of a run that nothing disturbs."""
    run(storage.options("captures", "undisturbed"), spark)
    return contents(storage.folder / "undisturbed")


@pytest.fixture(scope="module")
def earlier(storage: Storage, spark: SparkSession) -> Path:
    """The tables of a run over other records of the same days."""
    run(storage.options("before", "earlier"), spark)
    return storage.folder / "earlier"


@pytest.fixture(autouse=True)
def _tables_of_an_earlier_run(storage: Storage, earlier: Path) -> Iterator[None]:
    shutil.copytree(earlier, storage.folder / "tables")
    yield
    storage.mend()
    shutil.rmtree(storage.folder / "tables")


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("CREATE", "^tables/messages/.*parquet$"),  # a task writes
        ("DELETE", f"^tables/messages/{TODAY}$"),  # a table is committed, and no day has been replaced
        ("RENAME", f"^tables/messages/.spark-staging-[^/]*/{TOMORROW}$"),  # one has, and another is gone
        ("CREATE", f"^tables/rejects/{TODAY}/"),  # a day that has no rows any more is emptied
        ("CREATE", "^tables/run.json/"),  # all tables are made
    ],
)
def test_what_a_run_leaves_that_ends_at_any_step_is_made_whole_by_the_next(
    operation: str, path: str, storage: Storage, spark: SparkSession, expected: Rows
) -> None:
    storage.break_down_at(operation, path)
    with pytest.raises(SparkFailedError, match="the storage is gone") as raised:
        run(storage.options("captures"), spark)
    assert "\n" not in str(raised.value)
    assert storage.has_died
    storage.mend()
    run(storage.options("captures"), spark)
    assert contents(storage.folder / "tables") == expected
    assert storage.remains() == []


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("CREATE", "^tables/messages/.*parquet$"),
        ("RENAME", f"^tables/audit/.spark-staging-[^/]*/{TODAY}$"),
    ],
)
def test_what_a_killed_driver_leaves_is_made_whole_by_the_next_run(
    operation: str, path: str, storage: Storage, spark: SparkSession, expected: Rows, tmp_path: Path
) -> None:
    storage.break_down_at(operation, path)
    options = storage.options("captures")
    command = [sys.executable, "-m", "hopline", "pipeline", "run", *options.captures, "--out", str(options.out)]
    command += ["--tables", ",".join(TABLES), "--memory", "512m", "--master", "local[2]"]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_START}"]
    # The storage finds the group of processes when it kills it, so it is told before the driver can do anything.
    process = subprocess.Popen(
        command, env=os.environ | {"TMPDIR": str(tmp_path)}, start_new_session=True, stderr=subprocess.PIPE
    )
    storage.victim = process.pid
    _, told = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -signal.SIGKILL, told.decode()
    storage.mend()
    assert any(path.name.startswith(".spark-staging-") for path in storage.remains())
    run(options, spark)
    assert contents(storage.folder / "tables") == expected
    assert storage.remains() == []


def test_a_full_disk_is_said_in_one_line_and_no_row_is_lost(
    storage: Storage, spark: SparkSession, expected: Rows
) -> None:
    before = contents(storage.folder / "tables")
    storage.bytes_left = 10_000
    with pytest.raises(
        SparkFailedError, match="messages: disk full: free space where the tables are written"
    ) as raised:
        run(storage.options("captures"), spark)
    assert "\n" not in str(raised.value)
    assert contents(storage.folder / "tables") == before
    storage.mend()
    run(storage.options("captures"), spark)
    assert contents(storage.folder / "tables") == expected


def test_what_others_have_staged_is_left_alone(storage: Storage, spark: SparkSession) -> None:
    staged = storage.folder / "tables" / "messages" / ".spark-staging-of-another-run"
    for name in (f"_temporary/0/task_1/{TODAY}/part-0.parquet", "date=2020-01-01/part-0.parquet"):
        (staged / name).parent.mkdir(parents=True)
        (staged / name).write_bytes(b"not yet")
    run(storage.options("captures"), spark)
    assert staged.exists()
    (staged / "date=2020-01-01" / "part-0.parquet").unlink()
    run(storage.options("captures"), spark)
    assert not staged.exists()
