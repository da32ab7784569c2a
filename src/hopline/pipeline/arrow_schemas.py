"""The schemas of tables, as Arrow has them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a schema of Spark, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")
