"""The schemas of records, messages and rejects, as Arrow has them."""

from __future__ import annotations

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.tables import messages, recorded, rejects

RECORDS = arrow_schema(recorded.RECORDS)
MESSAGES = arrow_schema(messages.MESSAGES)
REJECTS = arrow_schema(rejects.REJECTS)

RECORD_COLUMNS = tuple("local_receiver" if name == "receiver" else name for name in RECORDS.names if name != "frames")
"""The record's own columns in the tables, where its `receiver` has another name: the header has one too."""
