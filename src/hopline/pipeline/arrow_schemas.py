"""The schemas of tables, as Arrow has them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hopline.pipeline.folders import SPARK_SCHEMA


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return all columns of a table."""
    return to_arrow_schema(schema, timezone="UTC")


def file_schema(schema: StructType) -> pa.Schema:
    """Return the columns as they stand in files: without the day, which the folder tells, and with their comments."""
    columns = StructType([field for field in schema if field.name != "date"])
    return arrow_schema(columns).with_metadata({SPARK_SCHEMA: columns.json()})
