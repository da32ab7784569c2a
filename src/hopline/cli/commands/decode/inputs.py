"""The inputs of `hopline decode`: hex lines, vectors files, captures.

Messages are yielded as they are read. Compressed input is expanded only up to the limits of a message, so that a small
file cannot fill the memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import string
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from hopline.cli.errors import UsageError
from hopline.wire import DEFAULT_LIMITS

STANDARD_INPUT = "-"
CAPTURE_SUFFIX = ".parquet"
_NEEDS_PYARROW = "reading captures needs pyarrow: pip install 'hopline[capture]'"
BETWEEN_FRAMES = "|"
BETWEEN_MESSAGES = "---"
EMPTY_FRAME = "-"
BYTE_ORDER_MARK = "\ufeff"

_LIMITS = DEFAULT_LIMITS  # no message exceeds them, so no more is decompressed for one
# Few rows at a time: dictionary encoding can store a frame of the largest size in every row in a few bytes.
_BATCH_ROWS = 8
_LARGEST_GROUP = 1024**3  # bytes of the frames in one row group, uncompressed
_BETWEEN_DIGITS = re.compile(r"[\s:_]|(?<![0-9A-Fa-f])0[xX]")
_TITLE_KEYS = ("name", "variant", "wire", "node", "dir", "identity")  # of a case in a vectors file


class InputError(UsageError):
    """The input cannot be read; the text names the place and the problem."""


@dataclass(frozen=True, slots=True)
class InputMessage:
    """The frames of one message, and a label that names its place in the input."""

    label: str
    frames: list[bytes]


def find_messages(source: str) -> Iterator[InputMessage]:
    """Yield every message of a file, a folder of captures, or standard input.

    Raises:
        InputError: If the input cannot be read.
    """
    try:
        yield from _find(source)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        hint = ""
        if BETWEEN_FRAMES in source:
            hint = f"; to decode a message itself, use --hex {source[:20]}..."
        problem = error.strerror or error
        raise InputError(f"{source[:60]}: {problem}{hint}") from None
    except UnicodeDecodeError as error:
        name = "standard input" if source == STANDARD_INPUT else source
        raise InputError(
            f"{name}: neither text nor a {CAPTURE_SUFFIX} file (byte {error.start} is not UTF-8)"
        ) from None


def _find(source: str) -> Iterator[InputMessage]:
    path = Path(source)
    if source == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        yield from read_text(sys.stdin, "standard input")
    elif path.is_dir():
        yield from read_folder(path)
    elif path.suffix.lower() == CAPTURE_SUFFIX:
        yield from read_capture(path, path.name)
    else:
        with path.open(encoding="utf-8") as lines:
            yield from read_text(lines, source)


def read_text(lines: Iterable[str], name: str) -> Iterator[InputMessage]:
    """Yield the messages of a text: a vectors file if it begins as JSON does, otherwise hex lines."""
    start: list[str] = []
    rest = iter(lines)
    for line in rest:
        start.append(line if start else line.removeprefix(BYTE_ORDER_MARK))
        if line.strip():
            break
    first_line_of_content = start[-1].lstrip() if start else ""
    all_lines = chain(start, rest)
    if first_line_of_content.startswith(("{", "[")):
        return read_vectors("".join(all_lines), name)
    return read_hex(all_lines, name)


# -- hex lines -------------------------------------------------------------------------------------------------------


def read_hex(lines: Iterable[str], name: str) -> Iterator[InputMessage]:
    """Yield the messages of hex lines.

    A line with ``|`` is a whole message, with a bar between frames. Otherwise each line is a frame, an empty line or a
    lone ``-`` is an empty frame, and ``---`` separates messages; empty lines at the end of a message are ignored.
    ``#`` starts a comment.
    """
    frames: list[bytes] = []
    blank_lines = 0  # since the last frame
    first_line = 1  # of the message
    for number, line in enumerate(lines, start=1):
        content, comment, _ = line.partition("#")
        content = content.strip()
        if BETWEEN_FRAMES in content or content == BETWEEN_MESSAGES:
            if frames:
                yield InputMessage(f"{name}:{first_line}", frames)
            frames, blank_lines, first_line = [], 0, number + 1
            if content != BETWEEN_MESSAGES:
                yield _message_in_line(content, f"{name}:{number}")
        elif content:
            frames += [b""] * blank_lines
            frames.append(_frame(content, f"{name}:{number}"))
            blank_lines = 0
        elif not comment:
            blank_lines += 1
    if frames:
        yield InputMessage(f"{name}:{first_line}", frames)


def _message_in_line(line: str, place: str) -> InputMessage:
    parts = enumerate(line.split(BETWEEN_FRAMES), start=1)
    return InputMessage(place, [_frame(part, f"{place}, frame {number}") for number, part in parts])


def _frame(text: str, place: str) -> bytes:
    if text.strip() == EMPTY_FRAME:
        return b""
    digits = _BETWEEN_DIGITS.sub("", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        stripped = text.strip()
        excerpt = stripped if len(text) <= 40 else f"{stripped[:37]}..."
        is_hex = all(digit in string.hexdigits for digit in digits)
        problem = "an odd number of hex digits" if is_hex else "not hex"
        raise InputError(f"{place}: {problem}: {excerpt!r}") from None


# -- vectors files ---------------------------------------------------------------------------------------------------


def read_vectors(text: str, name: str) -> Iterator[InputMessage]:
    """Yield the messages of JSON or JSON lines: every list under a key that begins with ``frames``."""
    decoder = json.JSONDecoder()
    position = 0
    stem = Path(name).stem
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise InputError(f"{name}:{error.lineno}: not JSON: {error.msg}") from None
        except RecursionError:
            raise InputError(f"{name}: the JSON is nested too deeply") from None
        yield from _walk(document, stem, name)
        position = _skip_space(text, position)


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position


def _walk(node: Any, label: str, name: str) -> Iterator[InputMessage]:
    if isinstance(node, list):
        for number, item in enumerate(node):
            title = _title(item, number)
            yield from _walk(item, f"{label}/{title}", name)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key.startswith("frames") and isinstance(value, list):
                suffix = key.removeprefix("frames")
                frames = _vector_frames(value, f"{name}: {label}")
                yield InputMessage(label + suffix, frames)
            elif isinstance(value, list | dict):
                is_grouping = key in ("cases", "variants")
                inner_label = label if is_grouping else f"{label}/{key}"
                yield from _walk(value, inner_label, name)


def _title(item: Any, number: int) -> str:
    if isinstance(item, dict):
        names = [str(item[key]) for key in _TITLE_KEYS if key in item]
        if names:
            return " ".join(names)
    return str(number)


def _vector_frames(frames: list[Any], place: str) -> list[bytes]:
    """Return the frames of one message; they may be compressed, so their total size is limited."""
    contents = []
    size = 0
    for index, frame in enumerate(frames):
        content = vector_bytes(frame, f"{place}: frame {index}")
        size += len(content)
        if size > _LIMITS.message_size:
            raise InputError(f"{place}: the frames exceed the {_LIMITS.message_size:,} bytes of a message")
        contents.append(content)
    return contents


def vector_bytes(raw: Any, place: str) -> bytes:
    """Return bytes as vectors files write them: hex, or compressed when long; null is an empty frame."""
    if raw is None:
        return b""
    try:
        if isinstance(raw, str):
            return bytes.fromhex(raw)
        content = _decompress(base64.b64decode(raw["zlib_b64"]), place)
        is_intact = hashlib.sha256(content).hexdigest() == raw["sha256"]
    except (ValueError, TypeError, KeyError, zlib.error):
        raise InputError(f"{place}: neither hex nor compressed bytes") from None
    if not is_intact:
        raise InputError(f"{place}: the bytes do not have the hash that is given for them")
    return content


def _decompress(compressed: bytes, place: str) -> bytes:
    """Decompress a frame, and stop one byte beyond the largest size that a frame may have."""
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(compressed, _LIMITS.frame_size + 1)
    if len(content) > _LIMITS.frame_size:
        raise InputError(f"{place}: decompressed, it exceeds the {_LIMITS.frame_size:,} bytes of a frame")
    if not decompressor.eof:
        raise zlib.error("incomplete")
    return content


# -- captures --------------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> Iterator[InputMessage]:
    """Yield the messages of every capture segment below a folder, in the order of their paths."""
    try:
        from hopline.capture.segment_files import find_segments
    except ImportError:
        raise InputError(f"{folder}: {_NEEDS_PYARROW}") from None
    segments = find_segments(str(folder))
    if not segments:
        raise InputError(f"{folder}: no {CAPTURE_SUFFIX} files in it")
    root = folder.resolve()
    for segment in segments:
        path = Path(segment)
        yield from read_capture(path, str(path.relative_to(root)))


def read_capture(path: Path, name: str) -> Iterator[InputMessage]:
    """Yield the messages of one capture segment, or of any Parquet file with a column ``frames``, a list of binary."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        from hopline.capture.segment_files import first_line
    except ImportError:
        raise InputError(f"{path}: {_NEEDS_PYARROW}") from None
    try:
        with parquet.ParquetFile(path) as segment:
            columns = _columns_to_read(segment.schema_arrow, path)
            _refuse_large_groups(segment.metadata, path)
            row = 0
            for batch in segment.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                for record in batch.to_pylist():
                    row += 1
                    yield _recorded_message(record, f"{name}:{row}")
    except pa.ArrowException as error:
        raise InputError(f"{path}: not a readable Parquet file: {first_line(error)}") from None


def _columns_to_read(schema: Any, path: Path) -> list[str]:
    """Return the columns that label a message, as far as the file has them, and its frames."""
    from hopline.capture.segment_files import column_problem

    problem = column_problem(schema, required=("frames",))
    if problem is not None:
        raise InputError(f"{path}: is no capture: {problem}")
    return [column for column in ("seq", "event", "frames") if column in schema.names]


def _recorded_message(record: dict[str, Any], place: str) -> InputMessage:
    frames = [frame or b"" for frame in record["frames"] or ()]
    label = place
    for column in ("seq", "event"):
        value = record.get(column)
        if value is not None:
            label = f"{label} {value}"
    return InputMessage(label, frames)


def _refuse_large_groups(metadata: Any, path: Path) -> None:
    """Raise `InputError` for a file whose metadata announces row groups that would fill the memory."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            is_frames = column.path_in_schema.startswith("frames.")
            size = column.total_uncompressed_size
            if is_frames and size > _LARGEST_GROUP:
                raise InputError(f"{path}: the frames of a row group have {size:,} bytes, more than {_LARGEST_GROUP:,}")
