"""Sending traces to an OTLP/HTTP endpoint from the executors, in batches, with what became of them counted.

Theory of operation
-------------------
The lines of a file are requests already, so a batch is a few of them joined, compressed, and posted as JSON. Executors
need nothing but the standard library for it.

What may pass by itself is tried again, as the protocol asks: no connection, a connection that broke, and the answers
429, 502, 503 and 504, after the time that the server names or one that doubles from try to try, with some jitter so
that tasks do not come back all at once. Any other refusal is final for the batch. A batch that is given up is counted
and does not stop the others, unless the endpoint does not answer at all: then the rest of the task is counted as failed
without being tried.

A task never raises for what the server does: Spark would run it again, and send everything twice. It returns counts.
Where Spark itself runs a task again, because an executor was lost, spans are sent twice, with the same ids.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.export.otlp import END, START

RETRYABLE = (429, 502, 503, 504)
FEW_LINES_A_BATCH = {"spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20)}
"""For tasks that post: Python gets about one request at a time, instead of 10,000 lines."""
_COUNTS = "batches long, spans long, rejected long, failed long, retries long, problem string"
_SENT = pa.schema(  # the same for Arrow
    [
        ("batches", pa.int64()),
        ("spans", pa.int64()),
        ("rejected", pa.int64()),
        ("failed", pa.int64()),
        ("retries", pa.int64()),
        ("problem", pa.string()),
    ]
)
_PROBLEM_LENGTH = 300
_ANSWER_LENGTH = 64 << 10


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to send."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may hold secrets
    attempts: int = 6
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    timeout_s: float = 30.0
    batch_spans: int = 2_000
    batch_bytes: int = 4 << 20  # of JSON; receivers take some megabytes at once


@dataclass(slots=True)
class Sent:
    """What became of spans: those that were taken, those that the server rejected, those that did not get there."""

    batches: int = 0
    spans: int = 0
    rejected: int = 0
    failed: int = 0
    retries: int = 0
    problem: str | None = None  # the first


class _PassingError(Exception):
    """A try that failed, and may succeed later."""

    def __init__(self, problem: str, *, is_answer: bool, after_s: float | None = None) -> None:
        super().__init__(problem)
        self.is_answer = is_answer
        self.after_s = after_s


class _FinalError(Exception):
    """A batch that the server does not want."""


def post(lines: DataFrame, endpoint: Endpoint) -> Sent:
    """Post lines of OTLP, on the executors, and return what became of them."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sender = Sender(endpoint)
        sent = sender.send_all(_lines_of(batches))
        yield pa.RecordBatch.from_pylist([asdict(sent)], _SENT)

    names = [name for name in Sent.__slots__ if name != "problem"]
    sums = [sf.sum(name).alias(name) for name in names]
    first_problem = sf.min("problem").alias("problem")
    of_tasks = lines.select("value", "spans").mapInArrow(send, _COUNTS)
    total = of_tasks.agg(*sums, first_problem)
    row = total.collect()[0]
    counts = {name: int(row[name] or 0) for name in names}
    return Sent(**counts, problem=row["problem"])


def _lines_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int]]:
    for batch in batches:
        values = batch.column("value").to_pylist()
        span_counts = batch.column("spans").to_pylist()
        yield from zip(values, span_counts, strict=True)


