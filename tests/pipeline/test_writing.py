from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopline.pipeline import writing
from hopline.pipeline.days import Days
from hopline.pipeline.failures import BusyError, PipelineError
from hopline.pipeline.folders import row_count
from hopline.pipeline.writing import BUILDING, building, settle

FIRST, SECOND, THIRD = date(2026, 1, 30), date(2026, 1, 31), date(2026, 2, 1)
ALL = Days()


def put(table: Path, rows: dict[date, list[int]]) -> None:
    for day, values in rows.items():
        folder = table / f"date={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"value": values}), folder / f"part-{values[0]}.parquet")


def rows_of(table: Path) -> dict[str, list[int]]:
    return {
        file.parent.name.removeprefix("date="): pq.ParquetFile(file).read().column("value").to_pylist()
        for file in sorted(table.glob("*/*.parquet"))
    }


def publish(out: Path, rows: dict[date, list[int]], days: Days = ALL) -> None:
    with building(out) as made:
        put(made.place("flows"), rows)
        made.publish("flows", days)


@pytest.fixture(params=["in one step", "in two steps"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "in two steps":
        monkeypatch.setattr(writing, "_exchange_at_once", lambda *_: False)
    return str(request.param)


@pytest.mark.usefixtures("exchange")
def test_a_table_takes_the_place_of_its_old_self(tmp_path: Path) -> None:
    publish(tmp_path, {FIRST: [1], SECOND: [2]})
    assert rows_of(tmp_path / "flows") == {str(FIRST): [1], str(SECOND): [2]}
    publish(tmp_path, {SECOND: [3, 4]})
    assert rows_of(tmp_path / "flows") == {str(SECOND): [3, 4]}
    assert row_count(tmp_path / "flows") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_lock", "flows"]


@pytest.mark.usefixtures("exchange")
def test_of_other_days_the_old_rows_stay(tmp_path: Path) -> None:
    publish(tmp_path, {FIRST: [1], SECOND: [2], THIRD: [3]})
    publish(tmp_path, {FIRST: [9], SECOND: [8]}, Days(SECOND, SECOND))
    assert rows_of(tmp_path / "flows") == {str(FIRST): [1], str(SECOND): [8], str(THIRD): [3]}
    publish(tmp_path, {}, Days(last=SECOND))
    assert rows_of(tmp_path / "flows") == {str(THIRD): [3]}


def test_days_can_stay_where_the_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    publish(tmp_path, {FIRST: [1], SECOND: [2]})
    monkeypatch.setattr(os, "link", no_link)
    publish(tmp_path, {SECOND: [3]}, Days(SECOND, SECOND))
    assert rows_of(tmp_path / "flows") == {str(FIRST): [1], str(SECOND): [3]}


@pytest.mark.usefixtures("exchange")
def test_a_run_that_fails_leaves_the_old_table_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path, {FIRST: [1]})
    with suppress(KeyboardInterrupt), building(tmp_path) as made:
        put(made.place("flows"), {FIRST: [2]})
        raise KeyboardInterrupt
    assert rows_of(tmp_path / "flows") == {str(FIRST): [1]}
    assert not list(tmp_path.glob(f"{BUILDING}*"))


DIES = """
import os, sys
from pathlib import Path
from hopline.pipeline import writing
from hopline.pipeline.days import Days
from tests.pipeline.test_writing import FIRST, put

rename, steps = Path.rename, [int(sys.argv[2])]

def dying_rename(self, target):
    if steps[0] == 0:
        os._exit(9)
    steps[0] -= 1
    return rename(self, target)

Path.rename = dying_rename
if sys.argv[3] == "two":
    writing._exchange_at_once = lambda one, other: False
with writing.building(Path(sys.argv[1])) as made:
    put(made.place("flows"), {FIRST: [2]})
    made.publish("flows", Days())
    os._exit(9)
"""


@pytest.mark.parametrize(
    ("renames_before_death", "steps", "then"),
    [(0, "one", 2), (1, "one", 2), (0, "two", 1), (1, "two", 1), (2, "two", 2)],
)
def test_a_death_while_tables_change_places_leaves_the_old_or_the_new(
    tmp_path: Path, renames_before_death: int, steps: str, then: int
) -> None:
    publish(tmp_path, {FIRST: [1]})
    died = subprocess.run([sys.executable, "-c", DIES, tmp_path, str(renames_before_death), steps], check=False)
    assert died.returncode == 9
    if steps == "one":  # there is no moment without a table
        assert rows_of(tmp_path / "flows") == {str(FIRST): [then]}
    with building(tmp_path):
        assert rows_of(tmp_path / "flows") == {str(FIRST): [then]}
    assert not list(tmp_path.glob(f"{BUILDING}*"))


def test_two_runs_do_not_write_the_same_tables(tmp_path: Path) -> None:
    told = f"another run writes these tables \\(process {os.getpid()}"
    with building(tmp_path), pytest.raises(BusyError, match=told), building(tmp_path):
        pass
    with building(tmp_path):  # and let go
        pass


def test_the_lock_of_a_dead_process_holds_nobody_up(tmp_path: Path) -> None:
    dies = "import os, sys; from pathlib import Path; from hopline.pipeline.writing import building\n"
    dies += "with building(Path(sys.argv[1])): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", dies, tmp_path], check=False).returncode == 9
    assert list(tmp_path.glob(f"{BUILDING}*"))
    with building(tmp_path):
        assert len(list(tmp_path.glob(f"{BUILDING}*"))) == 1


def test_tables_need_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="is a file: the tables need a folder"), building(tmp_path / "file"):
        pass


def test_settling_touches_nothing_that_is_whole(tmp_path: Path) -> None:
    publish(tmp_path, {FIRST: [1]})
    settle(tmp_path)
    assert rows_of(tmp_path / "flows") == {str(FIRST): [1]}
