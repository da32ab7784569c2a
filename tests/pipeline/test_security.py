"""Security: verdicts counted by window, and each offence by itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.decoding.judging import Judging
from hopline.pipeline.schemas import INCIDENTS, MESSAGES, SECURITY, VERDICTS
from hopline.pipeline.tables.security import incidents, security
from tests.pipeline.coincidences import same
from tests.pipeline.rows import START, Row, day, message, moment, rows_of, table

MINUTE = 60_000_000
NOTHING = dict.fromkeys((*VERDICTS, "unchecked"), 0)


def received(at: int, verdict: str | None, **columns: object) -> Row:
    row = message("received", "b", at=at, peer="a", domain="orders", identity="ORDER")
    return row | {"verdict": verdict} | columns


ROWS = [
    received(1, "verified"),
    received(2, "verified"),
    received(3, "replayed", flow_id="f"),
    received(4, "bad_signature"),
    received(5, None),
    received(6, "unsigned"),
    received(7, "unsigned", identity="NEWS"),
    received(8, "unsigned", identity=None),
    received(MINUTE, "wrong_domain"),
    received(2, "unknown_domain", event=None, node=None, peer=None),  # seen on the wire by another tool
    message("sent", "b", at=3, peer="a") | {"verdict": "bad_signature"},
]
OFFENCES = [("replayed", 3), ("bad_signature", 4), ("unsigned", 6), ("wrong_domain", MINUTE), ("unknown_domain", 2)]


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    return table(spark, ROWS).repartition(3)


def test_verdicts_are_counted_by_window_domain_node_and_peer(messages: DataFrame) -> None:
    here = {
        "date": day(0),
        "window_s": 60,
        "domain": "orders",
        "window_start": START,
        "node": "b",
        "peer": "a",
    } | NOTHING
    first = {"verified": 2, "replayed": 1, "bad_signature": 1, "unsigned": 3, "unchecked": 1}
    frame = security(messages)
    same(
        frame,
        [
            here | first,
            here | {"window_start": moment(MINUTE), "wrong_domain": 1},
            here | {"node": None, "peer": None, "unknown_domain": 1},
        ],
    )
    assert frame.columns == SECURITY.names


def test_offences_from_outside_are_incidents_and_what_is_unsigned_where_it_must_not_be(messages: DataFrame) -> None:
    frame = incidents(messages, ["ORDER"])
    same(frame, [{"offence": verdict, "ts": moment(at), "date": day(at), "seq": at} for verdict, at in OFFENCES])
    assert frame.columns == INCIDENTS.names


def test_what_is_noted_while_messages_are_written_is_the_same(
    spark: SparkSession, messages: DataFrame, tmp_path: Path
) -> None:
    notebook = Judging(60, ["ORDER"]).notebook(tmp_path, "part-1")
    for begin in (0, 4, 8):
        notebook.add(pa.Table.from_pylist(ROWS[begin : begin + 4], arrow_schema(MESSAGES)))
    notebook.close()
    noted = spark.read.parquet(str(tmp_path / "verdicts"))
    same(security(messages, verdicts=noted), rows_of(security(messages)))
    found = ds.dataset(tmp_path / "incidents", format="parquet", partitioning="hive").to_table().to_pylist()
    assert sorted((row["offence"], row["seq"]) for row in found) == sorted(OFFENCES)