class Sender:
    """One connection, and what was sent over it."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        self._endpoint = endpoint
        self._sleep = sleep
        self._url = urlsplit(endpoint.url)
        self._connection: http.client.HTTPConnection | None = None
        self._is_gone = False  # the endpoint did not answer any attempt
        self.sent = Sent()

    def send_all(self, lines: Iterator[tuple[str, int]]) -> Sent:
        """Send lines, each with its number of spans, and return what became of them."""
        try:
            for body, spans in _batches(lines, self._endpoint):
                self._send(body, spans)
        finally:
            self._close()
        return self.sent

    def _send(self, body: bytes, spans: int) -> None:
        sent = self.sent
        sent.batches += 1
        try:
            if self._is_gone:
                sent.failed += spans
                return
            rejected, problem = self._try(body)
        except _PassingError as error:
            self._is_gone = not error.is_answer
            sent.failed += spans
            self._note(str(error))
        except _FinalError as error:
            sent.failed += spans
            self._note(str(error))
        else:
            sent.rejected += min(rejected, spans)
            sent.spans += max(spans - rejected, 0)
            if rejected:
                self._note(f"spans rejected: {problem}")

    def _note(self, problem: str) -> None:
        """Keep the first problem."""
        if not self.sent.problem:
            self.sent.problem = problem[:_PROBLEM_LENGTH]

    def _try(self, body: bytes) -> tuple[int, str]:
        """Post until it was taken, and return how many spans of it were not, and why."""
        attempts = self._endpoint.attempts
        longest_delay_s = self._endpoint.longest_delay_s
        delay_s = self._endpoint.first_delay_s
        for attempt in range(1, attempts + 1):
            try:
                return self._post(body)
            except _PassingError as error:
                if attempt == attempts:
                    raise
                wait_s = error.after_s
                if wait_s is None:
                    jitter = random.uniform(0.5, 1.5)  # noqa: S311
                    wait_s = delay_s * jitter
                self._sleep(min(wait_s, longest_delay_s))
                delay_s *= 2
                self.sent.retries += 1
        raise AssertionError("at least one attempt")

    def _post(self, body: bytes) -> tuple[int, str]:
        headers = {
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": "hopline-export",
            **self._endpoint.headers,
        }
        path = self._url.path or "/"
        target = f"{path}?{self._url.query}" if self._url.query else path
        try:
            connection = self._connected()
            connection.request("POST", target, body, headers)
            response = connection.getresponse()
            answer = response.read(_ANSWER_LENGTH)
            if response.read(1):
                self._close()  # an answer of any length is not for us to read
        except ssl.SSLCertVerificationError as problem:
            self._close()
            raise _FinalError(f"{problem.verify_message}: the certificate of the server is not trusted") from None
        except (OSError, http.client.HTTPException) as problem:
            self._close()
            text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            raise _PassingError(f"no answer: {text}", is_answer=False) from None
        if 200 <= response.status < 300:
            return _partial_success(answer)
        problem_text = f"{response.status} {response.reason}: {_words(answer)}".rstrip(": ")
        if response.status in RETRYABLE:
            after_s = _retry_after(response.getheader("Retry-After"))
            raise _PassingError(problem_text, is_answer=True, after_s=after_s)
        raise _FinalError(problem_text)

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            is_encrypted = self._url.scheme == "https"
            kind = http.client.HTTPSConnection if is_encrypted else http.client.HTTPConnection
            self._connection = kind(
                self._url.hostname or "",
                self._url.port,
                timeout=self._endpoint.timeout_s,
            )
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _batches(lines: Iterator[tuple[str, int]], endpoint: Endpoint) -> Iterator[tuple[bytes, int]]:
    """Join lines into requests of a size that receivers take, and compress them."""
    contents: list[bytes] = []
    size = count = 0
    for line, spans in lines:
        inner = line.removeprefix(START).removesuffix(END)
        content = inner.encode()
        has_enough_spans = count + spans > endpoint.batch_spans
        has_enough_bytes = size + len(content) > endpoint.batch_bytes
        if contents and (has_enough_spans or has_enough_bytes):
            yield _request(contents), count
            contents = []
            size = count = 0
        contents.append(content)
        size += len(content)
        count += spans
    if contents:
        yield _request(contents), count


def _request(contents: list[bytes]) -> bytes:
    joined = b",".join(contents)
    json_text = START.encode() + joined + END.encode()
    return gzip.compress(json_text, compresslevel=1, mtime=0)


def _partial_success(answer: bytes) -> tuple[int, str]:
    """Return how many spans the server rejected, and why. An answer without that accepted all of them."""
    try:
        partial = json.loads(answer)["partialSuccess"]
        rejected = int(partial.get("rejectedSpans", 0))
        reason = str(partial.get("errorMessage", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0, ""
    return max(rejected, 0), reason


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that a server asks to wait for: a number, or a date."""
    if header is None:
        return None
    if header.isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        remaining_s = date.timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(remaining_s, 0.0)


def _words(answer: bytes) -> str:
    text = answer[:_PROBLEM_LENGTH].decode("utf-8", "backslashreplace")
    return " ".join(text.split())
