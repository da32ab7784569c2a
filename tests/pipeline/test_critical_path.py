"""The walk through flows in Arrow batches: however they are cut, and however large a flow is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import SKEW
from hopline.pipeline.tables.causality import beside, by_group
from hopline.pipeline.tables.flow_records import FLOW_DETAIL_LIMIT
from hopline.pipeline.tables.flows import walking
from hopline.pipeline.tables.large_flows import COUNTING, LARGE_FLOWS, totalling
from hopline.pipeline.traces import TRACES, Chest, Kernel, kernels
from hopline.pipeline.traces.columns import ANSWER, DELIVERED, HANDLED, MAY_BEGIN, RESOLVED, SUBMITTED, plain_field
from hopline.pipeline.traces.kernels import divided, whole

NO_SKEW = arrow_schema(SKEW).empty_table()
NOBODY_WATCHED = pa.table({"node": pa.array([], pa.string()), "last_ts": pa.array([], pa.int64())})
WALKING = walking(NO_SKEW, NOBODY_WATCHED, LARGE_FLOWS.empty_table())


def record(
    flow: str, event: int, at: int, message: int, node: int = 1, flags: int = 0, **columns: object
) -> dict[str, object]:
    names = {"flow": ord(flow), "flow_id": flow, "node": f"n{node}", "identity": f"M{min(message, 3)}"}
    numbers = {"event": event, "flags": flags, "ts": at, "seq": at, "message_id": message, "fingerprint": message}
    return dict.fromkeys(TRACES.names) | names | numbers | {"hops": 0, "trail": 0, "bytes": 10, "ask": 0} | columns


def large_flow(flow: str, parts: int) -> list[dict[str, object]]:
    """Ask, and get as many parts, each handled on one of two nodes, before the answer comes."""
    rows = [
        record(flow, SUBMITTED, 0, 1, flags=MAY_BEGIN, ask=5),
        record(flow, DELIVERED, 10, 1),
        *(
            record(flow, event, 100 + 3 * part + nth, 10 + part, cause=10 if event == SUBMITTED else None)
            for part in range(parts)
            for nth, event in enumerate((SUBMITTED, DELIVERED, HANDLED))
        ),
        record(flow, HANDLED, 9_000_000, 7, node=2),
    ]
    rows.append(record(flow, DELIVERED, 8_000_000, 3, flags=ANSWER, ask=5))
    rows.append(record(flow, RESOLVED, 8_000_001, 3, flags=ANSWER, ask=5))
    return rows


def traces(rows: list[dict[str, object]]) -> pa.Table:
    plain = pa.schema([plain_field(field) for field in TRACES])
    return kernels.encoded(pa.Table.from_pylist(rows, plain)).select(list(WALKING.needs()))


def large(rows: list[dict[str, object]], parts: int = 3) -> pa.Table:
    """Count large flows a part of their messages at a time."""
    found = np.array([row["flow"] for row in counted(COUNTING, rows)], np.int64)
    kernel = totalling(found)
    pieces = [
        row
        for part in range(parts)
        for row in counted(kernel, [one for one in rows if int(str(one["message_id"])) % parts == part])
    ]
    sums = [(name, "max" if name.startswith("is_") else "sum") for name in LARGE_FLOWS.names[1:]]
    total = pa.Table.from_pylist(pieces, LARGE_FLOWS).group_by("flow").aggregate(sums)
    return total.rename_columns(LARGE_FLOWS.names)


def counted(kernel: Kernel, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [row for batch in kernel.run(kernel.relevant(traces(rows))) for row in batch.to_pylist()]


def made(kernel: Kernel, parts: Iterator[pa.Table]) -> list[dict[str, object]]:
    batches = [batch for rows in parts for batch in kernel.run(rows)]
    found: list[dict[str, object]] = pa.Table.from_batches(batches, kernel.schema).to_pylist()
    return sorted(found, key=lambda row: str(row["flow_id"]))


def walked(rows: list[dict[str, object]], kernel: Kernel = WALKING) -> list[dict[str, object]]:
    return made(kernel, iter([traces(rows)]))


@pytest.fixture(scope="module")
def flows() -> list[dict[str, object]]:
    sizes = {"a": 1, "b": 800, "c": 0, "d": FLOW_DETAIL_LIMIT // 3 - 2, "e": FLOW_DETAIL_LIMIT // 3 + 1, "f": 1}
    return [row for flow, parts in sizes.items() for row in large_flow(flow, parts)]


@pytest.mark.parametrize("size", [50, 333, 1_000, 5_000])
def test_batches_may_be_cut_anywhere(
    flows: list[dict[str, object]], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_flow = traces(sorted(flows, key=lambda row: str(row["flow_id"])))
    monkeypatch.setattr(kernels, "ROWS_AT_ONCE", size)
    assert made(WALKING, whole(iter(by_flow.to_batches(size)), WALKING)) == walked(flows)


@pytest.mark.parametrize("most", [100, 2_500, 1 << 20])
def test_files_may_hold_the_records_in_any_order(
    flows: list[dict[str, object]], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = list(flows)
    Random(most).shuffle(mixed)
    chest = Chest(tmp_path, 3)
    plain = pa.schema([plain_field(field) for field in TRACES])
    for number in range(7):
        part = kernels.encoded(pa.Table.from_pylist(mixed[number::7], plain))
        chest.write(f"part-{number}", [part.slice(0, 40), part.slice(40)])
    monkeypatch.setattr(kernels, "MOST_ROWS", most)
    with chest.opened(WALKING.needs()) as drawers:
        parts = (rows for number in range(chest.drawers) for rows in divided(drawers, number, WALKING))
        assert made(WALKING, parts) == walked(flows)


def test_a_large_flow_still_ends_with_its_first_answer_and_knows_all_its_nodes(flows: list[dict[str, object]]) -> None:
    for row in walked(flows):
        assert (row["start_ts"], row["duration_us"], row["nodes"]) == (datetime(1970, 1, 1, tzinfo=UTC), 8_000_000, 2)


def test_what_is_too_large_is_counted_message_by_message(flows: list[dict[str, object]]) -> None:
    kernel = walking(NO_SKEW, NOBODY_WATCHED, large(flows))
    for row in walked(flows, kernel):
        records = sum(one["flow_id"] == row["flow_id"] for one in flows)
        messages = (records - 5) // 3 + 3
        found = [row[name] for name in ("records", "messages", "hops", "bytes")]
        assert found == [records, messages, 0, 10 * messages]
        assert (row["outcome"] == "truncated") == (records > FLOW_DETAIL_LIMIT)


def test_no_batches_and_empty_ones_give_no_rows() -> None:
    empty = traces([]).to_batches()
    assert made(WALKING, whole(iter([]), WALKING)) == []
    assert made(WALKING, whole(iter([*empty, *empty]), WALKING)) == []


def test_records_that_follow_each_other_in_a_circle_end_somewhere() -> None:
    rows = [record("f", SUBMITTED, at, at, cause=3 - at) for at in (1, 2)]
    (row,) = walked(rows)
    stages = row["critical_path"]
    assert isinstance(stages, list)
    assert sum(stage["us"] for stage in stages) == row["duration_us"]


def test_the_latest_before_is_of_the_same_group_and_never_the_record_itself() -> None:
    group = np.array([1, 1, 2, 1, 2])
    seq = np.array([5, 1, 2, 9, 7])
    wanted = np.array([True, True, False, True, True])
    assert by_group((group,), seq).latest_before(wanted).tolist() == [1, -1, -1, 0, -1]
    assert by_group((group[:0],), seq[:0]).latest_before(wanted[:0]).tolist() == []


def test_beside_marks_the_whole_group() -> None:
    group = np.array([3, 1, 3, 2])
    assert beside((group,), np.array([False, False, True, False])).tolist() == [True, False, True, False]
