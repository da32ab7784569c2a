"""Where `hopline decode` finds messages: hex lines, vectors files, captures."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STANDARD_INPUT = "-"
CAPTURE_SUFFIX = ".parquet"
BETWEEN_FRAMES = "|"
BETWEEN_MESSAGES = "---"
EMPTY_FRAME = "-"

_BATCH_ROWS = 1_024
_SPACES_IN_HEX = re.compile(r"[\s:_]")


class SourceError(Exception):
    """The input cannot be used; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Found:
    """One message, and where it was."""

    label: str
    frames: list[bytes]


def find_messages(source: str) -> Iterator[Found]:
    """Give every message of a file, a folder of captures, or standard input."""
    if source == STANDARD_INPUT:
        yield from read_text(sys.stdin.read(), "standard input")
        return
    path = Path(source)
    if not path.exists():
        raise SourceError(f"{source}: no such file; give '{STANDARD_INPUT}' to read standard input")
    if path.is_dir():
        yield from read_folder(path)
    elif path.suffix == CAPTURE_SUFFIX:
        yield from read_capture(path)
    else:
        yield from read_text(_text_of(path), source)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path}: neither text nor a {CAPTURE_SUFFIX} file (byte {error.start} is no UTF-8)"
        ) from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def read_text(text: str, name: str) -> Iterator[Found]:
    """Give the messages of a text: a vectors file if it is JSON, else hex."""
    return read_vectors(text, name) if text.lstrip().startswith(("{", "[")) else read_hex(text, name)


# -- hex lines -------------------------------------------------------------------------------------------------------


def read_hex(text: str, name: str) -> Iterator[Found]:
    """Give the messages of hex lines.

    A line with ``|`` is a whole message, with a bar between frames. Otherwise each line is a frame, an empty line or a
    lone ``-`` is an empty frame, and ``---`` stands between messages. Lines that start with ``#`` are skipped.
    """
    frames: list[bytes] = []
    started = 1
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if content.startswith("#"):
            continue
        if BETWEEN_FRAMES in content:
            parts = content.split(BETWEEN_FRAMES)
            yield Found(f"{name}:{number}", [_frame(part, name, number) for part in parts])
        elif content == BETWEEN_MESSAGES:
            if frames:
                yield Found(f"{name}:{started}", frames)
            frames, started = [], number + 1
        else:
            frames.append(_frame(content, name, number))
    if any(frames):
        yield Found(f"{name}:{started}", frames)


def _frame(text: str, name: str, line: int) -> bytes:
    digits = _SPACES_IN_HEX.sub("", text).removeprefix("0x")
    if digits == EMPTY_FRAME:
        return b""
    try:
        return bytes.fromhex(digits)
    except ValueError:
        shown = digits if len(digits) <= 40 else digits[:37] + "..."
        raise SourceError(f"{name}:{line}: not hex: {shown!r}") from None


# -- vectors files ---------------------------------------------------------------------------------------------------


def read_vectors(text: str, name: str) -> Iterator[Found]:
    """Give the messages of a JSON file: whatever stands in a list under a key that starts with ``frames``."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"{name}:{error.lineno}: not JSON: {error.msg}") from None
    yield from _walk(document, Path(name).stem, name)


def _walk(node: Any, label: str, name: str) -> Iterator[Found]:
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from _walk(item, f"{label}/{_title(item, number)}", name)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key.startswith("frames") and isinstance(value, list):
                suffix = key.removeprefix("frames")
                yield Found(label + suffix, [vector_bytes(frame, f"{name}: {label}") for frame in value])
            elif isinstance(value, list | dict):
                yield from _walk(value, label if key in ("cases", "variants") else f"{label}/{key}", name)


def _title(item: Any, number: int) -> str:
    if isinstance(item, dict):
        named = [str(item[key]) for key in ("name", "variant", "wire", "node", "dir", "identity") if key in item]
        if named:
            return " ".join(named)
    return str(number)


def vector_bytes(raw: Any, place: str) -> bytes:
    """Read bytes as vectors files write them: hex, or compressed when long; a null reference is nothing."""
    try:
        if raw is None:
            return b""
        if isinstance(raw, str):
            return bytes.fromhex(raw)
        content = zlib.decompress(base64.b64decode(raw["zlib_b64"]))
        intact = hashlib.sha256(content).hexdigest() == raw["sha256"]
    except (ValueError, TypeError, KeyError, binascii.Error, zlib.error) as error:
        raise SourceError(f"{place}: not a frame: {error}") from None
    if not intact:
        raise SourceError(f"{place}: a frame's bytes do not have the hash that stands beside them")
    return content


# -- captures --------------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> Iterator[Found]:
    """Give the messages of every capture segment below a folder, in the order of their names."""
    segments = sorted(path for path in folder.rglob(f"*{CAPTURE_SUFFIX}") if path.is_file())
    if not segments:
        raise SourceError(f"{folder}: no {CAPTURE_SUFFIX} files in it")
    for segment in segments:
        yield from read_capture(segment)


def read_capture(path: Path) -> Iterator[Found]:
    """Give the messages of one capture segment; only its column ``frames`` is needed."""
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError:
        raise SourceError(f"{path}: reading captures needs pyarrow: pip install 'hopline[spark]'") from None
    row = 0
    try:
        with parquet.ParquetFile(path) as segment:
            columns = segment.schema_arrow.names
            if "frames" not in columns:
                raise SourceError(f"{path}: no column 'frames' in it, only {', '.join(columns)}")
            wanted = [column for column in ("seq", "event", "frames") if column in columns]
            for batch in segment.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                for record in batch.to_pylist():
                    row += 1
                    said = " ".join(str(record[column]) for column in wanted[:-1] if record[column] is not None)
                    yield Found(f"{path.name}:{row} {said}".rstrip(), record["frames"] or [])
    except ArrowException as error:
        raise SourceError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None
