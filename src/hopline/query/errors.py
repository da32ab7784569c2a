"""What goes wrong with a question about the tables.

What DuckDB says of a question that makes no sense is put in plain words, with a mark below the place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hopline.message import HoplineError, printable

LONGEST_QUESTION = 100_000
_SHOWN_BEFORE, _SHOWN_LINE = 40, 76  # characters of a long line: before the place, and in all
_TRACEBACK = "Traceback (most recent call last)"  # of our own file system, which DuckDB called
_RAISED = re.compile(r'\b\w+Error: ([^\n"\\]+)')
_DEPTH = "Max expression depth limit"
_NO_COLUMN = re.compile(r'does not have a column named "(.+?)"|Referenced column "(.+?)" not found')


class QueryError(HoplineError):
    """The tables cannot be read, or a question about them cannot be answered."""


class StorageError(QueryError):
    """The place where the tables lie cannot be read."""


class QuestionError(QueryError):
    """A question that makes no sense, or would change something: what is wrong, and where."""

    def __init__(self, problem: str, text: str = "", position: int | None = None, option: str = "") -> None:
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
        start = self.text.rfind("\n", 0, self.position) + 1
        line, _, _ = self.text[start:].partition("\n")
        line = line.replace("\t", " ")
        column = self.position - start
        cut = max(column - _SHOWN_BEFORE, 0)
        before = printable(line[cut:column])
        after = printable(line[column : cut + _SHOWN_LINE])
        indent = " " * len(before)
        return f"  {before}{after}", f"  {indent}^"


@dataclass(frozen=True, slots=True)
class Question:
    """A statement of SQL, and which options of a command its parts come from: name, start and end."""

    sql: str
    options: tuple[tuple[str, int, int], ...] = ()

    def fault(self, problem: str, position: int | None = None) -> QuestionError:
        """Return the error for a problem with it, at a place in it if that is known."""
        if position is None:
            only_option = self.options[0][0] if len(self.options) == 1 else ""
            return QuestionError(problem, option=only_option)
        for option, start, end in self.options:
            if start <= position <= end:
                return QuestionError(problem, self.sql[start:end], position - start, option)
        return QuestionError(problem, self.sql, position)


def missing_table(error: Exception) -> str | None:
    """Return the name of the table that DuckDB does not know, if that is what is wrong."""
    report = _report(error)
    if report.get("error_subtype") != "MISSING_ENTRY" or report.get("type") != "Table":
        return None
    return report["name"]


def query_failure(
    error: Exception,
    question: Question,
    tables: Sequence[str] = (),
    columns: Callable[[], Mapping[str, Sequence[str]]] = dict,
) -> QueryError:
    """Return what DuckDB raised as an error for people.

    Args:
        error: what was raised.
        question: what was asked.
        tables: the tables that there are.
        columns: those of the tables that were asked for; called only for an error that lists them.

    """
    report = _report(error)
    message = report["exception_message"]
    if report["exception_type"] == "IO" or _TRACEBACK in message:
        causes = _RAISED.findall(message)
        cause = causes[-1] if causes else message.strip()
        return StorageError(cause)
    if _DEPTH in message:
        problem = "nested too deeply: simplify it"
    elif name := missing_table(error):
        there_are = ", ".join(tables)
        problem = f"no table {name!r}; there are: {there_are}"
    elif match := _NO_COLUMN.search(message):
        name = match[1] or match[2]
        problem = f"no column {name!r}{_columns_text(columns())}"
    else:
        first_line, _, _ = message.partition("\n")
        problem = first_line.rstrip("!")
    if "position" not in report:
        return question.fault(problem)
    bytes_before = question.sql.encode()[: int(report["position"])]  # DuckDB counts bytes
    text_before = bytes_before.decode(errors="ignore")
    return question.fault(problem, len(text_before))


def _columns_text(columns: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for table, names in columns.items():
        listed = ", ".join(names)
        parts.append(f"; {table} has: {listed}")
    return "".join(parts)


def _report(error: Exception) -> dict[str, str]:
    """Return what DuckDB says in JSON, as its setting ``errors_as_json`` has it; most errors, but not all, are."""
    text = str(error)
    try:
        begin = text.index("{")
        report: dict[str, str] = json.loads(text[begin:])
        return {"exception_message": text, "exception_type": "", **report}
    except ValueError:
        return {"exception_message": text, "exception_type": type(error).__name__}
