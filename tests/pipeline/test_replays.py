"""Replays: of all messages with the same bytes at one node, the first is verified, and whatever comes again is not."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run


def test_records_that_are_the_same_in_everything_are_verified_once(spark: SparkSession, tmp_path: Path) -> None:
    made, tables = tmp_path / "made", tmp_path / "tables"
    generate(made, Options(messages=2_000, seed=9))
    for segment in sorted((made / "captures").rglob("*.parquet")):
        shutil.copy(segment, segment.with_name(f"copy-of-{segment.name}"))
    options = PipelineOptions(
        captures=(str(made / "captures"),),
        out=tables,
        keys=made / "keys/hopline.toml",
        tables=("messages", "incidents"),
    )
    report = run(options, spark)
    assert report.records == report.messages + report.rejects
    verified: Counter[tuple[str, int]] = Counter()
    for row in ds.dataset(tables / "messages").to_table(["node", "fingerprint", "verdict"]).to_pylist():
        if row["verdict"] == "verified":
            verified[row["node"], row["fingerprint"]] += 1
    replayed: Counter[tuple[str, int]] = Counter()
    for row in ds.dataset(tables / "incidents").to_table(["node", "fingerprint", "offence"]).to_pylist():
        if row["offence"] == "replayed":
            replayed[row["node"], row["fingerprint"]] += 1
    assert verified
    assert replayed == {message: count - 1 for message, count in verified.items()}
