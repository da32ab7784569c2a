"""Records at random, with so few names, numbers and times that whatever may coincide does; and tables compared."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hopline.capture.records import Event
from tests.pipeline.rows import Row, message, rows_of, table

NODES = ("a", "b", "c")
RECEIVERS = ("x", "y", None)
CLASSES = {"x": "Stock"}


def coincidences(seed: int, size: int = 400) -> list[Row]:
    """Make records of a small network that makes no sense at all, but for the numbers of a node, which are its own."""
    random = Random(seed)
    seqs = dict.fromkeys(NODES, 0)
    rows = []
    for _ in range(size):
        node = random.choice(NODES)
        seqs[node] += random.choice((1, 1, 1, 1, 2, 5))
        message_id = random.randrange(5)
        event = random.choice(
            [*Event, *(Event.SENT, Event.RECEIVED) * 3, Event.SUBMITTED, Event.DELIVERED, Event.HANDLED]
        )
        crosses = event in (Event.SENT, Event.RECEIVED)
        receiver = None if crosses else random.choice(RECEIVERS)
        rows.append(
            message(
                event.value,
                random.choice((node, node, node, None)) if crosses else node,
                at=random.randrange(300_000_000) if random.random() < 0.8 else random.randrange(30) * 10_000_000,
                seq=seqs[node],
                peer=random.choice((*NODES, *NODES, "unwatched", None)) if crosses else None,
                local_receiver=receiver,
                receiver_name=CLASSES.get(receiver or ""),
                handler=CLASSES.get(receiver or "") and f"on_{message_id % 3}",
                cause=random.choice((None, random.randrange(seqs[node] + 3))),
                duration_us=random.choice((None, random.randrange(20), random.randrange(1_000_000))),
                reason=random.choice((None, None, "why")),
                dropped=random.choice((0, 0, 0, 1, 3)),
                message_id=message_id,
                fingerprint=message_id * 10 + random.randrange(2),
                distribution=message_id % 2,
                identity=f"KIND{message_id % 3}",
                bytes=100 + message_id,
            )
        )
    return rows


def with_slow_ways(rows: list[Row], to: str = "c") -> list[Row]:
    """Let everything arrive at one node so late that its clock can be compared with the others, which do not agree."""
    late = timedelta(seconds=600)
    return [row | {"ts": row["ts"] + late} if (row["event"], row["node"]) == ("received", to) else row for row in rows]


def scattered(spark: SparkSession, rows: list[Row], partitions: int) -> DataFrame:
    """Make a table of the rows in another order, in so many partitions."""
    mixed = list(rows)
    Random(partitions).shuffle(mixed)
    return table(spark, mixed).repartition(partitions)


def in_order(rows: list[Row]) -> list[Row]:
    """Sort rows by all of their columns."""
    return sorted(rows, key=repr)


def same(frame: DataFrame, expected: list[dict[str, Any]]) -> None:
    """Check that a table has these rows, in whatever order; columns that are not expected are not looked at."""
    names = list(expected[0]) if expected else []
    found = [{name: row[name] for name in names} for row in rows_of(frame)]
    assert [row for row in found if row not in expected] == [], [row for row in expected if row not in found]
    assert in_order(found) == in_order(expected)


PARTITIONS = pytest.mark.parametrize("partitions", [1, 7, 64])


def nearest_rank(values: list[int | None], percent: int) -> int | None:
    """Give the smallest value such that at least so many percent are not above it, the long way."""
    known = sorted(value for value in values if value is not None)
    return next((at for at in known if 100 * sum(value <= at for value in known) >= percent * len(known)), None)
