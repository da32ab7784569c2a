"""The schemas of records, messages and rejects, as Arrow has them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hopline.pipeline import schemas
from hopline.pipeline.folders import SPARK_SCHEMA

RECORDS, MESSAGES, REJECTS = (
    to_arrow_schema(schema, timezone="UTC") for schema in (schemas.RECORDS, schemas.MESSAGES, schemas.REJECTS)
)

RECORD_COLUMNS = tuple("local_receiver" if name == "receiver" else name for name in RECORDS.names if name != "frames")
"""The record's own columns in the tables, where its `receiver` has another name: the header has one too."""


def _in_files(schema: StructType) -> pa.Schema:
    """Give the columns as they stand in files: without the day, which the folder tells, and with their comments."""
    columns = StructType([field for field in schema if field.name != "date"])
    return to_arrow_schema(columns, timezone="UTC").with_metadata({SPARK_SCHEMA: columns.json()})


FILE_SCHEMAS = {
    "messages": _in_files(schemas.MESSAGES),
    "verified": _in_files(schemas.MESSAGES),
    "rejects": _in_files(schemas.REJECTS),
}
