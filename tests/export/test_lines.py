"""How spans become lines, on spans made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hopline.export import attributes as at
from hopline.export import lines, otlp, zipkin
from tests.export.otlp_lines import read_request, spans_of
from tests.export.zipkin_rules import check_spans

TRACE = "0" * 31 + "1"


def span(number: int, **columns: Any) -> dict[str, Any]:
    """Return a row of spans, of one trace and two nodes, `number` microseconds late."""
    empty: list[object] = []
    names = {"trace_id": TRACE, "span_id": f"{number + 1:016x}", "kind": at.PRODUCER, "name": "send A"}
    times = {"node": "ab"[number % 2], "start_us": 10 + number, "end_us": 10 + number, "dropped_events": 0}
    return names | times | {"attributes": empty, "events": empty, "links": empty} | columns


def spans(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(rows, at.SPANS).repartition(2)


def ids_of(line: str) -> list[int]:
    return [int(one.id, 16) - 1 for one in spans_of(read_request(line))]


def test_a_trace_is_divided_into_lines_of_so_many_spans_in_order_of_time(spark: SparkSession) -> None:
    count = 2 * lines.SPANS_A_LINE + 1
    rows = otlp.lines(spans(spark, [span(number) for number in range(count)])).orderBy("part").collect()
    assert [(row.part, row.spans) for row in rows] == [(0, 500), (1, 500), (2, 1)]
    assert [sorted(ids_of(row.value)) for row in rows] == [
        [*range(500)],
        [*range(500, 1000)],
        [1000],
    ]
    assert ids_of(rows[0].value) == [*range(0, 500, 2), *range(1, 500, 2)], "by node, then by time"


def test_a_line_is_no_longer_than_the_limit_and_one_span(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BYTES_A_LINE", 4_000)
    rows = [span(number, name="é" * (3_000 if number == 2 else 1_000)) for number in range(6)]
    written = otlp.lines(spans(spark, rows)).orderBy("part").collect()
    assert [sorted(ids_of(row.value)) for row in written] == [[0, 1], [2], [3], [4, 5]]
    assert written[0].part == 0


def test_times_that_no_reader_could_keep_are_cut(spark: SparkSession) -> None:
    year_9999 = 253_402_300_799_999_999
    happened = {"time_us": year_9999, "name": "hop", "attributes": []}
    made = spans(spark, [span(0, start_us=year_9999, end_us=year_9999 + 1, events=[happened])])
    [line] = otlp.lines(made).collect()
    [late] = spans_of(read_request(line.value))
    nanos = (late.proto.start_time_unix_nano, late.proto.end_time_unix_nano, late.proto.events[0].time_unix_nano)
    assert set(nanos) == {2**63 // 1_000 * 1_000}


def test_what_was_dropped_of_a_span_is_told_in_both_formats(spark: SparkSession) -> None:
    made = spans(spark, [span(0, dropped_events=3), span(1)])
    [line] = otlp.lines(made).collect()
    dropped = {one.id: one.proto.dropped_events_count for one in spans_of(read_request(line.value))}
    assert sorted(dropped.values()) == [0, 3]
    [line] = zipkin.lines(made).collect()
    tags = [one["tags"].get("hopline.dropped_events") for one in check_spans(json.loads(line.value))]
    assert sorted(tags, key=str) == ["3", None]
