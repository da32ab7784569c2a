"""The table of messages: every record that can be read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.decoding import careful, decoded
from hopline.pipeline.keys import Keyring
from hopline.pipeline.schemas import MESSAGES


def messages(records: DataFrame, keyring: Keyring | None = None) -> DataFrame:
    """Read records (as `decoding.records` gives them); what cannot be read is in `rejects`.

    Both ways in one: the records are scanned twice, once for what is plain and once for what is odd. The job writes
    `decoded` once instead.
    """
    read = decoded(records, keyring)
    return plain_messages(read).unionByName(careful_messages(careful(read.where("odd"), keyring)))


def plain_messages(read: DataFrame) -> DataFrame:
    """Take the messages out of what `decoded` gave."""
    return read.where(~sf.col("odd")).select(*MESSAGES.names).to(MESSAGES)


def careful_messages(read: DataFrame) -> DataFrame:
    """Take the messages out of what `careful` gave."""
    return read.where(sf.col("code").isNull()).select(*MESSAGES.names).to(MESSAGES)
