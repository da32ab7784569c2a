"""The pages follow tables that a run replaces, and keep what they know of those that stay."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from hopline.explorer import live_tables
from hopline.explorer.live_tables import LiveTables
from hopline.query.errors import StorageError
from hopline.query.tables import NoTableError, Tables
from tests.explorer.conftest import Opening
from tests.explorer.planted import ORDER_FLOW, write_planted
from tests.explorer.test_pages import text_of
from tests.query.written import flow, write_table


@pytest.fixture(autouse=True)
def _list_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tables, "LISTED_EVERY_SECONDS", 0.0)


def _replace_flows(tables: Path, *names: str) -> None:
    """Replace the flows as Spark does: with files of other names."""
    shutil.rmtree(tables / "flows")
    write_table(tables, "flows", [flow(name, "failed", 5) | {"journey_id": name} for name in names])
    (file,) = (tables / "flows").rglob("*.parquet")
    file.rename(file.with_name("part-1-of-another-run.parquet"))


def _count(tables: Tables) -> int:
    count: int = tables.ask("select count(*) from flows").fetch()[0][0]
    return count


def test_a_page_shows_what_a_run_has_written_meanwhile(tmp_path: Path, opening: Opening) -> None:
    tables = write_planted(tmp_path / "tables")
    client = opening(tables)
    state = client.get("/state").json()["state"]
    assert f'data-state="{state}"' in client.get("/").text
    assert ORDER_FLOW[:8] in text_of(client, "/search")
    assert client.get("/state").json()["state"] == state
    _replace_flows(tables, "new-flow")
    assert client.get("/state").json()["state"] != state
    assert "new-flow" in text_of(client, "/search")
    assert ORDER_FLOW[:8] not in text_of(client, "/search")


def test_a_file_of_another_name_or_size_is_another_state(tmp_path: Path) -> None:
    tables = write_planted(tmp_path / "tables")
    (file,) = (tables / "flows").rglob("*.parquet")
    states = [live_tables.listed_state(tables)]
    file = file.rename(file.with_name("part-1.parquet"))
    states.append(live_tables.listed_state(tables))
    file.write_bytes(file.read_bytes() + b"more")
    states.append(live_tables.listed_state(tables))
    assert len(set(states)) == 3


def test_an_answer_is_kept_as_long_as_the_tables_stay(tmp_path: Path) -> None:
    tables = write_planted(tmp_path / "tables")
    live = LiveTables(tables)
    asked: list[int] = []

    def question(opened: Tables, factor: int) -> int:
        asked.append(factor)
        return factor * _count(opened)

    for _ in range(2):
        assert live.read(lambda snapshot: snapshot.answer(question, 2)) == 6
    assert asked == [2]
    _replace_flows(tables, "a")
    assert live.read(lambda snapshot: snapshot.answer(question, 2)) == 2
    assert asked == [2, 2]
    live.close()


def test_old_answers_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tables, "ANSWERS_KEPT", 2)
    live = LiveTables(write_planted(tmp_path / "tables"))
    asked: list[int] = []

    def question(_: Tables, number: int) -> int:
        asked.append(number)
        return number

    with live.reading() as snapshot:
        for number in (1, 2, 1, 3, 1, 2):
            snapshot.answer(question, number)
    assert asked == [1, 2, 3, 2]
    live.close()


def test_a_page_that_is_being_made_keeps_its_tables_open(tmp_path: Path) -> None:
    tables = write_planted(tmp_path / "tables")
    live = LiveTables(tables)
    with live.reading() as before:
        _count(before.tables)
        write_table(tables, "flows", [flow("more", "failed", 5)], before.tables.files("flows")[0].day.replace(day=30))  # type: ignore[union-attr]
        with live.reading() as after:
            assert _count(after.tables) == 4
        assert _count(before.tables) == 3
    with pytest.raises(Exception, match=r"[Cc]onnection|closed"):
        _count(before.tables)
    live.close()


def test_a_page_whose_files_were_replaced_while_it_was_made_is_made_again(tmp_path: Path) -> None:
    tables = write_planted(tmp_path / "tables")
    live = LiveTables(tables)
    rounds: list[str] = []

    def page(snapshot: live_tables.Snapshot) -> int:
        rounds.append(snapshot.state)
        if len(rounds) == 1:
            snapshot.tables.files("flows")
            _replace_flows(tables, "a", "b")
        return _count(snapshot.tables)

    assert live.read(page) == 2
    assert len(set(rounds)) == 2
    live.close()


def test_tables_that_went_away_are_an_error_that_says_so(tmp_path: Path, opening: Opening) -> None:
    tables = write_planted(tmp_path / "tables")
    client = opening(tables)
    client.get("/")
    shutil.rmtree(tables)
    assert "no such folder" in text_of(client, "/", 500)
    with pytest.raises(StorageError):
        LiveTables(tables)
    tables.mkdir()
    with pytest.raises(NoTableError):
        LiveTables(tables)


def test_many_readers_at_once_see_whole_tables_while_they_are_replaced(tmp_path: Path, opening: Opening) -> None:
    tables = write_planted(tmp_path / "tables")
    client = opening(tables)
    statuses: list[int] = []

    def read() -> None:
        statuses.extend(client.get("/search").status_code for _ in range(10))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for name in ("a", "b", "c"):
        other = write_planted(tmp_path / name)
        _replace_flows(other, name)
        (file,) = (other / "flows").rglob("*.parquet")
        day = next((tables / "flows").iterdir())
        file.rename(day / f"{name}.parquet")
    for reader in readers:
        reader.join(60)
    assert statuses == [200] * 40
