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
        captures=(str(made / "captures"),), out=tables, keys=made / "keys/hopline.toml", tables=("messages",)
    )
    report = run(options, spark)
    assert report.records == report.messages + report.rejects
    verdicts: dict[tuple[str, int], Counter[str]] = {}
    for row in ds.dataset(tables / "messages").to_table(["node", "fingerprint", "verdict"]).to_pylist():
        if row["verdict"] in ("verified", "replayed"):
            verdicts.setdefault((row["node"], row["fingerprint"]), Counter())[row["verdict"]] += 1
    assert verdicts
    assert all(found["verified"] == 1 and found["replayed"] >= 1 for found in verdicts.values())
