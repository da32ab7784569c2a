"""How fresh the tables of a stream are: what its last whole batch has left behind, read without Spark."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hopline.display.frames import plural
from hopline.pipeline.stream.state import DOCUMENT, STATES, State
from hopline.query.files import Storage, TableFile, open_storage, storage_failure

_SECOND_US = 1_000_000
_DAY_S = 24 * 3_600


def last_state(location: str | Path) -> State | None:
    """Return what the last whole batch of a stream has left, None where no stream writes the tables.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        return _last_state(open_storage(location))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_failure(str(location), error) from error


def _last_state(storage: Storage) -> State | None:
    documents = [file for file in storage.files(STATES) if file.path.endswith(f"/{DOCUMENT}")]
    for document in sorted(documents, key=_batch_of, reverse=True):
        with suppress(FileNotFoundError, msgspec.DecodeError):  # the next batch deletes it, or this one is writing it
            return msgspec.json.decode(_content(storage, document), type=State)
    return None


def _batch_of(document: TableFile) -> str:
    *_, batch, _ = document.path.split("/")
    return batch


def _content(storage: Storage, file: TableFile) -> bytes:
    read, close = storage.reader(file.path)
    try:
        return read(0, file.size)
    finally:
        close()


def freshness_text(state: State | None, now: float) -> str:
    """Return how old the last whole batch is, and how far it has come; nothing where no stream writes the tables.

    Args:
        state: What the batch has left.
        now: The time, in seconds since 1970.
    """
    if state is None:
        return ""
    parts = [f"last whole batch began {_age(now - state.written_s)} ago"]
    if state.last_us is not None:
        newest = datetime.fromtimestamp(state.last_us / _SECOND_US, UTC)
        is_of_today = now - newest.timestamp() < _DAY_S
        parts.append(f"newest message {newest:%H:%M:%S}" if is_of_today else f"newest message {newest:%Y-%m-%d %H:%M}")
    if state.pending_units:
        parts.append(f"{plural(state.pending_units, 'flow')} still open")
    return f"Stream: {', '.join(parts)}"


def _age(seconds: float) -> str:
    seconds = max(seconds, 0.0)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * _DAY_S:
        return f"{seconds / 3_600:.0f} h"
    return f"{seconds / _DAY_S:.0f} days"
