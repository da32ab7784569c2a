from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from hopline.query.errors import LONGEST_QUESTION, QueryError, Question, QuestionError, StorageError
from hopline.query.files import LocalStorage, ReadOnlyFiles, ReadRange, TableFile
from hopline.query.short_ids import NoIdError, find_id, short_ids
from hopline.query.tables import NoTableError, Selection, open_tables
from tests.query.written import NOON, flow, write_table, write_tables


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("tables"))


def digests(folder: Path) -> dict[Path, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_table_is_a_view_that_is_made_when_it_is_needed(out: Path) -> None:
    with open_tables(out) as tables:
        together = "select count(*) from flows f, hops where f.hops = 1"
        assert tables.ask(together).fetch() == [(16,)]
        assert tables.ask("select extract('year' from min(ts)) from messages").fetch() == [(2026,)]
        assert {row[0] for row in tables.ask("show tables").rows()} == set(tables.names)
        assert next(iter(tables.columns("flows"))) == "date"


def test_days_are_dates_and_times_are_utc(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with open_tables(out) as tables:
        days = tables.ask("select distinct date from flows order by date").fetch()
        assert days == [(date(2026, 1, 30),), (date(2026, 1, 31),)]
        assert tables.ask("select count(*) from flows where date = '2026-01-30'").fetch() == [(1,)]
        noon = tables.ask("select distinct start_ts from flows where start_ts = '2026-01-31 12:00'").fetch()
        assert noon == [(datetime(2026, 1, 31, 12, tzinfo=UTC),)]
        assert tables.ask("select strftime(start_ts, '%H:%M') from flows limit 1").fetch() == [("12:00",)]


def test_uncommitted_files_are_not_read(tmp_path: Path) -> None:
    write_table(tmp_path, "flows", [flow("one", "complete", 1)])
    aside = tmp_path / "flows" / "_temporary" / "0"
    aside.mkdir(parents=True)
    (aside / "part-0.parquet").write_bytes(b"half a file")
    (tmp_path / "flows" / "date=2026-01-31" / ".part-0.parquet.crc").write_bytes(b"")
    (tmp_path / "flows" / "date=2026-01-31" / "_metadata.parquet").write_bytes(b"")
    with open_tables(tmp_path) as tables:
        assert [file.path for file in tables.files("flows")] == ["flows/date=2026-01-31/part-0.parquet"]
        assert tables.ask("select flow_id from flows").fetch() == [("one",)]


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    strange = write_tables(tmp_path / "it's [a] *folder*? {of} $tables")
    with open_tables(strange) as tables:
        assert tables.ask("select count(*) from flows").fetch() == [(4,)]


COPY = "copy (select 1) to '{file}' (format parquet, use_tmp_file false)"
READING = "tables can only be read"


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (COPY, READING),
        ("with a as (" + COPY + ") select 1", READING),
        ("from (with a as (" + COPY + ") select 1)", "must be at the top level"),
        ("from json_execute_serialized_sql(json_serialize_sql($$with a as (" + COPY + ") select 1$$))", READING),
        ("copy (select 1) to '{local}' (format parquet, use_tmp_file false)", READING),
        ("with a as (copy (select 1) to '{local}' (format parquet, use_tmp_file false)) select 1", "disabled"),
        ("with a as (copy (select 1) to '{folder}/new.csv') select 1", "disabled"),
        ("select * from read_parquet('{local}')", "disabled by configuration"),
        ("select * from read_text('/etc/hostname')", "disabled by configuration"),
        ("select * from '/etc/hostname'", "no table '/etc/hostname'"),
        ("select * from glob('/*')", "disabled by configuration"),
        ("attach '{folder}/new.db'", READING),
        ("export database '{folder}/new'", READING),
        ("install httpfs", READING),
        ("load httpfs", READING),
        ("set enable_external_access = true", READING),
        ("pragma enable_profiling", READING),
        ("from enable_profiling(save_location = '{folder}/new.json')", "configuration has been locked"),
        ("from enable_logging(storage = 'file', storage_config = {{'path': '{folder}'}})", "been locked"),
        ("drop view flows", READING),
        ("create table x as select 1", READING),
        ("select * from variable_of_the_test", "no table 'variable_of_the_test'"),
        ("select 1; select 2", "expected one statement, found 2"),
        ("pivot flows on outcome using count(*)", "pivot must name its values"),
        ("copy (pivot flows on outcome using count(*)) to '{folder}/new.csv'", "pivot must name its values"),
        ("explain analyze copy (select 1) to '{folder}/new.csv'", READING),
        ("-- nothing", "empty"),
        ("select '" + "x" * LONGEST_QUESTION + "'", "too long: at most 100,000 characters"),
        ("select interval '1000000000 days'", "must have magnitude"),
    ],
)
def test_a_query_can_only_read(out: Path, question: str, problem: str) -> None:
    variable_of_the_test = [1]
    assert variable_of_the_test
    before = digests(out)
    with open_tables(out) as tables:
        file = tables.files("flows")[0]
        text = question.format(file=file.uri, local=out / file.path, folder=out) if len(question) < 1000 else question
        with pytest.raises(QueryError) as raised:
            tables.ask(text).fetch()
    assert problem in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 3
    assert digests(out) == before


