"""Where `hopline decode` finds messages: hex lines, vectors files, captures."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import string
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from hopline.cli.console import UsageError
from hopline.wire import DEFAULT_LIMITS

STANDARD_INPUT = "-"
CAPTURE_SUFFIX = ".parquet"
BETWEEN_FRAMES = "|"
BETWEEN_MESSAGES = "---"
EMPTY_FRAME = "-"
BYTE_ORDER_MARK = "\ufeff"

_LIMITS = DEFAULT_LIMITS  # what no message exceeds is also the most that is unpacked for one
# Few rows at a time: each may have a frame as large as a frame can be, which a dictionary keeps in a few bytes.
_BATCH_ROWS = 8
_LARGEST_GROUP = 1024**3  # bytes of the frames in one group of rows, unpacked
_BETWEEN_DIGITS = re.compile(r"[\s:_]|(?<![0-9A-Fa-f])0[xX]")


class SourceError(UsageError):
    """The input cannot be used; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Found:
    """One message, and where it was."""

    label: str
    frames: list[bytes]


def find_messages(source: str) -> Iterator[Found]:
    """Give every message of a file, a folder of captures, or standard input, as they are read."""
    try:
        yield from _find(source)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        hint = f"; a message itself goes behind --hex: {source[:20]}..." if BETWEEN_FRAMES in source else ""
        raise SourceError(f"{source[:60]}: {error.strerror or error}{hint}") from None
    except UnicodeDecodeError as error:
        name = "standard input" if source == STANDARD_INPUT else source
        raise SourceError(
            f"{name}: neither text nor a {CAPTURE_SUFFIX} file (byte {error.start} is no UTF-8)"
        ) from None


def _find(source: str) -> Iterator[Found]:
    path = Path(source)
    if source == STANDARD_INPUT:
        if sys.stdin is None:
            raise SourceError("standard input is closed; give a file")
        yield from read_text(sys.stdin, "standard input")
    elif path.is_dir():
        yield from read_folder(path)
    elif path.suffix.lower() == CAPTURE_SUFFIX:
        yield from read_capture(path, path.name)
    else:
        with path.open(encoding="utf-8") as lines:
            yield from read_text(lines, source)


def read_text(lines: Iterable[str], name: str) -> Iterator[Found]:
    """Give the messages of a text: a vectors file if it is JSON, else hex."""
    start: list[str] = []
    rest = iter(lines)
    for line in rest:
        start.append(line if start else line.removeprefix(BYTE_ORDER_MARK))
        if line.strip():
            break
    if start and start[-1].lstrip().startswith(("{", "[")):
        return read_vectors("".join([*start, *rest]), name)
    return read_hex(chain(start, rest), name)


# -- hex lines -------------------------------------------------------------------------------------------------------


def read_hex(lines: Iterable[str], name: str) -> Iterator[Found]:
    """Give the messages of hex lines.

    A line with ``|`` is a whole message, with a bar between frames. Otherwise each line is a frame, an empty line or a
    lone ``-`` is an empty frame, and ``---`` stands between messages; empty lines behind a message do not count. ``#``
    starts a comment.
    """
    frames: list[bytes] = []
    blank = 0  # empty lines since the last frame
    started = 1
    for number, line in enumerate(lines, start=1):
        content, comment, _ = line.partition("#")
        content = content.strip()
        if BETWEEN_FRAMES in content or content == BETWEEN_MESSAGES:
            if frames:
                yield Found(f"{name}:{started}", frames)
            frames, blank, started = [], 0, number + 1
            if content != BETWEEN_MESSAGES:
                parts = enumerate(content.split(BETWEEN_FRAMES), start=1)
                yield Found(f"{name}:{number}", [_frame(part, f"{name}:{number}, frame {at}") for at, part in parts])
        elif content:
            frames += [b""] * blank
            frames.append(_frame(content, f"{name}:{number}"))
            blank = 0
        elif not comment:
            blank += 1
    if frames:
        yield Found(f"{name}:{started}", frames)


