"""``hopline pipeline stream`` and ``hopline pipeline late``, as people start them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hopline.message import ArgumentError
from hopline.pipeline.stream.options import StreamOptions
from tests.pipeline.captures import NOON, crossing, write_day

pytestmark = pytest.mark.jvm
HOPLINE = [sys.executable, "-m", "hopline"]


def hopline(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOPLINE, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.timeout(900)
def test_a_stream_goes_on_where_it_was_after_a_kill_too_and_ends_with_all_flows_closed(
    tmp_path: Path,
) -> None:
    captures, tables = tmp_path / "captures", tmp_path / "tables"
    write_day(captures, [one for number in range(3) for one in crossing(number, NOON)])
    stream = ("pipeline", "stream", captures, "--out", tables, "--memory", "1g")
    first = hopline(*stream, "--available-now")
    assert first.returncode == 0, first.stderr
    assert "batch 0: 1 new segment" in first.stdout
    assert "6 records = 6 messages + 0 rejects; 0 flows closed, 3 open" in first.stdout
    write_day(captures, [one for number in range(3, 5) for one in crossing(number, NOON)], "a-1-2.parquet")
    follow = [*HOPLINE, *map(str, stream), "--trigger", "1"]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert any("following" in line for line in killed.stdout)
        deadline = time.monotonic() + 120
        while not (tables / "_stream/staged").exists():  # a batch is writing
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    with subprocess.Popen([*follow, "--final"], stdout=subprocess.PIPE, text=True) as last:
        assert last.stdout is not None
        assert any("following" in line for line in last.stdout)
        last.send_signal(signal.SIGTERM)
        told = last.stdout.read()
    assert last.returncode == 0
    assert "10 records = 10 messages + 0 rejects; 5 flows closed, 0 open; 0 records late" in told
    late = hopline("pipeline", "late", tables)
    assert (late.returncode, late.stdout) == (0, "No record came too late.\n")
    found = hopline("tables", tables, "--sql", "select count(*) as flows from flows", "--json")
    assert json.loads(found.stdout) == {"flows": 5}


def test_captures_that_are_not_there_are_named(tmp_path: Path) -> None:
    done = hopline("pipeline", "stream", tmp_path / "nowhere", "--out", tmp_path / "tables", "--available-now")
    assert done.returncode == 3
    assert "nowhere: no such folder, and no pattern that matches one" in done.stderr


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"captures": ()}, "captures"),
        ({"out": ""}, "out"),
        ({"out": "captures/tables"}, "out"),
        ({"window_s": 7}, "window"),
        ({"memory": "much"}, "memory"),
        ({"trigger_s": 0.0}, "trigger"),
        ({"gap_s": -1.0}, "gap"),
        ({"idle_s": 0.0}, "idle"),
        ({"max_files": 0}, "max files"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        StreamOptions(**({"captures": ("captures",), "out": "tables"} | options))  # type: ignore[arg-type]
    assert caught.value.field == field
