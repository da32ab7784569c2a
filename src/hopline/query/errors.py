"""Errors of queries: DuckDB's reports in plain words, with a mark below the place of the fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hopline.message import HoplineError, printable

LONGEST_QUESTION = 100_000
_SHOWN_BEFORE = 40  # characters of a long line that are shown before the fault
_SHOWN_LINE = 76  # and in all
_TRACEBACK = "Traceback (most recent call last)"  # of our own file system, which DuckDB called
_RAISED = re.compile(r'\b\w+Error: ([^\n"\\]+)')
_DEPTH = "Max expression depth limit"
_NO_COLUMN = re.compile(r'does not have a column named "(.+?)"|Referenced column "(.+?)" not found')


class QueryError(HoplineError):
    """The tables cannot be read, or a question about them cannot be answered."""


class StorageError(QueryError):
    """The storage of the tables cannot be read."""


class QuestionError(QueryError):
    """A query is not valid, or would change something.

    Attributes:
        problem: What is wrong.
        text: The query, or the part of it that comes from `option`.
        position: The index of the fault in `text`, if it is known.
        option: The option of the command line that the part comes from, if any.
    """

    def __init__(
        self,
        problem: str,
        text: str = "",
        position: int | None = None,
        option: str = "",
    ) -> None:
        super().__init__(problem, text, position, option)
        self.problem = problem
        self.text = text
        self.position = position
        self.option = option

    def __str__(self) -> str:
        prefix = f"{self.option}: " if self.option else ""
        lines = [f"{prefix}{self.problem}", *self._pointer()]
        return "\n".join(lines)

    def _pointer(self) -> Sequence[str]:
        """Return the line with the fault, and one with a mark below it."""
        if self.position is None:
            return ()
        line_break = self.text.rfind("\n", 0, self.position)
        start = line_break + 1
        rest = self.text[start:]
        line, _, _ = rest.partition("\n")
        line = line.replace("\t", " ")
        column = self.position - start
        cut = max(column - _SHOWN_BEFORE, 0)
        before = printable(line[cut:column])
        end = cut + _SHOWN_LINE
        after = printable(line[column:end])
        indent = " " * len(before)
        return f"  {before}{after}", f"  {indent}^"


@dataclass(frozen=True, slots=True)
class Question:
    """An SQL statement, and the options of a command that its parts come from: name, start and end."""

    sql: str
    options: tuple[tuple[str, int, int], ...] = ()

    def fault(self, problem: str, position: int | None = None) -> QuestionError:
        """Return the error for a problem, at a position in the statement if it is known."""
        if position is None:
            names = [name for name, _, _ in self.options]
            only_option = names[0] if len(names) == 1 else ""
            return QuestionError(problem, option=only_option)
        for option, start, end in self.options:
            if start <= position <= end:
                return QuestionError(
                    problem,
                    text=self.sql[start:end],
                    position=position - start,
                    option=option,
                )
        return QuestionError(problem, self.sql, position)


def missing_table(error: Exception) -> str | None:
    """Return the name of the table that DuckDB does not know, if that is what is wrong."""
    report = _report(error)
    is_missing = report.get("error_subtype") == "MISSING_ENTRY"
    is_table = report.get("type") == "Table"
    if is_missing and is_table:
        return report["name"]
    return None


def query_failure(
    error: Exception,
    question: Question,
    tables: Sequence[str] = (),
    columns: Callable[[], Mapping[str, Sequence[str]]] = dict,
) -> QueryError:
    """Return what DuckDB raised as an error for people.

    Args:
        error: DuckDB's error.
        question: The query.
        tables: The names of all tables.
        columns: Returns the columns of the tables in the query; called only for an error that lists them.
    """
    report = _report(error)
    message = report["exception_message"]
    is_io_error = report["exception_type"] == "IO"
    is_from_our_files = _TRACEBACK in message
    if is_io_error or is_from_our_files:
        causes = _RAISED.findall(message)
        cause = causes[-1] if causes else message.strip()
        return StorageError(cause)
    if _DEPTH in message:
        problem = "nested too deeply: simplify it"
    elif name := missing_table(error):
        all_names = ", ".join(tables)
        problem = f"no table {name!r}; there are: {all_names}"
    elif match := _NO_COLUMN.search(message):
        name = match[1] or match[2]
        listed = _columns_text(columns())
        problem = f"no column {name!r}{listed}"
    else:
        first_line, _, _ = message.partition("\n")
        problem = first_line.rstrip("!")
    if "position" not in report:
        return question.fault(problem)
    offset = int(report["position"])  # in bytes
    bytes_before = question.sql.encode()[:offset]
    text_before = bytes_before.decode(errors="ignore")
    position = len(text_before)
    return question.fault(problem, position)


def _columns_text(columns: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for table, names in columns.items():
        listed = ", ".join(names)
        parts.append(f"; {table} has: {listed}")
    return "".join(parts)


def _report(error: Exception) -> dict[str, str]:
    """Return DuckDB's report of an error, which is JSON for most errors (setting ``errors_as_json``)."""
    text = str(error)
    try:
        begin = text.index("{")
        report: dict[str, str] = json.loads(text[begin:])
        return {
            "exception_message": text,
            "exception_type": "",
            **report,
        }
    except ValueError:
        return {
            "exception_message": text,
            "exception_type": type(error).__name__,
        }
