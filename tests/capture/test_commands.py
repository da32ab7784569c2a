"""Captures from the command line: a node in a process of its own, switched, killed, recovered and replayed."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from hopline.capture.segment_files import journals_in, segments_in
from hopline.cli import app
from tests.cli.commands import Command, prepare
from tests.network.processes import until

from .reading import events_of, message_of, rows_of

GREETINGS = 3


class Recorded(NamedTuple):
    folder: Path
    directory: Path
    records: int  # that the node had written when it was last asked


def run(folder: Path, *arguments: str) -> Result:
    """Run a command in this process, where a folder has a configuration."""
    level = logging.getLogger("hopline").level
    try:
        return CliRunner().invoke(app, arguments, env={"HOPLINE_CONFIG": str(folder / "hopline.toml")})
    finally:
        logging.getLogger("hopline").setLevel(level)  # a command says in one line what matters, and silences the rest


def document_of(folder: Path, *arguments: str) -> Any:
    done = run(folder, *arguments, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def greet(folder: Path, name: str) -> int:
    return run(folder, "send", "Greet", json.dumps({"name": name}), "--callback", "Greeting").exit_code


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Let a node record, switched by commands; kill it; and leave another one running that can answer."""
    folder = tmp_path_factory.mktemp("capture")
    prepare(folder)
    directory = folder / "captures"
    node_command = ["node", "--app", "greeter:Greeter", "--embedded"]
    with Command(folder, *node_command, "--capture", "captures", "--capture-level", "off") as node:
        identity = node.line("is ready").split()[2]
        assert node.line("  capture ").split()[1:] == ["off,", "in", "captures"]
        assert greet(folder, "unseen") == 0
        started = run(folder, "capture", "start", identity[:8], "--level", "full")
        assert (started.exit_code, started.stderr) == (0, "")
        assert identity in started.stdout
        for _ in range(GREETINGS):
            assert greet(folder, "world") == 0
        assert greet(folder, "nobody") == 1
        stopped = document_of(folder, "capture", "stop", "--all")
        assert stopped["nodes"][0]["level"] == "off"
        until(lambda: segments_in(directory), what="the segment")
        assert greet(folder, "unseen") == 0
        document_of(folder, "capture", "start", "--all")
        assert greet(folder, "killed") == 0

        def written() -> int:
            (one,) = document_of(folder, "capture", "status")["nodes"]
            return int(one["records"])

        before = written()
        until(lambda: written() > before, what="the flush")
        records = written()
        assert node.stop(signal.SIGKILL) == -signal.SIGKILL
    with Command(folder, *node_command) as other:
        other.line("is ready")
        yield Recorded(folder, directory, records)
        assert other.stop() == 0


def test_a_killed_node_loses_at_most_what_was_not_flushed(recorded: Recorded) -> None:
    directory = str(recorded.directory)
    (left,) = journals_in(recorded.directory)
    listed = document_of(recorded.folder, "capture", "list", directory)
    assert [(one["is_open"], one["is_left"], one["records"] > 0) for one in listed] == [
        (False, False, True),
        (True, True, False),
    ]
    with left.open("ab") as file:
        file.write(b"half a batch")
    (found,) = document_of(recorded.folder, "capture", "recover", directory)
    assert (found["fate"], found["unread_bytes"]) == ("recovered", 12)
    rows = rows_of(recorded.directory)
    assert len(rows) >= recorded.records
    assert run(recorded.folder, "capture", "recover", directory).stdout == f"nothing to recover in {directory}\n"
    bodies = [message_of(row).body for row in rows]
    assert not any(b"unseen" in body for body in bodies)
    assert any(b"killed" in body for body in bodies)
    failed = [row for row in rows if b"nobody" in message_of(row).body]
    assert events_of(failed, b"Greet") == ["received", "delivered", "handled"]


def test_the_requests_of_a_recording_are_sent_again_and_answered(recorded: Recorded) -> None:
    directory = str(recorded.directory)
    plan = document_of(recorded.folder, "replay", directory, "--dry-run", "--limit", "3")
    assert plan["kinds"] == {"Greet/1": 3}
    done = run(recorded.folder, "replay", directory, "--speed", "max", "--limit", "3")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "sent 3 of 3 requests" in done.stdout
    assert "3 answered: p50" in done.stdout
    every = run(recorded.folder, "replay", directory, "--speed", "100", "--json")
    assert every.exit_code == 1  # one is not answered again, as it was not before
    result = json.loads(every.stdout)
    assert (result["sent"], result["failed"]) == (result["requests"], 1)
    assert result["errors"] == {"ActorError: ValueError: there is nobody to greet": 1}
    assert set(result["latency_ms"]) == {"p50", "p95", "p99", "max"}


def test_ctrl_c_ends_a_replay_and_tells_how_far_it_came(recorded: Recorded) -> None:
    with Command(recorded.folder, "replay", "captures", "--speed", "0.001") as replay:
        replay.line("replaying")
        assert replay.stop(signal.SIGINT) == 130
        assert "requests in" in replay.line("sent 1 of")
        assert not any("Traceback" in line for line in replay.lines)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["capture", "start"], 2, "name the nodes, or use --all"),
        (["capture", "recover", "nowhere"], 2, "nowhere: no such file or folder"),
        (["capture", "recover", "broken.parquet"], 2, "is not a directory"),
        (["capture", "show", "nowhere"], 2, "nowhere: no such file or folder"),
        (["capture", "show", "broken.parquet"], 2, "broken.parquet cannot be read"),
        (
            ["capture", "show", "foreign.parquet"],
            2,
            "foreign.parquet is not a segment of a capture: it has no column ts, but x",
        ),
        (["capture", "list", "broken.parquet"], 1, ""),
        (["replay", "nowhere"], 2, "nowhere: no such file or folder"),
        (["replay", "broken.parquet"], 2, "expected a segment that can be read"),
        (["replay", "empty"], 2, "there are no segments in empty"),
        (["replay", "empty", "--speed", "0"], 2, "--speed: expected a number above zero, or max"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(
    arguments: list[str], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.parquet").write_bytes(b"PAR1 and no more")
    pq.write_table(pa.table({"x": [1]}), "foreign.parquet")
    Path("empty").mkdir()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 1


def test_a_recording_without_such_requests_says_so(recorded: Recorded) -> None:
    done = run(recorded.folder, "replay", str(recorded.directory), "--only", "Nothing")
    assert done.exit_code == 2
    assert "there is no request in these captures" in done.stderr
    done = run(recorded.folder, "capture", "start", "nosuchnode")
    assert done.exit_code == 2
    assert "no node 'nosuchnode' is known" in done.stderr


def test_records_are_shown_one_a_line_or_as_json(recorded: Recorded) -> None:
    directory = str(recorded.directory)
    shown = run(recorded.folder, "capture", "show", directory, "--limit", "4", "--event", "delivered")
    assert shown.exit_code == 0
    assert shown.stdout.count(" delivered ") == 4
    lines = run(recorded.folder, "capture", "show", directory, "--limit", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]
    assert all(isinstance(bytes.fromhex(frame), bytes) for frame in json.loads(lines[0])["frames"])
    numbered = run(recorded.folder, "capture", "show", directory, "--seq", "4", "--seq", "2", "--json")
    assert {json.loads(line)["seq"] for line in numbered.stdout.splitlines()} == {2, 4}
    nothing = run(recorded.folder, "capture", "show", directory, "--event", "overflow")
    assert (nothing.exit_code, nothing.stdout) == (0, f"there are no such records in {directory}\n")