@pytest.mark.parametrize(
    "question",
    [
        "select " + "(" * 5000 + "1" + ")" * 5000,
        "select " + "[" * 5000 + "1" + "]" * 5000,
        "select " + "not " * 5000 + "true",
        "select " + "1 + " * 5000 + "1",
        "select " + "case when true then " * 2000 + "1" + " end" * 2000,
        "select " + "(select " * 2000 + "1" + ")" * 2000,
        "select " + "abs(" * 5000 + "1" + ")" * 5000,
    ],
)
def test_nesting_is_bounded(out: Path, question: str) -> None:
    with open_tables(out) as tables, pytest.raises(QuestionError, match="nested too deeply: simplify it"):
        tables.ask(question)


def test_an_error_marks_the_position_in_its_line(out: Path) -> None:
    with open_tables(out) as tables:
        with pytest.raises(QuestionError) as raised:
            tables.ask("select *\nfrom flows\nwhere\toutcome = 'é\x1b' and colour = 1")
        assert str(raised.value).splitlines()[1:] == [r"  where outcome = 'é\x1b' and colour = 1", " " * 30 + "^"]
        with pytest.raises(QuestionError) as raised:
            tables.ask("select " + "1, " * 100 + "colour from flows")
        line, mark = str(raised.value).splitlines()[-2:]
        assert line[mark.index("^") :].startswith("colour")
        assert len(line) <= 80


def test_an_error_in_a_selection_names_its_option(out: Path) -> None:
    with open_tables(out) as tables:
        selection = Selection("flows", "flow_id -- the id", "outcome = 'failed' -- really", "duration_us desc -- slow")
        selection.check(tables)
        assert tables.ask(selection.question(5)).fetch() == [("two",)]
        assert tables.ask(selection.count()).fetch() == [(1,)]
        with pytest.raises(QuestionError) as raised:
            tables.ask(Selection("flows", where="outcome = 'é' and colour").question())
        assert (raised.value.option, raised.value.position) == ("--where", 18)


def test_a_table_without_files_exists_and_has_no_rows(out: Path, tmp_path: Path) -> None:
    write_tables(tmp_path)
    for file in (tmp_path / "hops").rglob("*.parquet"):
        file.unlink()
    with open_tables(tmp_path) as tables:
        assert "hops" in tables.names
        with pytest.raises(NoTableError, match="the table hops has no files, so it has no rows"):
            tables.ask("from hops")
        assert ("hops",) not in tables.ask("show tables").fetch()


def test_a_damaged_file_and_one_that_is_gone_are_named(tmp_path: Path) -> None:
    write_tables(tmp_path)
    file = tmp_path / "flows" / "date=2026-01-31" / "part-0.parquet"
    with open_tables(tmp_path) as tables:
        assert len(tables.files("flows")) == 2
        file.unlink()
        with pytest.raises(StorageError, match="No such file or directory"):
            tables.ask("select count(distinct flow_id) from flows").fetch()
    file.write_bytes(b"PAR1 is how it begins, and nothing more")
    with open_tables(tmp_path) as tables, pytest.raises(QueryError, match=r"part-0\.parquet"):
        tables.ask("select count(distinct flow_id) from flows").fetch()


