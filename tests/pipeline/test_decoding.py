"""The expressions and the Python decoder say the same of every message, good or bad."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from pyspark.sql import Row, SparkSession

from hopline import RemoteError, decode
from hopline.message import NO_FLOW
from hopline.pipeline.decoding import MISSING_FRAME, careful, decoded
from hopline.pipeline.schemas import MESSAGES
from hopline.wire import layouts
from hopline.wire.layout import Layout
from tests.pipeline.corpus import all_frames, capture_of, usual_frames

CANONICAL = (layouts.FIRST, layouts.V4, layouts.V5, layouts.V6, layouts.V5_INT32)


class Both(NamedTuple):
    """Everything, by each of the two ways; the place in the list is the `seq` of its row."""

    frames: list[Any]
    plain: dict[int, Row]
    careful: dict[int, Row]


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> Both:
    frames = all_frames()
    records = capture_of(spark, frames).repartition(2)
    plain = {row.seq: row for row in decoded(records).collect()}
    every = careful(records.withColumnRenamed("receiver", "local_receiver"))
    return Both(frames, plain, {row.seq: row for row in every.collect()})


def test_what_the_expressions_read_is_what_python_reads_in_every_column(both: Both) -> None:
    assert len(both.plain) == len(both.careful) == len(both.frames)
    for seq, row in both.plain.items():
        if not row.odd:
            read = both.careful[seq]
            assert read.code is None, (both.frames[seq], read.detail)
            assert {name: row[name] for name in MESSAGES.names} == {name: read[name] for name in MESSAGES.names}, (
                both.frames[seq]
            )


def test_the_careful_way_says_what_the_python_decoder_says(both: Both) -> None:
    for seq, row in both.careful.items():
        expected = expected_of(both.frames[seq])
        assert {name: row[name] for name in expected} == expected, both.frames[seq]


def test_only_odd_rows_keep_their_frames(both: Both) -> None:
    for seq, row in both.plain.items():
        assert row.frames == (both.frames[seq] if row.odd else None)


def test_damage_makes_rejects_of_many_kinds_and_some_of_it_does_not_matter(both: Both) -> None:
    codes = {row.code for row in both.careful.values()}
    assert len(codes) >= 9
    assert {None, MISSING_FRAME} <= codes
    assert sum(not row.odd for row in both.plain.values()) > 1_000


@pytest.mark.parametrize("layout", CANONICAL, ids=lambda layout: layout.name)
def test_usual_messages_take_the_fast_way(both: Both, layout: Layout) -> None:
    usual = usual_frames(layout)
    assert len(usual) >= 11
    for frames in usual:
        assert not both.plain[both.frames.index(frames)].odd, frames


def expected_of(frames: list[Any] | None) -> dict[str, Any]:
    """Say what the tables must have, by the Python decoder alone."""
    if frames is None or None in frames:
        return {"code": MISSING_FRAME, "frame_index": None if frames is None else frames.index(None)}
    try:
        message = decode(frames)
    except RemoteError as error:
        index = None if error.position is None else len(frames) - error.position
        return {"code": error.reason.value, "frame_index": index, "detail": str(error), "frames": frames}
    flow = message.correlation_id not in (b"", bytes(16), NO_FLOW)
    ticks = message.ttl_ticks
    return {
        "code": None,
        "wire_format": str(message.wire_format).upper(),
        "identity": name(message.identity),
        "version": version(message.version),
        "partition": name(message.partition),
        "correlation_id": name(message.correlation_id),
        "flow_id": name(message.correlation_id) if flow else None,
        "service": message.identity.startswith((b"KINO.", b"HOPLINE.")),
        "receiver": name(message.receiver_identity),
        "receiver_node": name(message.receiver_node_identity),
        "callback_receiver": name(message.callback_receiver_identity),
        "callback_receiver_node": name(message.callback_receiver_node_identity),
        "callback_key": message.callback_key,
        "callbacks": [
            (name(kind.identity), version(kind.version), name(kind.partition)) for kind in message.callback_point
        ],
        "routing": [(router.uri, name(router.identity)) for router in message.routing],
        "hops": message.hops,
        "distribution": message.distribution,
        "trace_options": message.trace_options,
        "ttl_us": (abs(ticks) + 9) // 10 * (1 if ticks > 0 else -1),
        "domain": message.domain,
        "signature": message.signature,
        "body_frames": len(message.bodies),
        "body_bytes": sum(map(len, message.bodies)),
        "frame_count": len(frames),
        "bytes": sum(map(len, frames)),
    }


def name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex().upper()


def version(value: int | bytes) -> str:
    return str(value) if isinstance(value, int) else name(value)
