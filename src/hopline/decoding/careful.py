"""The careful reader: records that are not plain, read one by one by `hopline.wire`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from hopline.capture.records import shown
from hopline.decoding.digests import digest_of
from hopline.decoding.frames import Flags
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import BODY_LIMIT, MESSAGES, RECORD_COLUMNS, REJECTS
from hopline.message import TICKS_PER_MICROSECOND, Message, MessageIdentifier, Version, attempt_of
from hopline.wire import RemoteError, decode

Fields: TypeAlias = dict[str, Any]
"""The values of a message or reject, by column."""

MISSING_FRAME = "missing_frame"
"""The reject code of a record whose frames, or one of whose frames, are null."""

_COMPUTED = (  # outside of this module
    "date",
    "segment",
    "flow_id",
    "service",
    "frame_count",
    "bytes",
    "fingerprint",
    "message_id",
)


def _without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in names])


_MESSAGE_FIELDS = _without(MESSAGES, *RECORD_COLUMNS, *_COMPUTED).append(pa.field("body_digest", pa.int64()))
_REJECT_FIELDS = _without(REJECTS, *RECORD_COLUMNS, "date", "segment", "frames")


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """The fields of some of the records, and the indexes of these records among all of them."""

    schema: pa.Schema
    rows: list[int] = field(default_factory=list)
    fields: list[Fields] = field(default_factory=list)

    def columns(self) -> dict[str, pa.Array]:
        """Return the fields as columns, by their names."""
        columns = {}
        for column in self.schema:
            values = [row[column.name] for row in self.fields]
            columns[column.name] = pa.array(values, column.type)
        return columns


def read_carefully(
    records: pa.ChunkedArray,
    is_outside: Flags,
    keyring: Keyring,
    *,
    with_bodies: bool = False,
) -> tuple[DecodedRows, DecodedRows]:
    """Decode records one by one, and verify those that came from another node.

    Returns:
        The fields of those that are messages, and the reasons why the others are not.
    """
    decoded = DecodedRows(_MESSAGE_FIELDS)
    rejected = DecodedRows(_REJECT_FIELDS)
    with_origins = zip(records.to_pylist(), is_outside.tolist(), strict=True)
    for row, (frames, outside) in enumerate(with_origins):
        keys = keyring if outside else None
        fields = _read(frames, keys)
        is_rejected = "code" in fields
        results = rejected if is_rejected else decoded
        if not with_bodies:
            fields["bodies"] = None
        results.rows.append(row)
        results.fields.append(fields)
    return decoded, rejected


def _read(frames: Sequence[bytes | None] | None, keyring: Keyring | None) -> Fields:
    """Return the fields of a message, or of a reject if the frames cannot be decoded. No keyring: no verdict."""
    if frames is None:
        return _reject(MISSING_FRAME, None, "expected frames, found null")
    if None in frames:
        missing = frames.index(None)
        detail = f"expected bytes in frame {missing} of {len(frames)}, found null"
        return _reject(MISSING_FRAME, missing, detail)
    whole = [frame for frame in frames if frame is not None]
    try:
        message = decode(whole)
    except RemoteError as error:
        from_end = error.position
        index = None if from_end is None else len(whole) - from_end
        return _reject(str(error.reason), index, str(error))
    verdict = None if keyring is None else keyring.verdict(message)
    return _message(message, verdict)


def _reject(code: str, frame_index: int | None, detail: str) -> Fields:
    return {"code": code, "frame_index": frame_index, "detail": detail}


def _message(message: Message, verdict: str | None) -> Fields:
    return {
        "wire_format": message.wire_format.name if message.wire_format else None,
        "identity": shown(message.identity),
        "version": version_text(message.version),
        "partition": shown(message.partition),
        "correlation_id": shown(message.correlation_id),
        "receiver": shown(message.receiver_identity),
        "receiver_node": shown(message.receiver_node_identity),
        "callback_receiver": shown(message.callback_receiver_identity),
        "callback_receiver_node": shown(message.callback_receiver_node_identity),
        "callback_key": message.callback_key,
        "callbacks": [_kind(identifier) for identifier in message.callback_point],
        "routing": [(router.uri, shown(router.identity)) for router in message.routing],
        "hops": message.hops,
        "distribution": message.distribution,
        "trace_options": message.trace_options,
        "ttl_us": _ttl_us(message.ttl_ticks),
        "attempt": attempt_of(message),
        "domain": message.domain,
        "signature": message.signature,
        "body_frames": len(message.bodies),
        "body_bytes": sum(map(len, message.bodies)),
        "bodies": kept_bodies(message.bodies),
        "body_digest": digest_of(message.bodies),
        "verdict": verdict,
    }


def _kind(identifier: MessageIdentifier) -> tuple[str, str, str]:
    return shown(identifier.identity), version_text(identifier.version), shown(identifier.partition)


def kept_bodies(bodies: Sequence[bytes]) -> list[bytes]:
    """Return the body frames as far as they are kept: the one that goes beyond the limit is cut."""
    remaining = BODY_LIMIT
    kept = []
    for body in bodies:
        part = bytes(body[:remaining])
        kept.append(part)
        remaining -= len(part)
    return kept


def version_text(version: Version) -> str:
    """Return a version as the tables have it."""
    if isinstance(version, int):
        return str(version)
    return shown(version)


def _ttl_us(ticks: int) -> int:
    """Return a lifetime in microseconds, rounded away from zero, so that what is nearly over is not unlimited."""
    if ticks > 0:
        return -(-ticks // TICKS_PER_MICROSECOND)
    return ticks // TICKS_PER_MICROSECOND
