"""The careful way: records that the expressions are not certain of, read by `hopline.wire` in Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from hopline.capture.events import Event
from hopline.capture.records import shown
from hopline.message import Message, Version
from hopline.pipeline.decoding import values
from hopline.pipeline.keys import Keyring
from hopline.pipeline.schemas import KIND, RECORDS, ROUTER
from hopline.pipeline.tables.security import with_replays
from hopline.wire import RemoteError, decode

MISSING_FRAME = "missing_frame"
"""The code of a record whose frames, or one of them, are null: no decoder ever sees it."""

RECORD_COLUMNS = tuple("local_receiver" if name == "receiver" else name for name in RECORDS.names)

# What Python says of one record; the rest is computed from it, by the expressions of the fast way.
_TEXT, _LONG, _INT = StringType(), LongType(), IntegerType()
_SAID = StructType(
    [
        StructField("wire_format", _TEXT),
        StructField("identity", _TEXT),
        StructField("version", _TEXT),
        StructField("partition", _TEXT),
        StructField("correlation_id", _TEXT),
        StructField("receiver", _TEXT),
        StructField("receiver_node", _TEXT),
        StructField("callback_receiver", _TEXT),
        StructField("callback_receiver_node", _TEXT),
        StructField("callback_key", _LONG),
        StructField("callbacks", ArrayType(KIND)),
        StructField("routing", ArrayType(ROUTER)),
        StructField("hops", _INT),
        StructField("distribution", _INT),
        StructField("trace_options", _LONG),
        StructField("_ttl_ticks", _LONG),
        StructField("domain", _TEXT),
        StructField("signature", BinaryType()),
        StructField("bodies", ArrayType(BinaryType())),
        StructField("_verdict", _TEXT),
        StructField("code", _TEXT),
        StructField("frame_index", _INT),
        StructField("detail", _TEXT),
    ]
)
_FROM_OUTSIDE = (None, Event.RECEIVED.value)
_KINDS = pa.list_(pa.struct([(name, pa.string()) for name in KIND.names]))
_ROUTERS = pa.list_(pa.struct([(name, pa.string()) for name in ROUTER.names]))
_ARROW_TYPES: dict[DataType, pa.DataType] = {
    _TEXT: pa.string(),
    _LONG: pa.int64(),
    _INT: pa.int32(),
    BinaryType(): pa.binary(),
}


def careful(odd: DataFrame, keyring: Keyring | None = None) -> DataFrame:
    """Read records with Python: the columns of `messages` and of `rejects`, and `bodies`.

    Takes the record's columns (`RECORD_COLUMNS`) of `decoded`. A message has no `code`, and what is none has nothing
    else of `messages` but the record.
    """
    records = odd.select(*RECORD_COLUMNS)
    ring = keyring or Keyring()

    def read_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _read_batches(batches, ring)

    read = records.mapInArrow(read_batches, StructType([*records.schema.fields, *_SAID.fields]))
    columns = {
        "ttl_us": values.ttl_us(sf.col("_ttl_ticks")),
        "frame_count": sf.size("frames"),
        "bytes": values.size_of(sf.col("frames")),
        **values.derived(),
    }
    judged = read.withColumns(columns).withColumn("verdict", sf.col("_verdict")).drop("_ttl_ticks", "_verdict")
    return with_replays(judged) if keyring else judged


def _read_batches(batches: Iterator[pa.RecordBatch], keyring: Keyring) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        events, records = batch.column("event").to_pylist(), batch.column("frames").to_pylist()
        said = [
            _read(frames, keyring if event in _FROM_OUTSIDE else None)
            for event, frames in zip(events, records, strict=True)
        ]
        columns = [
            pa.array(column, _arrow_type(field)) for column, field in zip(zip(*said, strict=True), _SAID, strict=True)
        ]
        if said:
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], [*batch.schema.names, *_SAID.names])


def _arrow_type(field: StructField) -> pa.DataType:
    match field.name:
        case "callbacks":
            return _KINDS
        case "routing":
            return _ROUTERS
        case "bodies":
            return pa.list_(pa.binary())
    return _ARROW_TYPES[field.dataType]


def _read(frames: Sequence[bytes | None] | None, keyring: Keyring | None = None) -> tuple[Any, ...]:
    """Say everything of one record, in the order of `_SAID`."""
    if frames is None:
        return _refusal(MISSING_FRAME, None, "expected frames, found null")
    if None in frames:
        missing = frames.index(None)
        return _refusal(MISSING_FRAME, missing, f"expected bytes in frame {missing} of {len(frames)}, found null")
    whole = [frame for frame in frames if frame is not None]
    try:
        message = decode(whole)
    except RemoteError as error:
        index = None if error.position is None else len(whole) - error.position
        return _refusal(str(error.reason), index, str(error))
    return _message(message, None if keyring is None else keyring.verdict(message))


def _refusal(code: str, frame_index: int | None, detail: str) -> tuple[Any, ...]:
    return (*[None] * (len(_SAID) - 3), code, frame_index, detail)


def _message(message: Message, verdict: str | None) -> tuple[Any, ...]:
    return (
        message.wire_format.name if message.wire_format else None,
        shown(message.identity),
        version_text(message.version),
        shown(message.partition),
        shown(message.correlation_id),
        shown(message.receiver_identity),
        shown(message.receiver_node_identity),
        shown(message.callback_receiver_identity),
        shown(message.callback_receiver_node_identity),
        message.callback_key,
        [
            {
                "identity": shown(kind.identity),
                "version": version_text(kind.version),
                "partition": shown(kind.partition),
            }
            for kind in message.callback_point
        ],
        [{"uri": router.uri, "identity": shown(router.identity)} for router in message.routing],
        message.hops,
        message.distribution,
        message.trace_options,
        message.ttl_ticks,
        message.domain,
        message.signature,
        list(message.bodies),
        verdict,
        None,
        None,
        None,
    )


def version_text(version: Version) -> str:
    """Give a version as the tables have it."""
    return str(version) if isinstance(version, int) else shown(version)
