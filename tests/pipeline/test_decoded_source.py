"""The data source `hopline` with decoded messages, and with the records that could not be decoded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter
from pyspark.sql.types import StructType

from hopline.datasource.source import HoplineSource, SegmentReader
from hopline.decoding.keys import Keyring
from hopline.generator import Options, generate
from hopline.generator.catalogue import DEFAULT_RATES
from hopline.message import ArgumentError
from hopline.pipeline.segments import decoded, inspected
from hopline.pipeline.tables.messages import MESSAGES
from hopline.pipeline.tables.rejects import REJECTS
from tests.pipeline.capture_files import record, write_capture, write_segment

TERMINATES_WITHIN_S = 60


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("captures"))


def read(path: Path, *filters: Filter, columns: StructType = MESSAGES, **options: str) -> list[dict[str, Any]]:
    """Read without Spark's processes."""
    source = HoplineSource({"path": str(path), "table": "messages"} | options)
    reader = source.reader(columns)
    assert isinstance(reader, SegmentReader)
    reader.pushFilters(list(filters))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def by_number(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row["node"], row["seq"]))


@pytest.mark.parametrize(("table", "columns"), [("messages", MESSAGES), ("rejects", REJECTS)])
def test_it_reads_what_the_pipeline_writes(
    spark: SparkSession, captures: Path, table: str, columns: StructType
) -> None:
    source = spark.read.format("hopline").option("table", table).load(str(captures))
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(str(captures))
    everything = (None, None)
    if table == "messages":
        expected = decoded(files, Keyring(), everything).collect()
    else:
        expected = inspected(files, everything).where("path is null").select(*REJECTS.names).collect()
    assert expected
    assert [(field.name, field.dataType) for field in source.schema] == [
        (field.name, field.dataType) for field in columns
    ]
    assert by_number(source.collect()) == by_number(expected)


def test_a_filter_on_the_header_is_not_taken_for_one_on_the_record(tmp_path: Path) -> None:
    write_segment(tmp_path / "a-0-0.parquet", [record(seq, receiver="an actor") for seq in range(4)])
    assert len(read(tmp_path)) == 4
    assert len(read(tmp_path, EqualTo(("seq",), 2))) == 1
    # The record's own receiver is the column `local_receiver`; the message is addressed to nobody.
    assert len(read(tmp_path, EqualTo(("receiver",), ""))) == 4
    assert len(read(tmp_path, EqualTo(("local_receiver",), "an actor"))) == 4


def test_only_the_columns_that_were_asked_for_are_returned(captures: Path) -> None:
    rows = read(captures, columns=StructType([MESSAGES["identity"], MESSAGES["seq"]]))
    assert {tuple(row) for row in rows} == {("identity", "seq")}
    assert {row["identity"] for row in rows} == {"KIND-0", "KIND-1", "KIND-2"}


def test_bodies_are_kept_on_request(captures: Path) -> None:
    assert {row["bodies"] for row in read(captures)} == {None}
    assert {tuple(row["bodies"]) for row in read(captures, withbodies="true")} == {(b"body",)}


def test_keys_verify_the_signatures(tmp_path: Path) -> None:
    generate(tmp_path, Options(messages=2_000, seed=3, rates=DEFAULT_RATES | {"forged": 0.05}))
    unchecked = read(tmp_path / "captures")
    assert {row["verdict"] for row in unchecked} == {None, "unsigned"}
    checked = read(tmp_path / "captures", keys=str(tmp_path / "keys/hopline.toml"))
    assert len(checked) == len(unchecked)
    verdicts = Counter(row["verdict"] for row in checked if row["event"] == "received")
    assert verdicts["verified"] > verdicts["bad_signature"] > 0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"table": "flows"}, "table"),
        ({"table": "records", "keys": "hopline.toml"}, "keys"),
        ({"table": "rejects", "withbodies": "true"}, "withbodies"),
        ({"table": "messages", "withbodies": "perhaps"}, "withBodies"),
    ],
)
def test_options_that_make_no_sense_are_refused(captures: Path, options: dict[str, str], field: str) -> None:
    source = HoplineSource({"path": str(captures)} | options)
    with pytest.raises(ArgumentError) as caught:
        source.reader(source.schema())
    assert caught.value.field == field


def test_a_column_that_the_table_has_not_is_refused(captures: Path) -> None:
    with pytest.raises(ArgumentError, match="schema: expected columns among date date, ts timestamp"):
        read(captures, columns=StructType([REJECTS["code"]]))


def test_a_stream_decodes_every_segment_once(spark: SparkSession, tmp_path: Path) -> None:
    captures, seen = tmp_path / "captures", str(tmp_path / "seen")
    stream = spark.readStream.format("hopline").option("table", "messages").load(str(captures))
    writer = stream.select("seq", "identity").writeStream.format("parquet").trigger(availableNow=True)
    for start in (0, 20):
        write_segment(captures / f"a-{start}-0.parquet", [record(seq) for seq in range(start, start + 20)])
        query = writer.option("checkpointLocation", f"{seen}.state").start(seen)
        assert query.awaitTermination(TERMINATES_WITHIN_S)
    rows = sorted(tuple(row) for row in spark.read.parquet(seen).collect())
    assert rows == [(seq, f"KIND-{seq % 3}") for seq in range(40) if seq % 10 != 9]
