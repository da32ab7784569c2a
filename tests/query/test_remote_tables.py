from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from typer.testing import CliRunner

from hopline.cli import app
from hopline.message import HoplineError
from hopline.pipeline.failures import RequirementError
from hopline.query.errors import StorageError
from hopline.query.files import open_storage, without_password
from hopline.query.summary import findings
from hopline.query.tables import NoTableError, open_tables
from tests.pipeline.webhdfs import webhdfs
from tests.query.written import write_tables


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    write_tables(folder / "my tables")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(params=["memory", "webhdfs", "file"])
def lake(request: pytest.FixtureRequest, out: Path) -> Iterator[str]:
    """A folder with tables on some storage."""
    if request.param == "memory":
        memory = fsspec.filesystem("memory")
        memory.put(str(out), "/lake", recursive=True)
        memory.makedirs("/lake/empty", exist_ok=True)
        yield "memory://lake"
        memory.rm("/lake", recursive=True)
    elif request.param == "webhdfs":
        with webhdfs(out) as uri:
            yield uri
    else:
        yield out.as_uri()


def test_tables_are_queried_in_any_storage(lake: str, out: Path) -> None:
    question = "select f.date, f.flow_id, f.critical_path, h.lost from flows f, hops h order by all"
    with open_tables(out / "my tables") as here, open_tables(f"{lake}/my tables/") as there:
        expected = here.ask(question).fetch()
        assert len(expected) == 16
        assert there.ask(question).fetch() == expected
        assert there.ask("select count(*) from flows where date = '2026-01-30'").fetch() == [(1,)]
        assert [file.size for file in there.files("flows")] == [file.size for file in here.files("flows")]


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("_delta_log/00000000000000000000.json", "flows has the format delta, which keeps old rows beside the new"),
        ("metadata/v1.metadata.json", "flows has the format iceberg"),
    ],
)
def test_old_rows_of_formats_with_a_log_are_not_taken_for_the_table(tmp_path: Path, log: str, problem: str) -> None:
    write_tables(tmp_path)
    (tmp_path / "flows" / log).parent.mkdir()
    (tmp_path / "flows" / log).write_text("{}")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/logged", recursive=True)
    try:
        for location in (tmp_path, "memory://logged"):
            with pytest.raises(StorageError, match=problem), open_tables(location) as tables:
                tables.ask("select * from flows")
    finally:
        memory.rm("/logged", recursive=True)


def test_commands_and_findings_take_a_uri(lake: str, out: Path) -> None:
    tables = f"{lake}/my tables"
    result = CliRunner().invoke(app, ["tables", tables, "flows", "--where", "outcome = 'failed'"])
    assert "1 of 1 row of flows where outcome = 'failed'" in result.output
    assert "flows" in CliRunner().invoke(app, ["tables", tables]).output
    assert [one.rows for one in findings(tables)] == [one.rows for one in findings(out / "my tables")]
    assert findings(tables)[0].command.startswith(f"hopline tables '{tables}' rejects")


def test_a_location_without_tables_and_a_missing_location_are_different_errors(lake: str) -> None:
    with pytest.raises(NoTableError, match="no tables in it"), open_tables(f"{lake}/empty"):
        pass
    with pytest.raises(StorageError, match="nowhere: no such folder"), open_tables(f"{lake}/nowhere"):
        pass


def test_a_file_that_is_gone_is_an_error_of_the_storage(out: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(out), "/gone", recursive=True)
    with open_tables("memory://gone/my tables") as tables:
        assert len(tables.files("flows")) == 2
        memory.rm("/gone", recursive=True)
        with pytest.raises(StorageError):
            tables.ask("from flows").fetch()


@pytest.mark.parametrize(
    ("uri", "error", "problem"),
    [
        ("s3://bucket/tables", RequirementError, "s3:// needs another package: Install s3fs to access S3"),
        ("floppy://a/tables", StorageError, "floppy://a/tables: Protocol not known: floppy; fsspec knows abfs://"),
        ("webhdfs://me:secret@127.0.0.1:9/t", StorageError, "webhdfs://me:***@127.0.0.1:9/t: ConnectionError: "),
    ],
)
def test_an_unreachable_storage_is_one_line_of_error(
    uri: str, error: type[HoplineError], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed
    with pytest.raises(error) as raised, open_tables(uri):
        pass
    assert str(raised.value).startswith(problem)
    assert len(str(raised.value).splitlines()) == 1
    assert "secret" not in str(raised.value)


def test_a_missing_package_for_webhdfs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.webhdfs", raising=False)
    registered = importlib.import_module("fsspec.registry")
    monkeypatch.delitem(registered._registry, "webhdfs", raising=False)
    with pytest.raises(RequirementError, match=r"webhdfs:// needs another package: .*requests"):
        open_storage("webhdfs://127.0.0.1:9/t")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("webhdfs://me:secret@host:9870/t", "webhdfs://me:***@host:9870/t"),
        ("webhdfs://me@host/t", "webhdfs://me@host/t"),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("/a:b@c", "/a:b@c"),
    ],
)
def test_a_password_is_never_shown(location: str, shown: str) -> None:
    assert without_password(location) == shown
