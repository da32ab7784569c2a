"""SQL queries of the tables with DuckDB, in any storage and without Spark.

>>> from hopline.query.tables import open_tables
>>> with open_tables("tables") as tables:  # doctest: +SKIP
...     slowest = tables.ask("select flow_id, duration_us from flows order by duration_us desc limit 3").fetch()

Every table is a view of the same name in one database in memory. A view is made when a query first needs it, so that a
query of flows does not list the files of messages. Days are partitions: ``date = '2026-01-31'`` reads that day's files
only. Times are UTC.

A query may come from an untrusted source, so it can only read: one statement that selects, in a database without access
to files (`files` explains how the tables are read nevertheless), settings, extensions or Python variables. The depth of
nesting and the length of the text are bounded. Ctrl-C stops a running query: DuckDB does not handle signals, so it runs
in a thread, which is interrupted.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from hopline.pipeline.tables.all import TABLES
from hopline.query.errors import LONGEST_QUESTION, QueryError, Question, missing_table, query_failure
from hopline.query.files import (
    SCHEME,
    ReadOnlyFiles,
    Storage,
    TableFile,
    list_files,
    list_tables,
    open_storage,
    without_password,
)
from hopline.query.sql_text import quoted

Result = TypeVar("Result")
Row = tuple[Any, ...]

MAX_EXPRESSION_DEPTH = 250
_ROWS_AT_ONCE = 1_000
_INTERRUPT_SECONDS = 2.0  # for a read under way: from a storage that does not answer it may take longer
_SETTINGS = {
    "allow_community_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "errors_as_json": True,
    "max_expression_depth": MAX_EXPRESSION_DEPTH,
    "python_enable_replacements": False,
    "temp_directory": "",  # nothing is spilled: what does not fit into memory is an error
}
_LOCKS = (
    "set global timezone = 'UTC'",
    "set global parquet_metadata_cache = true",  # the files are a snapshot: their footers are read once
    f"set allowed_directories = ['{SCHEME}://']",
    "set enable_external_access = false",
    "set lock_configuration = true",
)
_SHOWS_NAMES = re.compile(r"\b(show|information_schema|duckdb_\w+)\b", re.IGNORECASE)


class NoTableError(QueryError):
    """There is no such table, or none at all."""


@contextmanager
def open_tables(location: str | Path) -> Iterator[Tables]:
    """Open the tables of a folder, or of a URI such as ``webhdfs://host:9870/lake/tables``.

    Raises:
        NoTableError: there are no tables.
        StorageError: the location cannot be read.
        RequirementError: a package is missing that reads such URIs.

    """
    storage = open_storage(location)
    names = list_tables(location, storage, TABLES)
    if not names:
        shown = without_password(str(location))
        raise NoTableError(
            f"{shown}: no tables in it; hopline pipeline run CAPTURES --out TABLES makes tables of captures"
        )
    tables = Tables(location, storage, names)
    try:
        yield tables
    finally:
        tables.close()


class Tables:
    """The tables at a location, open for queries. See `open_tables`."""

    def __init__(self, location: str | Path, storage: Storage, names: Sequence[str]) -> None:
        self.location = location
        self.names = tuple(names)
        self._storage = storage
        self._files = ReadOnlyFiles(storage)
        self._listed: dict[str, list[TableFile]] = {}
        self._views: set[str] = set()
        self._opening = threading.RLock()
        self._database = duckdb.connect(config=_SETTINGS)
        self._database.register_filesystem(self._files)
        for lock in _LOCKS:
            self._database.execute(lock)

    def close(self) -> None:
        """Close the database. A query that is still running fails."""
        self._database.unregister_filesystem(SCHEME)  # which would hold the database otherwise
        self._database.close()

    def require(self, name: str) -> None:
        """Raise NoTableError unless there is such a table."""
        if name not in self.names:
            raise NoTableError(
                f"{without_password(str(self.location))}: no table {name!r} in it; there are: {', '.join(self.names)}"
            )

    def files(self, name: str) -> list[TableFile]:
        """Return the files of a table. They are listed once."""
        self.require(name)
        with self._opening:
            if name not in self._listed:
                self._listed[name] = list_files(self.location, self._storage, name)
                self._files.add(self._listed[name])
            return self._listed[name]

    def columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table with their types, in the order of the documentation."""
        self._open_view(name)
        return {row[0]: row[1] for row in self.ask(f"describe {quoted(name)}").rows()}

    def ask(self, question: str | Question, parameters: Sequence[Any] = ()) -> Answer:
        """Run a query: one SQL statement that selects, with parameters (``$1``) if there are any.

        Raises:
            QuestionError: the question makes no sense, or would change something.
            StorageError: files of the tables cannot be read.

        """
        question = question if isinstance(question, Question) else Question(question)
        if len(question.sql) > LONGEST_QUESTION:
            raise question.fault(f"too long: at most {LONGEST_QUESTION:,} characters")
        if _SHOWS_NAMES.search(question.sql):
            for name in self.names:
                self._open_view(name, if_it_has_files=True)
        cursor = self._database.cursor()
        self._check(cursor, question)
        retried: set[str] = set()
        while True:
            try:
                interruptible(cursor, lambda: cursor.execute(question.sql, list(parameters)))
            except duckdb.Error as error:
                missing = missing_table(error)
                if missing in self.names and missing not in retried:
                    retried.add(missing)
                    self._open_view(missing)
                    continue
                raise query_failure(error, question, self.names, lambda: self._columns_of(question)) from None
            return Answer(cursor, question)

    def check(self, question: Question) -> None:
        """Raise QuestionError unless a text is one statement that selects."""
        self._check(self._database.cursor(), question)

    def _check(self, cursor: Any, question: Question) -> None:
        try:
            statements = cursor.extract_statements(question.sql)
        except duckdb.Error as error:
            raise query_failure(error, question) from None
        if not statements:
            raise question.fault("empty: expected a question, such as select * from flows")
        if len(statements) > 1:
            raise question.fault(f"expected one statement, found {len(statements)}")
        kind = statements[0].type
        if kind == duckdb.StatementType.MULTI:
            raise question.fault("pivot must name its values: pivot flows on outcome in ('failed') using count(*)")
        if kind != duckdb.StatementType.SELECT:
            expected = "expected select, with, from or describe"
            raise question.fault(f"tables can only be read: {expected}, found {kind.name.lower()}")

    def _open_view(self, name: str, *, if_it_has_files: bool = False) -> None:
        with self._opening:
            if name in self._views:
                return
            if not self.files(name):
                if if_it_has_files:
                    return
                raise NoTableError(
                    f"{without_password(str(self.location))}: the table {name} has no files, so it has no rows"
                )
            # The day comes first, as in the documentation; as text, it would have to be cast in every question.
            files = f"read_parquet('{SCHEME}://{name}/*', hive_partitioning = true, hive_types = {{'date': date}})"
            view = f"create view {quoted(name)} as select date, * exclude (date) from {files}"  # noqa: S608 - our names
            try:
                self._database.execute(view)
            except duckdb.Error as error:
                raise query_failure(error, Question(view)) from None
            self._views.add(name)

    def _columns_of(self, question: Question) -> dict[str, list[str]]:
        """Return the columns of the tables that a query names."""
        words = set(re.findall(r"\w+", question.sql.lower()))
        return {name: list(self.columns(name)) for name in self.names if name in words & self._views}


