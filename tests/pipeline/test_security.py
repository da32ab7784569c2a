"""Security: verdicts counted by window, and each offence by itself."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from hopline.pipeline.tables.incidents import INCIDENTS, incidents
from hopline.pipeline.tables.security import SECURITY, VERDICTS, repeats, security, with_replays
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


def test_what_a_node_received_again_is_replayed_and_the_first_by_number_is_the_real_one(spark: SparkSession) -> None:
    said = [(5, "b", 1), (3, "b", 1), (9, "b", 1), (4, "c", 1), (6, "b", 2)]
    rows = [received(seq, "verified", node=node, fingerprint=bytes_) for seq, node, bytes_ in said]
    rows += [received(1, "bad_signature", fingerprint=1), received(2, None, fingerprint=1)]
    messages = table(spark, rows).repartition(3)
    judged = with_replays(messages, repeats(messages))
    assert sorted((row["seq"], row["verdict"] or "") for row in rows_of(judged)) == [
        (1, "bad_signature"),
        (2, ""),
        (3, "verified"),
        (4, "verified"),
        (5, "replayed"),
        (6, "verified"),
        (9, "replayed"),
    ]
