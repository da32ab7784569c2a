"""``hopline decode``, as people and scripts use it."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import hopline
from hopline import Message, WireFormat
from hopline.cli import app
from hopline.cli.commands.decode.inputs import InputError, find_messages
from hopline.wire import DEFAULT_LIMITS, encode, layouts

VECTORS = Path(__file__).parent.parent / "data" / "vectors"
HELLO = Message.create(b"HELLO", b"world").push_router_address("tcp://10.0.0.1:9000", b"node-a").add_hop()


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["decode", *arguments], input=stdin)


def bars(frames: list[bytes]) -> str:
    return "|".join(frame.hex() for frame in frames)


@pytest.mark.parametrize("wire_format", WireFormat)
def test_a_message_is_shown_from_the_end_with_names_values_and_meanings(wire_format: WireFormat) -> None:
    result = run("--hex", bars(encode(HELLO, wire_format)))
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert layouts.BY_FORMAT[wire_format].title in lines[0]
    assert lines[2].startswith("n-1")
    assert not any(line.endswith(" ") for line in lines)
    shown = {line[7:].split()[0]: line for line in lines[2:] if line[7:].split()}
    assert "'HELLO'" in shown["identity*"]
    assert "the kind of message" in shown["identity*"]
    assert "'tcp://10.0.0.1:9000'" in shown["routing[0].uri"]
    assert any("'world'" in line for line in lines)
    assert shown["hops"].split()[-10:] == ["1", "how", "often", "it", "was", "sent", "on", "to", "another", "node"]


def test_a_fault_is_pointed_at_below_what_is_good() -> None:
    frames = encode(HELLO, WireFormat.V5)
    frames[-3] = b"\x01\x02\x03"
    result = run("--hex", bars(frames))
    assert result.exit_code == 1
    lines = result.output.splitlines()
    at = lines.index("--> n-3  ttl_ticks  too_short")
    assert lines[at - 1].split()[0] == "body.count"
    assert lines[at + 1].strip() == "expected 8 bytes (i64)"
    assert lines[at + 2].strip() == "found    3 bytes 010203"
    assert "19 frames above it not read" in lines[at + 3]


def test_a_message_of_no_known_format_is_shown_raw() -> None:
    result = run("--hex", "aa||bbcc|dd")
    assert result.exit_code == 1
    assert "unknown format" in result.output
    assert "--> n-1" in result.output
    assert [line.split() for line in result.output.splitlines()[-3:]] == [
        ["n-2", "bbcc"],
        ["n-3", "empty"],
        ["n-4", "aa"],
    ]


def test_unknown_frames_and_the_envelope_are_named() -> None:
    frames = encode(HELLO, WireFormat.V6)
    result = run("--hex", bars([b"peer", *frames]))
    assert sum("what the sockets put in front" in line for line in result.output.splitlines()) == 3
    frames[-1] = frames[-1][:-8] + b"\x03\x00\x01\x00" + bytes(4)
    result = run("--hex", bars([*frames[:-1], b"new", frames[-1]]))
    assert "a frame that no table knows, skipped" in result.output


def test_whatever_a_peer_put_into_a_text_reaches_the_terminal_escaped() -> None:
    nasty = Message(b"\x1b[31mRED", domain="\x1b]0;title\x07[bold]", bodies=(b"\xff\x00" * 50,))
    result = run("--hex", bars(encode(nasty, WireFormat.V5)))
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\\x1b]0;title\\x07[bold]" in result.output
    assert "100 bytes" in result.output
    summary = run("--summary", "--hex", bars(encode(nasty, WireFormat.V5)))
    assert "\x1b" not in summary.output
    assert "RED" in summary.output


def test_frames_may_stand_one_on_a_line_and_messages_apart(tmp_path: Path) -> None:
    one = "\n".join(frame.hex() or "-" for frame in encode(HELLO, WireFormat.V5))
    other = "\n".join("0x" + frame.hex(":") if frame else "" for frame in encode(HELLO, WireFormat.FIRST))
    path = tmp_path / "messages.hex"
    path.write_text(f"# two messages\n{one}\n---\n{other}\n---\n", encoding="utf-8")
    result = run(str(path), "--summary")
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.output.splitlines()] == ["V5", "FIRST"]


def test_messages_of_both_kinds_of_lines_keep_their_order() -> None:
    bar_line = bars(encode(HELLO, WireFormat.V6))
    one_a_line = "\n".join(frame.hex() or "-" for frame in encode(HELLO, WireFormat.V5))
    result = run("-s", stdin=f"\ufeff{one_a_line}\n{bar_line}  # a comment\n{one_a_line}\n\n\n---\n{bar_line}")
    assert [line.split()[2] for line in result.output.splitlines()] == ["V5", "V6", "V5", "V6"]
    assert result.exit_code == 0


def test_hex_may_be_written_as_people_write_it() -> None:
    frames = encode(HELLO, WireFormat.V6)
    text = "|".join(" ".join(f"0X{byte:02X}" for byte in frame) for frame in frames)
    assert "HELLO/1" in run("-s", "--hex", text).output


def test_the_json_that_was_written_can_be_read() -> None:
    written = run(str(VECTORS / "v5.json"), "--json", "--limit", "3").output
    again = run("--json", stdin=written).output
    assert [json.loads(line)["frames"] for line in again.splitlines()] == [
        json.loads(line)["frames"] for line in written.splitlines()
    ]


def test_a_file_and_hex_or_two_kinds_of_output_exclude_each_other() -> None:
    assert "not both" in run("a.hex", "--hex", "00|00").stderr
    assert "not both" in run("-s", "--json", "--hex", "00|00").stderr


def test_labels_are_escaped_too() -> None:
    document = {"cases": [{"name": "\x1b[31mEVIL\n", "frames": ["00", "00"]}]}
    for arguments in (["-s"], []):
        result = run(*arguments, stdin=json.dumps(document))
        assert "\x1b" not in result.output
        assert "\\x1b[31mEVIL\\n" in result.output


def test_standard_input_is_read_by_default() -> None:
    assert "HELLO/1" in run("--summary", stdin=bars(encode(HELLO, WireFormat.V6)) + "\n").output
    assert "HELLO/1" in run("-", "-s", stdin=bars(encode(HELLO, WireFormat.V6)) + "\n").output


@pytest.mark.parametrize("name", ["first", "v4", "v5", "v6", "signatures", "live", "live2"])
def test_vectors_files_are_read_with_their_labels(name: str) -> None:
    result = run(str(VECTORS / f"{name}.json"), "--summary")
    lines = result.output.splitlines()
    assert len(lines) > 50
    assert all(line.startswith(f"{name}/") for line in lines)
    assert result.exit_code == (0 if name in ("signatures", "live", "live2") else 1)


def test_one_case_of_a_vectors_file_can_be_picked_and_the_number_limited() -> None:
    picked = run(str(VECTORS / "v5.json"), "--only", "callbacks_2_routing_3", "-s")
    assert "routers 3, callbacks 2" in picked.output.splitlines()[0]
    assert len(run(str(VECTORS / "v5.json"), "--limit", "3", "-s").output.splitlines()) == 3


def test_the_unit_of_the_first_formats_lifetime_can_be_said() -> None:
    arguments = (str(VECTORS / "first.json"), "--only", "ttl_1_s")
    assert "10000 s (100000000000 ticks)" in run(*arguments).output
    assert "1 s (10000000 ticks)" in run(*arguments, "--first-ttl", "ticks").output


def capture(path: Path, messages: list[list[bytes] | None], **columns: list[object]) -> None:
    table = pa.table({**columns, "frames": pa.array(messages, pa.list_(pa.binary()))})
    pq.write_table(table, path)


def test_captures_are_read_file_by_file_and_row_by_row(tmp_path: Path) -> None:
    day = tmp_path / "date=2026-01-01"
    day.mkdir()
    both = [encode(HELLO, WireFormat.V5), encode(HELLO, WireFormat.V6)]
    capture(day / "b.PARQUET", [*both], seq=[1, 2], event=["sent", None])
    capture(day / "a.parquet", [both[0], None])
    result = run(str(tmp_path), "--summary")
    lines = result.output.splitlines()
    places = ["a.parquet:1", "a.parquet:2", "b.PARQUET:1", "b.PARQUET:2"]
    assert [line.split()[0] for line in lines] == [f"date=2026-01-01/{place}" for place in places]
    assert lines[2].startswith("date=2026-01-01/b.PARQUET:1 1 sent  V5  HELLO/1")
    assert "too_few_frames" in lines[1]
    assert result.exit_code == 1


def test_json_has_everything_that_the_dump_shows() -> None:
    frames = encode(HELLO.clone(callback_point=(HELLO.identifier,)), WireFormat.V5)
    result = run("--json", "--hex", bars(frames))
    document = json.loads(result.output)
    assert (document["wire_format"], document["layout"], document["fault"]) == ("v5", "V5", None)
    assert document["frames"] == [frame.hex() for frame in frames]
    assert document["message"]["routing"] == [{"uri": "tcp://10.0.0.1:9000", "identity": b"node-a".hex()}]
    assert document["message"]["callback_point"][0]["identity"] == b"HELLO".hex()
    assert bytes.fromhex(document["message"]["bodies"][0]) == b"world"
    identity = next(reading for reading in document["readings"] if reading["name"] == "identity")
    assert (identity["position"], identity["selector"], identity["value"]) == (6, True, b"HELLO".hex())


def test_json_of_a_malformed_message_carries_the_fault() -> None:
    result = run("--json", "--hex", "aa|bbcc|dd")
    assert result.exit_code == 1
    document = json.loads(result.output)
    assert document["message"] is None
    assert document["layout"] is None
    assert document["fault"]["reason"] == "unknown_format"
    assert (document["fault"]["position"], document["fault"]["found"]) == (1, "dd")


def bad_files(folder: Path) -> dict[str, str]:
    (folder / "odd.hex").write_text("00|0g|11\n", encoding="utf-8")
    (folder / "long.hex").write_text("zz" * 100, encoding="utf-8")
    (folder / "broken.json").write_text('{"frames": [', encoding="utf-8")
    (folder / "numbers.json").write_text('{"frames": [1]}', encoding="utf-8")
    (folder / "bad.json").write_text('{"frames": ["0g"]}', encoding="utf-8")
    lie = {"zlib_b64": base64.b64encode(zlib.compress(b"abcdefg")).decode(), "sha256": "00", "len": 7}
    (folder / "lie.json").write_text(json.dumps({"frames": [lie]}), encoding="utf-8")
    (folder / "cut.json").write_text(json.dumps({"frames": [{**lie, "zlib_b64": "eJxL"}]}), encoding="utf-8")
    (folder / "empty.json").write_text("{}", encoding="utf-8")
    (folder / "binary.hex").write_bytes(b"\xff\xfe\x00")
    (folder / "broken.parquet").write_bytes(b"PAR1 but no more")
    pq.write_table(pa.table({"a": [1], "b": [2]}), folder / "foreign.parquet")
    (folder / "nothing").mkdir()
    (folder / "folder.parquet").mkdir()
    pq.write_table(pa.table({"frames": [[1]]}), folder / "integers.parquet")
    pq.write_table(pa.table({"frames": [b"x"]}), folder / "flat.parquet")
    (folder / "odd_digits.hex").write_text("00|050|11\n", encoding="utf-8")
    (folder / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    (folder / "number.json").write_text('{"frames": 5}', encoding="utf-8")
    return {
        "missing.hex": "No such file",
        "odd.hex": "odd.hex:1, frame 2: not hex: '0g'",
        "odd_digits.hex": "odd_digits.hex:1, frame 2: an odd number of hex digits: '050'",
        "integers.parquet": "its column frames is list<",
        "flat.parquet": "its column frames is binary, expected a list of binary",
        "folder.parquet": "no .parquet files in it",
        "number.json": "no messages in it",
        "deep.json": "nested too deeply",
        "|".join(["00"] * 200): "to decode a message itself, use --hex",
        "long.hex": "zzz...'",
        "broken.json": "broken.json:1: not JSON",
        "numbers.json": "numbers: frame 0: neither hex nor compressed bytes",
        "bad.json": "neither hex nor compressed bytes",
        "lie.json": "do not have the hash",
        "cut.json": "neither hex nor compressed bytes",
        "empty.json": "no messages in it",
        "binary.hex": "neither text nor a .parquet file",
        "broken.parquet": "not a readable Parquet file",
        "foreign.parquet": "is no capture: it has no column frames, but a, b",
        "nothing": "no .parquet files in it",
    }


def test_unusable_input_gets_one_clear_error(tmp_path: Path) -> None:
    for name, complaint in bad_files(tmp_path).items():
        result = run(name if "|" in name else str(tmp_path / name))
        assert result.exit_code == 2, name
        assert complaint in result.stderr, name
        assert len(result.stderr.splitlines()) == 1, name


def packed(content: bytes) -> dict[str, str]:
    return {
        "zlib_b64": base64.b64encode(zlib.compress(content)).decode(),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_no_more_is_unpacked_than_a_message_may_have(tmp_path: Path) -> None:
    """Few bytes that become many: of a frame, of all frames of a message, and of a capture."""
    frame = packed(bytes(DEFAULT_LIMITS.frame_size + 1))
    largest = packed(bytes(DEFAULT_LIMITS.frame_size))
    (tmp_path / "frame.json").write_text(json.dumps({"frames": [frame]}), encoding="utf-8")
    (tmp_path / "message.json").write_text(json.dumps({"frames": [largest] * 3}), encoding="utf-8")
    for name, problem in (("frame", "bytes of a frame"), ("message", "bytes of a message")):
        result = run(str(tmp_path / f"{name}.json"))
        assert (result.exit_code, result.stdout) == (2, ""), name
        assert problem in result.stderr


def test_a_capture_is_unpacked_a_little_at_a_time(tmp_path: Path) -> None:
    """A thousand rows of one large frame are a small file; one after the other they need little memory too."""
    frames = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, pa.int32()), pa.array([bytes(16 * 1024 * 1024)]))
    lists = pa.ListArray.from_arrays(pa.array(range(1_001), pa.int32()), frames)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"frames": lists}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 100_000
    done = shell(f"ulimit -v {6 * 1024 * 1024}; hopline decode {path} --summary --limit 3")
    assert done.returncode == 1, done.stderr
    assert len(done.stdout.splitlines()) == 3


def test_a_capture_that_says_that_it_is_huge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopline.cli.commands.decode.inputs._LARGEST_GROUP", 1_000)
    pq.write_table(pa.table({"frames": [[bytes(2_000)]]}), tmp_path / "huge.parquet")
    result = run(str(tmp_path / "huge.parquet"))
    assert result.exit_code == 2
    assert "bytes, more than 1,000" in result.stderr


def test_a_label_that_matches_nothing_is_said() -> None:
    result = run(str(VECTORS / "v5.json"), "--only", "nonesuch")
    assert result.exit_code == 2
    assert "no message whose label contains 'nonesuch'" in result.stderr


def test_what_was_good_before_bad_input_has_been_shown(tmp_path: Path) -> None:
    path = tmp_path / "half.hex"
    path.write_text(bars(encode(HELLO, WireFormat.V5)) + "\n00|xx\n", encoding="utf-8")
    result = run(str(path), "--summary")
    assert result.exit_code == 2
    assert "HELLO/1" in result.stdout
    assert "half.hex:2, frame 2: not hex" in result.stderr


def test_without_pyarrow_captures_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = run(str(path))
    assert result.exit_code == 2
    assert "reading captures needs pyarrow: pip install 'hopline[capture]'" in result.stderr


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pyarrow.fs.FileSelector", refuse)
    result = run(str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr == f"hopline decode: {str(tmp_path)[:60]}: Permission denied\n"


def test_a_closed_standard_input_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        list(find_messages("-"))


def test_the_help_teaches() -> None:
    text = run("--help").output
    for wanted in ("Examples", "Hex lines", "Exit code", "--json", "--only", "--first-ttl"):
        assert wanted in text


def installed(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("hopline")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_the_installed_command_runs_and_colours_only_terminals() -> None:
    message = bars(encode(HELLO, WireFormat.V5))
    plain = installed("decode", "--hex", message)
    assert plain.returncode == 0
    assert "\x1b" not in plain.stdout
    assert installed("--version").stdout.strip() == f"hopline {hopline.__version__}"
    assert "Usage" in installed().stdout + installed().stderr


def shell(command: str) -> subprocess.CompletedProcess[str]:
    hopline_command = str(Path(sys.executable).with_name("hopline"))
    script = f"set -o pipefail; {command.replace('hopline', hopline_command)}"
    return subprocess.run(["bash", "-c", script], cwd=VECTORS, capture_output=True, text=True, check=False)


def test_a_closed_pipe_is_no_drama() -> None:
    done = shell("hopline decode v4.json | head -n 1")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_a_full_disk_is_said() -> None:
    done = shell("hopline decode v5.json > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "hopline decode: cannot write: No space left on device\n"


def test_bytes_that_are_no_text_are_said_wherever_they_come_from() -> None:
    done = shell("printf '\\xff' | PYTHONIOENCODING=utf-8:strict hopline decode")
    assert done.returncode == 2
    assert "standard input: neither text nor a .parquet file" in done.stderr


def test_an_output_without_the_letters_gets_escapes() -> None:
    done = shell("PYTHONIOENCODING=ascii hopline decode v5.json --only domain_non_ascii --limit 1")
    assert done.returncode == 0
    assert "\\u" in done.stdout


def test_the_module_runs_too() -> None:
    done = subprocess.run([sys.executable, "-m", "hopline", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hopline {hopline.__version__}\n"
