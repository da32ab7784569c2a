from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from hopline.export.ids import trace_id

GUID = "0f1e2d3c-0000-4000-8000-00000000000a"


@pytest.mark.parametrize(
    ("journey", "is_kept"),
    [
        (GUID, True),
        (GUID.upper(), False),
        (f"{GUID}\n", False),
        ("00000000-0000-0000-0000-000000000000", False),
        ("", False),
        ("\udc80 \x00", False),
    ],
)
def test_a_trace_id_is_the_guid_or_a_hash_and_always_valid(spark: SparkSession, journey: str, is_kept: bool) -> None:
    text = journey.encode("utf-8", "surrogateescape").hex()
    row = spark.range(1).select(trace_id(sf.unhex(sf.lit(text)).cast("string")).alias("id")).collect()[0]
    assert re.fullmatch("[0-9a-f]{32}", row.id)
    assert set(row.id) != {"0"}
    assert (row.id == journey.replace("-", "")) == is_kept