class Answer:
    """The rows of a query, read from DuckDB on demand."""

    def __init__(self, cursor: Any, question: Question) -> None:
        self._cursor = cursor
        self._question = question

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the names of its columns, each of them once: a second ``a`` is ``a_1``."""
        names: list[str] = []
        for column in self._cursor.description:
            name, number = column[0], 0
            while name in names:
                number += 1
                name = f"{column[0]}_{number}"
            names.append(name)
        return tuple(names)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Return the types of its columns, as DuckDB writes them."""
        return tuple(str(column[1]) for column in self._cursor.description)

    def rows(self) -> Iterator[Row]:
        """Return its rows one by one; at most some thousand are in memory at a time."""
        while rows := self.fetch(_ROWS_AT_ONCE):
            yield from rows

    def fetch(self, limit: int | None = None) -> list[Row]:
        """Return the next rows, or all that are left."""
        call = self._cursor.fetchall if limit is None else lambda: self._cursor.fetchmany(limit)
        try:
            rows: list[Row] = interruptible(self._cursor, call)
        except (duckdb.Error, OverflowError, ValueError) as error:  # a value that Python has no type for
            raise query_failure(error, self._question) from None
        return rows

    def records(self) -> Iterator[dict[str, Any]]:
        """Return its rows as dictionaries, one by one."""
        for row in self.rows():
            yield dict(zip(self.columns, row, strict=True))


def interruptible(cursor: Any, call: Callable[[], Result]) -> Result:
    """Run a call to DuckDB so that Ctrl-C ends it. Only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: Future[Result] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # which is raised where somebody waits
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return outcome.result()
    except KeyboardInterrupt:
        cursor.interrupt()
        wait([outcome], timeout=_INTERRUPT_SECONDS)
        raise


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of rows of one table, given as parts of SQL that are options of the command line."""

    table: str
    columns: str = "*"
    where: str | None = None
    order_by: str | None = None
    equal_to_id: tuple[str, ...] = ()  # columns of which one is the first parameter

    def check(self, tables: Tables) -> None:
        """Raise QuestionError for the first part that is no SQL by itself."""
        for option, text, before in (
            ("--columns", self.columns, "select "),
            ("--where", self.where, "select "),
            ("--order-by", self.order_by, "select 1 order by "),
        ):
            if text is not None:
                tables.check(Question(f"{before}{text}", ((option, len(before), len(before) + len(text)),)))

    def question(self, limit: int | None = None) -> Question:
        """Return the query of these rows."""
        return self._question(self.columns, order_by=self.order_by, limit=limit)

    def count(self) -> Question:
        """Return the query of their number, which reads only the columns of the condition."""
        return self._question("count(*)", order_by=None, limit=None)

    def _question(self, columns: str, *, order_by: str | None, limit: int | None) -> Question:
        equals = " or ".join(f"{quoted(column)} = $1" for column in self.equal_to_id)
        # A line for each part: a comment in one ends with it.
        sql, options = "", []
        for before, option, text, after in (
            ("select\n", "--columns", columns, f"\nfrom {quoted(self.table)}\nwhere ({equals or 'true'})"),
            ("\nand (\n", "--where", self.where, "\n)"),
            ("\norder by\n", "--order-by", order_by, ""),
        ):
            if text is not None:
                start = len(sql) + len(before)
                options.append((option, start, start + len(text)))
                sql += f"{before}{text}{after}"
        return Question(sql if limit is None else f"{sql}\nlimit {limit}", tuple(options))
