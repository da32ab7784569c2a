"""A stream that is killed again and again while segments arrive comes to the tables of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from hopline.generator import Options, generate
from tests.pipeline.stream.comparing import differences

pytestmark = pytest.mark.jvm
HOPLINE = [sys.executable, "-m", "hopline", "pipeline"]
RECORDS_IN_SEGMENT = 250
TIMEOUT_S = 300.0
STARTED, BATCH_DONE = b"following", b" new segment"


def made(folder: Path, records: int) -> list[Path]:
    """Generate records, and return segments with a few of them each, those of a node in order, of all nodes in turn."""
    generate(folder / "generated", Options(messages=records, seed=5))
    (folder / "segments").mkdir()
    segments = []
    for node, path in enumerate(sorted((folder / "generated" / "captures").rglob("*.parquet"))):
        table = pq.read_table(path)
        for number, start in enumerate(range(0, len(table), RECORDS_IN_SEGMENT)):
            segment = folder / "segments" / f"{number:04}-{node}.parquet"
            pq.write_table(table.slice(start, RECORDS_IN_SEGMENT), segment)
            segments.append(segment)
    return sorted(segments)


@contextmanager
def arriving(segments: list[Path], captures: Path, period_s: float) -> Iterator[None]:
    """Have segments appear one after the other; those that are left appear at once at the end."""
    captures.mkdir()
    left = iter(segments)
    ended = threading.Event()

    def arrive() -> None:
        for segment in left:
            segment.rename(captures / segment.name)
            if ended.wait(period_s):
                return

    thread = threading.Thread(target=arrive)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for segment in left:
            segment.rename(captures / segment.name)


def killed(arguments: list[str], log: Path, random: Random, most_s: float) -> str:
    """Start a stream, kill it some time after it has begun, or has done a batch or two, and return what it was about.

    Half of the time Spark is killed with it; otherwise it finds out by itself that it is left alone.
    """
    with log.open("ab") as output:
        began = output.tell()
        process = subprocess.Popen([*HOPLINE, *arguments], stdout=output, stderr=output, start_new_session=True)
        try:
            wait_for_text(STARTED, 1, process, log, began)
            wait_for_text(BATCH_DONE, random.choice([0, 0, 1, 2]), process, log, began)
            time.sleep(random.uniform(0, most_s))
            assert process.poll() is None, log.read_text()
            is_writing = (Path(arguments[3]) / "_stream/staged").exists()
            process.kill()
            if random.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "a batch that was writing" if is_writing else "something else"
        finally:
            wait_for_end_of_group(process.pid)


def wait_for_text(text: bytes, times: int, process: subprocess.Popen[bytes], log: Path, began: int) -> None:
    """Wait until a process has written a text so many times behind where it began."""
    deadline = time.monotonic() + TIMEOUT_S
    while log.read_bytes()[began:].count(text) < times:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def wait_for_end_of_group(group: int) -> None:
    """Wait until Spark has ended, too; kill it if it takes long."""
    deadline = time.monotonic() + TIMEOUT_S
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.1)
        os.killpg(group, signal.SIGKILL)


def finish(arguments: list[str]) -> str:
    done = subprocess.run([*HOPLINE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_kills(folder: Path, kills: int, records: int, most_s: float) -> None:
    segments = made(folder, records)
    captures, tables = folder / "captures", folder / "tables"
    keys = ["--keys", str(folder / "generated/keys/hopline.toml"), "--memory", "1g"]
    stream = ["stream", str(captures), "--out", str(tables), *keys]
    random = Random(7)
    with arriving(segments, captures, period_s=kills * most_s * 3 / len(segments)):
        for number in range(kills):
            met = killed([*stream, "--trigger", "0.5", "--idle", "86400"], folder / "log", random, most_s)
            there = len(list(captures.iterdir()))
            done = max((path.parent.name for path in tables.glob("_stream/state/*/state.json")), default="none")
            show(f"kill {number + 1} met {met}; {there} of {len(segments)} segments there, last whole batch: {done}")
    show(finish([*stream, "--available-now"]))
    show(finish(["run", str(captures), "--out", str(folder / "whole"), *keys]))
    last = finish([*stream, "--available-now", "--final"])
    show(last)
    assert "0 open; 0 records late" in " ".join(last.split())  # wherever the lines are wrapped
    assert differences(tables, folder / "whole") == {}


def show(text: str) -> None:
    """Show how it goes, with ``pytest -s``."""
    sys.stdout.write(f"{time.strftime('%X')}  {text}\n")
    sys.stdout.flush()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_stream_that_is_killed_twenty_times_under_load_comes_to_the_tables_of_a_run(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=20, records=100_000, most_s=10.0)
