"""How Spark lays out a table in files: names in paths, and where it keeps the table's schema."""

from __future__ import annotations

DAY = "date="
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # where Spark puts rows whose partition column is null
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # Spark's own schema in every file, with the comments
