from __future__ import annotations

import pytest

from hopline.pipeline.failures import BadCapturesError, BadFile, spark_failure

# As Spark says it, with the stack that nobody wants to read cut short.
NO_ROOM = """An error occurred while calling o91.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 7.0 failed 1 times
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/tables.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:800)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)"""
DAMAGED = """[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///captures/date=2026-01-31/a-1.parquet.
SQLSTATE: KD001
Caused by: java.io.IOException: can not read class org.apache.parquet.format.PageHeader: don't know what type: 15"""

PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "worker.py", line 2013, in main
    process()
  File "decoder.py", line 72, in decode
    spill(rows)
OSError: [Errno 28] No space left on device"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (NO_ROOM, "flows: disk full: .*spark.local.dir=FOLDER.* \\(IOException: No space left on device\\)$"),
        (
            DAMAGED,
            "^/captures/date=2026-01-31/a-1.parquet: a segment is damaged inside",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "not enough memory: .*--memory 6g"),
        ("ExecutorLostFailure (executor 1 exited): Command exited with code 137", "not enough memory"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "Java 17 or newer"),
        ("All masters are unresponsive! Giving up.", "Spark's master does not answer: check --master"),
        ("<_InactiveRpcError: StatusCode.UNAVAILABLE: failed to connect to all addresses>", "check --remote"),
        ("java.io.IOException: Mkdirs failed: Permission denied", "permission denied: "),
        ("Job 3 cancelled because SparkContext was shut down", "Spark was stopped while it worked"),
        (PYTHON, "^flows: disk full: .* \\(OSError: \\[Errno 28\\] No space left on device\\)$"),
        ("something\nnew", "^flows: Spark failed \\(something\\)$"),
    ],
)
def test_what_spark_says_becomes_one_line_with_the_cause_and_the_way_out(said: str, told: str) -> None:
    failure = spark_failure("flows", RuntimeError(said))
    assert "\n" not in str(failure)
    with pytest.raises(type(failure), match=told):
        raise failure


def test_a_long_cause_is_cut() -> None:
    assert len(str(spark_failure("flows", RuntimeError("x" * 9999)))) < 400


def test_one_bad_file_is_said_in_one_line() -> None:
    assert str(BadCapturesError([BadFile("a.parquet", "is empty")])) == "a.parquet: is empty"
