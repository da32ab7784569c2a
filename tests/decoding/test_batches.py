"""Reading many records at once and the Python decoder say the same of every message, good or bad."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from hopline.decoding import MISSING_FRAME, batches
from hopline.decoding.batches import read_batch, read_headers
from hopline.decoding.columns import PlainColumns
from hopline.decoding.frames import FRAMES, Frames
from hopline.decoding.header import Headers
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import BODY_LIMIT
from hopline.message import ATTEMPT, NO_FLOW, RECEIPT, Message, attempt_of, write_extension
from hopline.wire import RemoteError, decode, encode, layouts
from hopline.wire.layout import Layout
from tests.decoding.corpus import AnyFrames, all_frames, records_of, usual_frames

CANONICAL = (layouts.FIRST, layouts.V4, layouts.V5, layouts.V6, layouts.V5_INT32)
SOME = 700


class Both(NamedTuple):
    """Everything, by each of the two ways; the place in the list is the `seq` of its row."""

    frames: list[AnyFrames]
    messages: dict[int, dict[str, Any]]
    rejects: dict[int, dict[str, Any]]
    careful: dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def both() -> Both:
    frames = all_frames()
    read = read_batch(records_of(frames), Keyring(), with_bodies=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "read_headers", nothing_is_plain)
        carefully = read_batch(records_of(frames), Keyring(), with_bodies=True)
    return Both(frames, by_seq(read.messages), by_seq(read.rejects), by_seq(carefully.messages, carefully.rejects))


def nothing_is_plain(frames: Frames) -> Headers:
    headers = read_headers(frames)
    headers.plain[:] = False
    return headers


def by_seq(*tables: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["seq"]: row for table in tables for row in table.to_pylist()}


def are_plain(all_frames: list[AnyFrames]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    frames = Frames.of_records(pa.array(all_frames, FRAMES))
    headers = read_headers(frames)
    headers.plain[headers.plain] = ~PlainColumns(frames, headers.of(headers.plain)).unusual()
    return headers.plain


def test_every_record_is_a_message_or_a_reject(both: Both) -> None:
    assert sorted([*both.messages, *both.rejects]) == list(range(len(both.frames))) == sorted(both.careful)


def test_the_fast_path_and_the_careful_reader_agree_in_every_column(both: Both) -> None:
    for seq, row in (both.messages | both.rejects).items():
        assert row == both.careful[seq], both.frames[seq]


def test_the_columns_are_what_the_wire_decoder_reads(both: Both) -> None:
    for seq, row in (both.messages | both.rejects).items():
        expected = expected_of(both.frames[seq])
        assert {name: row.get(name) for name in expected} == expected, both.frames[seq]


def test_damage_makes_rejects_of_many_kinds_and_some_of_it_does_not_matter(both: Both) -> None:
    codes = {row["code"] for row in both.rejects.values()}
    assert len(codes) >= 8
    assert MISSING_FRAME in codes
    assert are_plain(both.frames).sum() > 1_500


@pytest.mark.parametrize("layout", CANONICAL, ids=lambda layout: layout.name)
def test_usual_messages_take_the_fast_path(layout: Layout) -> None:
    usual = usual_frames(layout)
    assert len(usual) >= 11
    assert are_plain([*usual]).all()


def test_a_message_has_one_id_in_any_format_and_with_a_receipt_or_without(both: Both) -> None:
    written = [usual_frames(layout)[1] for layout in CANONICAL[1:]]
    asking = decode(written[0])
    receipts = [asking.callback_point, (*asking.callback_point, RECEIPT), (RECEIPT, *asking.callback_point)]
    written += [encode(asking.clone(callback_point=points), layouts.V6) for points in receipts]
    found = {row["message_id"] for row in by_seq(read_batch(records_of([*written]), Keyring()).messages).values()}
    assert len(found) == 1
    turned_round = encode(asking.clone(callback_point=asking.callback_point[::-1]), layouts.V6)
    others = by_seq(read_batch(records_of([turned_round, usual_frames(layouts.V6)[0]]), Keyring()).messages)
    assert len(found | {row["message_id"] for row in others.values()}) == 3


@pytest.mark.parametrize("layout", CANONICAL[1:], ids=lambda layout: layout.name)
def test_the_number_of_an_attempt_is_read_and_what_is_no_number_counts_as_the_first(layout: Layout) -> None:
    whole = write_extension({"traceparent": "00-0af7", ATTEMPT: 3})
    others = [write_extension({ATTEMPT: value}) for value in (0, -1, 1 << 31, (1 << 64) - 1, True, "3", [3], None)]
    damaged = [whole[:-1], whole + b"!", b"attempt", b"\xff" * 2_000 + whole, write_extension({"state": ATTEMPT})]
    bare = decode(usual_frames(layout)[0])
    written = [encode(bare.clone(extension=whole), layout)]
    for extension in (*others, *damaged):
        frames = encode(bare.clone(extension=whole), layout)
        written.append([frame.replace(whole, extension) for frame in frames])
    read = read_batch(records_of([*written]), Keyring())
    assert not len(read.rejects)
    assert are_plain([*written]).all()
    numbers = {seq: row["attempt"] for seq, row in by_seq(read.messages).items()}
    assert numbers == {seq: 3 if seq == 0 else 1 for seq in range(len(written))}


def test_different_frames_have_different_fingerprints(both: Both) -> None:
    seen: dict[int, AnyFrames] = {}
    for seq, row in both.messages.items():
        frames = both.frames[seq]
        assert seen.setdefault(row["fingerprint"], frames) == frames


def test_slices_of_a_batch_are_read_like_a_batch(both: Both) -> None:
    records = records_of(both.frames)
    begins = range(0, len(both.frames), SOME)
    parts = [read_batch(records.slice(at, SOME), Keyring(), with_bodies=True) for at in begins]
    assert by_seq(*(part.messages for part in parts)) == both.messages
    assert by_seq(*(part.rejects for part in parts)) == both.rejects


def test_only_records_with_the_same_frames_are_decoded_alike() -> None:
    frames: list[AnyFrames] = []
    for layout in CANONICAL:
        usual = usual_frames(layout)[1]
        moved = [usual[0], usual[2][:1], usual[2][1:], *usual[3:]]  # the same bytes
        missing = [frame or None for frame in usual]
        frames += [usual, missing, usual, moved, missing, moved, usual]
    together = read_batch(records_of(frames), Keyring())
    alone = [read_batch(records_of(frames).slice(at, 1), Keyring()) for at in range(len(frames))]
    assert by_seq(*together) == by_seq(*(table for one in alone for table in one))
    assert len(set(together.messages["fingerprint"].to_pylist())) == 2 * len(CANONICAL)
    assert len(together.rejects) == 2 * len(CANONICAL)


@pytest.mark.parametrize("is_plain", [True, False])
def test_bodies_are_kept_up_to_the_limit_on_request(*, is_plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_plain:
        monkeypatch.setattr(batches, "read_headers", nothing_is_plain)
    large = [b"a" * 50_000, b"b" * 50_000, b"c"]
    start = Message.flow_start(b"ORDER", b"small")
    written = [encode(start.clone(bodies=bodies), layouts.V6) for bodies in ([b"small"], large, [b""])]
    messages = by_seq(read_batch(records_of([*written]), Keyring(), with_bodies=True).messages)
    assert messages[0]["bodies"] == [b"small"]
    assert messages[1]["bodies"] == [b"a" * 50_000, b"b" * (BODY_LIMIT - 50_000), b""]
    assert messages[1]["body_bytes"] == 100_001
    assert messages[2]["bodies"] == [b""]
    messages = by_seq(read_batch(records_of([*written]), Keyring()).messages)
    assert [messages[seq]["bodies"] for seq in range(3)] == [None, None, None]


def test_no_records_are_no_messages() -> None:
    assert [table.num_rows for table in read_batch(records_of([]), Keyring())] == [0, 0]


def expected_of(frames: AnyFrames) -> dict[str, Any]:
    """Say what the tables must have, by the Python decoder alone."""
    if frames is None or None in frames:
        return {"code": MISSING_FRAME, "frame_index": None if frames is None else list(frames).index(None)}
    whole = [frame for frame in frames if frame is not None]
    try:
        message = decode(whole)
    except RemoteError as error:
        index = None if error.position is None else len(whole) - error.position
        return {"code": error.reason.value, "frame_index": index, "detail": str(error), "frames": whole}
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
            {"identity": name(kind.identity), "version": version(kind.version), "partition": name(kind.partition)}
            for kind in message.callback_point
        ],
        "routing": [{"uri": router.uri, "identity": name(router.identity)} for router in message.routing],
        "hops": message.hops,
        "distribution": message.distribution,
        "trace_options": message.trace_options,
        "ttl_us": (abs(ticks) + 9) // 10 * (1 if ticks > 0 else -1),
        "attempt": attempt_of(message),
        "domain": message.domain,
        "signature": message.signature,
        "body_frames": len(message.bodies),
        "body_bytes": sum(map(len, message.bodies)),
        "bodies": [bytes(body) for body in message.bodies],
        "frame_count": len(frames),
        "bytes": sum(map(len, whole)),
    }


def name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex().upper()


def version(value: int | bytes) -> str:
    return str(value) if isinstance(value, int) else name(value)
