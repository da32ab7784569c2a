"""The table of messages: every record that can be read."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hopline.pipeline.decoding.decoder import decoded
from hopline.pipeline.keys import Keyring
from hopline.pipeline.schemas import MESSAGES
from hopline.pipeline.tables.security import with_replays


def messages(records: DataFrame, keyring: Keyring | None = None) -> DataFrame:
    """Read records (as `decoding.records` gives them); what cannot be read is in `rejects`."""
    read = decoded(records, "messages", keyring)
    return with_replays(read).select(*MESSAGES.names) if keyring else read
