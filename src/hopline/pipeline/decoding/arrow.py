"""The schemas of records, messages and rejects, as Arrow has them."""

from __future__ import annotations

from hopline.pipeline import schemas
from hopline.pipeline.arrow_schemas import arrow_schema

RECORDS, MESSAGES, REJECTS = (arrow_schema(schema) for schema in (schemas.RECORDS, schemas.MESSAGES, schemas.REJECTS))

RECORD_COLUMNS = tuple("local_receiver" if name == "receiver" else name for name in RECORDS.names if name != "frames")
"""The record's own columns in the tables, where its `receiver` has another name: the header has one too."""
