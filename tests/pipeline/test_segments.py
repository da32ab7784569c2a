"""Spark reads of segments what the decoder reads of their records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hopline.datasource import records
from hopline.decoding import schemas
from hopline.decoding.batches import read_batch
from hopline.decoding.keys import Keyring
from hopline.pipeline.segments import decoded, inspected
from hopline.pipeline.tables import messages, rejects
from tests.decoding.corpus import all_frames, records_of


@pytest.mark.parametrize(
    ("decoder", "table"),
    [
        (schemas.MESSAGES, messages.MESSAGES),
        (schemas.RECORDS, records.RECORDS),
        (schemas.REJECTS, rejects.REJECTS),
    ],
)
def test_the_decoder_makes_the_columns_of_the_tables(decoder: pa.Schema, table: StructType) -> None:
    assert decoder == to_arrow_schema(table, timezone="UTC")


def test_spark_reads_the_same(spark: SparkSession, tmp_path: Path) -> None:
    batch = records_of(all_frames()[::10])
    tables = read_batch(batch, Keyring(), with_bodies=True)
    expected = {row["seq"]: row for table in tables for row in table.to_pylist()}
    pq.write_table(pa.table(batch).select(["seq", "ts", "frames"]), tmp_path / "a.parquet")
    files = spark.read.format("binaryFile").load(str(tmp_path))
    found = decoded(files, Keyring(), (None, None), with_bodies=True).collect()
    refused = inspected(files, (None, None)).where("path is null").collect()
    read = {row.seq: row.asDict(recursive=True) for row in (*found, *refused)}
    assert sorted(read) == sorted(expected)
    for seq, row in read.items():
        wanted = expected[seq] | {"segment": "a.parquet"}
        del wanted["ts"]  # which Spark gives in the time zone of the session
        assert {name: row[name] for name in wanted} == wanted
