"""What stops a run: said in one line, with what to do about it. What Spark throws is translated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hopline.message import HoplineError

LISTED_FILES = 20


class RequirementError(HoplineError):
    """Something outside Hopline is not there: what it is, and what to do about it."""

    def __init__(self, missing: str, remedy: str) -> None:
        super().__init__(missing, remedy)
        self.missing = missing
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.missing}: {self.remedy}"


class PipelineError(HoplineError):
    """A run failed. Tables that it had not committed yet are as they were; repeating the run replaces the others."""


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file, folder or pattern that is no capture, and why."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class BadCapturesError(PipelineError):
    """Some of what was to be read is no capture."""

    def __init__(self, bad: Sequence[BadFile], *, others: int = 0) -> None:
        super().__init__(bad, others)
        self.bad = tuple(bad)
        self.others = others

    def __str__(self) -> str:
        if len(self.bad) == 1 and not self.others:
            return str(self.bad[0])
        listed = [f"  {one}" for one in self.bad[:LISTED_FILES]]
        if len(self.bad) > LISTED_FILES:
            listed.append(f"  and {len(self.bad) - LISTED_FILES} more")
        go_on = f"; --skip-bad-files goes on with the other {self.others}" if self.others else ""
        return "\n".join([f"{len(self.bad)} of the captures cannot be read{go_on}:", *listed])


class UnbalancedError(PipelineError):
    """The rows of messages and rejects are not as many as the records that were read."""

    def __init__(self, records: int, messages: int, rejects: int) -> None:
        super().__init__(records, messages, rejects)
        self.records, self.messages, self.rejects = records, messages, rejects

    def __str__(self) -> str:
        return (
            f"{self.records} records were read, but {self.messages} messages and {self.rejects} rejects written: the "
            "captures changed while they were read (run it again), or this is a fault in Hopline"
        )


_DAMAGED = "a segment is damaged inside: restore or remove it"
# What Spark and Java say, as they say it, and what it means. The first that is found counts.
_MEANINGS: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded|not enough (?:disk )?space|QuotaExceededException"
        r"|could only be written to 0 of",
        "disk full: free space where the tables are written, or where Spark spills "
        "(--conf spark.local.dir=FOLDER names another place)",
    ),
    (
        r"OutOfMemoryError|GC overhead limit|Unable to acquire \d+ bytes of memory|ExecutorLostFailure.*(?:137|memory)"
        r"|Answer from Java side is empty|Error while sending or receiving",
        "not enough memory: give Spark more, such as --memory 6g, or smaller shares of the work, "
        "such as --conf spark.sql.shuffle.partitions=400",
    ),
    (
        r"Java gateway process exited|JAVA_GATEWAY_EXITED|Unable to locate a Java Runtime",
        "Java did not start: Spark needs Java 17 or newer, at JAVA_HOME or on the path",
    ),
    (
        r"All masters are unresponsive|Master removed our application|Could not parse Master URL",
        "Spark's master does not answer: check --master, and whether it runs",
    ),
    (
        r"failed to connect to all addresses|StatusCode\.UNAVAILABLE|CANNOT_CONNECT|Connection refused",
        "Spark does not answer: check --remote (or --master), and whether it runs",
    ),
    (
        r"FAILED_READ_FILE|is damaged inside|is not a Parquet file|ParquetDecodingException"
        r"|Could not read (?:footer|page)|corrupt",
        _DAMAGED,
    ),
    (
        r"SCHEMA_NOT_FOUND|REQUIRES_SINGLE_PART_NAMESPACE|CATALOG_NOT_FOUND|NoSuchNamespaceException",
        "no such schema: create it first (CREATE SCHEMA …), or check --table-prefix",
    ),
    (
        r"DATA_SOURCE_NOT_FOUND|Failed to find the data source",
        "unknown format: check --format, or add its package with --conf spark.jars.packages=…",
    ),
    (
        r"Permission denied|AccessControlException|AccessDenied",
        "permission denied: no right to read the captures or write the tables",
    ),
    (r"SparkContext was shut down|SparkContext.*stopped|stopped SparkContext", "Spark was stopped while it worked"),
)
_FILE = re.compile(r"CaptureError: /(.+?): is damaged inside|(?:file:/+|path: ?)([^\s,;\]\)'\"]+\.parquet)")
_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Exception|Error)): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)+(\w+(?:Exception|Error)): (.+)")


class SparkFailedError(PipelineError):
    """Spark did not do what it was asked to."""

    def __init__(self, doing: str, meaning: str, said: str) -> None:
        super().__init__(doing, meaning, said)
        self.doing, self.meaning, self.said = doing, meaning, said

    def __str__(self) -> str:
        return f"{self.doing}: {self.meaning}" + (f" ({self.said})" if self.said else "")


def spark_failure(doing: str, problem: BaseException) -> PipelineError:
    """Translate what Spark threw while it was doing something."""
    text = _all_that_was_said(problem)
    said = cause_of(problem)
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            if meaning is _DAMAGED and (file := _FILE.search(text)):
                return BadCapturesError([BadFile(f"/{(file[1] or file[2]).lstrip('/')}", _DAMAGED)])
            return SparkFailedError(doing, meaning, said)
    return SparkFailedError(doing, "Spark failed", said)


def cause_of(problem: BaseException) -> str:
    """Return the last cause of what Spark threw, in one line."""
    return _innermost(_all_that_was_said(problem))


def _all_that_was_said(problem: BaseException) -> str:
    parts = [str(one) for one in (problem.__cause__, problem.__context__) if one is not None]
    java = getattr(problem, "java_exception", None)
    if java is not None:
        parts.append(str(java))
    # The last cause comes last. An exception of Java's tells its stack itself; that of others is kept by pyspark and,
    # under another name, by its Connect client. Lines with nothing but a place in the code would only mislead.
    stack = getattr(problem, "_stackTrace", None) or getattr(problem, "_stacktrace", None) or ""
    told = [str(problem), *(line for line in stack.splitlines() if not line.lstrip().startswith("at "))]
    return "\n".join([*parts, *told])


def _innermost(text: str) -> str:
    """Return the last cause of a chain, in one line; the first line where there is no chain."""
    _, python, raised = text.rpartition("Traceback (most recent call last):")
    causes = (_RAISED.findall(raised) if python else []) or _CAUSE.findall(text)
    line = f"{causes[-1][0]}: {causes[-1][1]}" if causes else next(iter(text.strip().splitlines()), "")
    return line if len(line) <= 300 else f"{line[:300]}…"
