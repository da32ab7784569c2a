"""Offences, one row each: messages that were forged, mislabelled, sent again, or not signed where they must be."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import INCIDENTS
from hopline.pipeline.tables.by_flow import OFFENCES
from hopline.pipeline.tables.security import from_outside
from hopline.pipeline.windows import day


def incidents(arrivals: DataFrame, signed_identities: Iterable[str] = ()) -> DataFrame:
    """Return every offence.

    Args:
        arrivals: Messages with their verdicts, replays included; what did not come from outside does not count.
        signed_identities: The kinds of messages that must be signed.
    """
    verdict = sf.col("verdict")
    lacks_signature = (verdict == "unsigned") & sf.col("identity").isin(list(signed_identities))
    return (
        arrivals.where(from_outside() & (verdict.isin(*OFFENCES) | lacks_signature))
        .withColumns({"offence": verdict, "date": day(sf.col("ts"))})
        .to(INCIDENTS)
    )