def _frame(text: str, place: str) -> bytes:
    if text.strip() == EMPTY_FRAME:
        return b""
    digits = _BETWEEN_DIGITS.sub("", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        shown = repr(text.strip() if len(text) <= 40 else text.strip()[:37] + "...")
        odd = len(digits) % 2 and all(digit in string.hexdigits for digit in digits)
        raise SourceError(f"{place}: {'an odd number of hex digits' if odd else 'not hex'}: {shown}") from None


# -- vectors files ---------------------------------------------------------------------------------------------------


def read_vectors(text: str, name: str) -> Iterator[Found]:
    """Give the messages of JSON, or JSON lines: whatever stands in a list under a key that starts with ``frames``."""
    decoder, at = json.JSONDecoder(), 0
    stem = Path(name).stem
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise SourceError(f"{name}:{error.lineno}: not JSON: {error.msg}") from None
        except RecursionError:
            raise SourceError(f"{name}: JSON that is nested too deeply") from None
        yield from _walk(document, stem, name)
        at += len(text[at:]) - len(text[at:].lstrip())


def _walk(node: Any, label: str, name: str) -> Iterator[Found]:
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from _walk(item, f"{label}/{_title(item, number)}", name)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key.startswith("frames") and isinstance(value, list):
                suffix = key.removeprefix("frames")
                yield Found(label + suffix, _vector_frames(value, f"{name}: {label}"))
            elif isinstance(value, list | dict):
                yield from _walk(value, label if key in ("cases", "variants") else f"{label}/{key}", name)


def _title(item: Any, number: int) -> str:
    if isinstance(item, dict):
        named = [str(item[key]) for key in ("name", "variant", "wire", "node", "dir", "identity") if key in item]
        if named:
            return " ".join(named)
    return str(number)


def _vector_frames(frames: list[Any], place: str) -> list[bytes]:
    """Read the frames of one message, which may be compressed to far less than they are."""
    found, size = [], 0
    for at, frame in enumerate(frames):
        content = vector_bytes(frame, f"{place}: frame {at}")
        size += len(content)
        if size > _LIMITS.message_size:
            raise SourceError(f"{place}: its frames have more than the {_LIMITS.message_size:,} bytes of a message")
        found.append(content)
    return found


def vector_bytes(raw: Any, place: str) -> bytes:
    """Read bytes as vectors files write them: hex, or compressed when long; a null reference is nothing."""
    if raw is None:
        return b""
    try:
        if isinstance(raw, str):
            return bytes.fromhex(raw)
        content = _unpacked(base64.b64decode(raw["zlib_b64"]), place)
        intact = hashlib.sha256(content).hexdigest() == raw["sha256"]
    except (ValueError, TypeError, KeyError, zlib.error):
        raise SourceError(f"{place}: neither hex nor compressed bytes") from None
    if not intact:
        raise SourceError(f"{place}: the bytes do not have the hash that stands beside them")
    return content


def _unpacked(compressed: bytes, place: str) -> bytes:
    """Decompress a frame; of one that is larger than a frame can be, only the beginning is ever in memory."""
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(compressed, _LIMITS.frame_size + 1)
    if len(content) > _LIMITS.frame_size:
        raise SourceError(f"{place}: unpacked it has more than the {_LIMITS.frame_size:,} bytes of a frame")
    if not unpacking.eof:
        raise zlib.error("incomplete")
    return content


# -- captures --------------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> Iterator[Found]:
    """Give the messages of every capture segment below a folder, in the order of their names."""
    segments = []
    for parent, _, names in os.walk(folder, onerror=_raise):
        segments += [Path(parent, name) for name in names if name.lower().endswith(CAPTURE_SUFFIX)]
    if not segments:
        raise SourceError(f"{folder}: no {CAPTURE_SUFFIX} files in it")
    for segment in sorted(segments):
        yield from read_capture(segment, str(segment.relative_to(folder)))


def _raise(error: OSError) -> None:
    raise error


def read_capture(path: Path, name: str) -> Iterator[Found]:
    """Give the messages of one capture segment; only its column ``frames`` is needed, a list of binary."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise SourceError(f"{path}: reading captures needs pyarrow: pip install pyarrow") from None
    row = 0
    try:
        with parquet.ParquetFile(path) as segment:
            schema = segment.schema_arrow
            if "frames" not in schema.names:
                raise SourceError(f"{path}: no column 'frames' in it, only {', '.join(schema.names)}")
            kind = schema.field("frames").type
            if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not _is_binary(kind.value_type):
                raise SourceError(f"{path}: the column 'frames' must be a list of binary, and is {kind}")
            _refuse_large_groups(segment.metadata, path)
            wanted = [column for column in ("seq", "event", "frames") if column in schema.names]
            for batch in segment.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                for record in batch.to_pylist():
                    row += 1
                    said = " ".join(str(record[column]) for column in wanted[:-1] if record[column] is not None)
                    frames = [frame or b"" for frame in record["frames"] or ()]
                    yield Found(f"{name}:{row} {said}".rstrip(), frames)
    except pa.ArrowException as error:
        raise SourceError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from None


def _refuse_large_groups(metadata: Any, path: Path) -> None:
    """Refuse a file that would take up all memory: it is compressed, and says how large it becomes."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        columns = (row_group.column(at) for at in range(row_group.num_columns))
        size = max(
            (one.total_uncompressed_size for one in columns if one.path_in_schema.startswith("frames.")), default=0
        )
        if size > _LARGEST_GROUP:
            raise SourceError(
                f"{path}: the frames of a group of rows have {size:,} bytes, more than {_LARGEST_GROUP:,}"
            )


def _is_binary(kind: Any) -> bool:
    return str(kind) in ("binary", "large_binary", "binary_view")
