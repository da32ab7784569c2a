"""How a table lies on the disk: a folder, a folder in it for each day, files in these."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq

from hopline.pipeline.days import Days

DAY = "date="
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # where Spark puts rows whose partition column is null
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # Spark's own schema in every file, with the comments


def day_of(folder: Path) -> date | None:
    """Tell the day of a partition's folder; None for the one of rows without a day."""
    text = folder.name.removeprefix(DAY)
    return None if text == NO_DAY else date.fromisoformat(text)


def partitions(table: Path) -> list[Path]:
    """List the folders of a table's days."""
    return sorted(table.glob(f"{DAY}*"))


def data_files(folder: Path) -> list[Path]:
    """List the files with rows below a folder."""
    return sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith((".", "_")))


def row_count(folder: Path, days: Days | None = None) -> int:
    """Count the rows of a table by what its files say, of some days or of all."""
    kept = [folder] if days is None else [one for one in partitions(folder) if day_of(one) in days]
    return sum(pq.read_metadata(file).num_rows for one in kept for file in data_files(one))
