"""The columns of records, messages and rejects, as Arrow has them.

The tables `messages` and `rejects` of `hopline.pipeline.tables` have the same columns, with what each means.
"""

from __future__ import annotations

import pyarrow as pa

from hopline.capture.records import CAPTURE_SCHEMA

BODY_LIMIT = 64 << 10
"""How many bytes of a message's body frames are kept, where any are."""

_BYTES, _DATE, _FLAG, _TEXT = pa.binary(), pa.date32(), pa.bool_(), pa.string()
_INT, _LONG = pa.int32(), pa.int64()


def _list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


_FRAMES = _list_of(_BYTES)
MESSAGE_KIND = pa.struct({"identity": _TEXT, "version": _TEXT, "partition": _TEXT})
ROUTER = pa.struct({"uri": _TEXT, "identity": _TEXT})

_RECORD = {field.name: field.type for field in CAPTURE_SCHEMA if field.name != "frames"}
RECORDS = pa.schema({**_RECORD, "frames": _FRAMES})
"""The columns that are read of a segment. Each may be null: other tools write less than a node does."""

_RENAMED = {"receiver": "local_receiver"}  # the header has a receiver too
RECORD_COLUMNS = tuple(_RENAMED.get(name, name) for name in _RECORD)
"""The names of the record's own columns in messages and rejects."""

_RECORDED = dict(zip(RECORD_COLUMNS, _RECORD.values(), strict=True))
MESSAGES = pa.schema(
    {
        "date": _DATE,
        **_RECORDED,
        "segment": _TEXT,
        "flow_id": _TEXT,
        "service": _FLAG,
        "wire_format": _TEXT,
        "identity": _TEXT,
        "version": _TEXT,
        "partition": _TEXT,
        "correlation_id": _TEXT,
        "receiver": _TEXT,
        "receiver_node": _TEXT,
        "callback_receiver": _TEXT,
        "callback_receiver_node": _TEXT,
        "callback_key": _LONG,
        "callbacks": _list_of(MESSAGE_KIND),
        "routing": _list_of(ROUTER),
        "hops": _INT,
        "distribution": _INT,
        "trace_options": _LONG,
        "ttl_us": _LONG,
        "attempt": _INT,
        "domain": _TEXT,
        "signature": _BYTES,
        "body_frames": _INT,
        "body_bytes": _LONG,
        "bodies": _FRAMES,
        "frame_count": _INT,
        "bytes": _LONG,
        "fingerprint": _LONG,
        "message_id": _LONG,
        "verdict": _TEXT,
    }
)
REJECTS = pa.schema(
    {
        "date": _DATE,
        **_RECORDED,
        "segment": _TEXT,
        "code": _TEXT,
        "frame_index": _INT,
        "detail": _TEXT,
        "frames": _FRAMES,
    }
)