def test_a_table_whose_files_are_all_gone_is_an_error_of_the_storage(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with open_tables(tmp_path) as tables:
        assert tables.ask("select count(*) from flows").fetch()
        shutil.rmtree(tmp_path / "flows")
        for question in ("select count(distinct flow_id) from flows", "describe flows"):
            with pytest.raises(StorageError, match="No such file or directory"):
                tables.ask(question).fetch()


def test_files_are_closed_after_a_query(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed = [], []
    reader = LocalStorage.reader

    def counted(storage: LocalStorage, path: str) -> tuple[ReadRange, Callable[[], None]]:
        read, close = reader(storage, path)
        opened.append(path)

        def close_once() -> None:
            closed.append(path)
            close()

        return read, close_once

    monkeypatch.setattr(LocalStorage, "reader", counted)
    with open_tables(out) as tables:
        for _ in range(3):
            tables.ask("select count(distinct flow_id) from flows").fetch()
        assert opened
        assert sorted(closed) == sorted(opened), "with the tables still open: a page may be asked for all day"


def test_several_threads_may_query_at_once(out: Path) -> None:
    with open_tables(out) as tables, ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(tables.ask, "select count(*) from flows f, hops") for _ in range(20)]
        assert [one.result().fetch() for one in asked] == [[(16,)]] * 20


def test_every_thread_has_its_own_position_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    content = bytes(range(256)) * 64
    (tmp_path / "flows" / "a.parquet").write_bytes(content)
    files = ReadOnlyFiles(LocalStorage(tmp_path))
    files.add([TableFile("flows/a.parquet", len(content))])
    together = threading.Barrier(8)
    with closing(files.open("tables://flows/a.parquet")) as file, ThreadPoolExecutor(8) as threads:

        def read(start: int) -> bytes:
            together.wait(60)
            file.seek(start)
            together.wait(60)
            return file.read(100)

        assert list(threads.map(read, range(8))) == [content[start : start + 100] for start in range(8)]
        assert file.seek(-3, 2) == len(content) - 3
        assert file.read() == content[-3:]
    with pytest.raises(PermissionError, match="tables can only be read"):
        files.open("tables://flows/a.parquet", "wb")
    with pytest.raises(FileNotFoundError):
        files.open("tables://flows/../flows/a.parquet")


def test_a_shortened_id_is_unique_in_the_whole_table_not_only_among_the_shown_rows(tmp_path: Path) -> None:
    names = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(5000)]
    twin = names[77][:20] + "f" * 16
    write_table(tmp_path, "flows", [flow(name, "complete", 1) for name in names])
    write_table(tmp_path, "flows", [flow(twin, "complete", 1)], NOON.date() + timedelta(days=1))
    with open_tables(tmp_path) as tables:
        shown = short_ids(tables, "flows", "flow_id", [*names[70:90], "a name that somebody chose"])
        assert shown.pop(names[77]) == names[77][:21]
        assert shown.pop("a name that somebody chose") == "a name that somebody chose"
        assert shown == {name: name[:8] for name in (*names[70:77], *names[78:90])}
        assert find_id(tables, "flows", names[5][:8]).value == names[5]
        assert find_id(tables, "flows", twin[:21]).value == twin
        with pytest.raises(NoIdError, match=f"several ids in flows begin with '{twin[:20]}'"):
            find_id(tables, "flows", twin[:20])


def test_an_id_that_is_a_prefix_of_another_is_found(tmp_path: Path) -> None:
    write_table(tmp_path, "flows", [flow("order-1", "complete", 1), flow("order-17", "complete", 1)])
    with open_tables(tmp_path) as tables:
        assert find_id(tables, "flows", "order-1").value == "order-1"
        with pytest.raises(NoIdError):
            find_id(tables, "flows", "order")


def test_actors_and_hubs_are_distinguished_though_their_kind_is_not_shown(tmp_path: Path) -> None:
    name = "abcdef01-0000-4000-8000-000000000000"
    hub, actor = f"\0{name}", f"\1{name[:-1]}1"
    write_table(tmp_path, "handlers", [{"actor": hub}, {"actor": actor}])
    with open_tables(tmp_path) as tables:
        assert short_ids(tables, "handlers", "actor", [actor]) == {actor: actor[1:]}
        assert find_id(tables, "handlers", actor[1:]).value == actor


def test_a_question_is_one_of_the_tables_names(out: Path) -> None:
    with open_tables(out) as tables:
        with pytest.raises(NoTableError, match="no table 'flow' in it; there are: messages"):
            tables.files("flow")
        assert tables.ask(Question("select $1"), ["it's"]).fetch() == [("it's",)]
