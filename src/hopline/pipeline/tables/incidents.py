"""Offences, one row each: messages that were forged, mislabelled, sent again, or not signed where they must be."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.tables.by_flow import OFFENCES
from hopline.pipeline.tables.findings import Finding, Seen, number, short
from hopline.pipeline.tables.security import from_outside
from hopline.pipeline.tables.table import BYTES, DATE, LONG, TEXT, TIME, Table, columns
from hopline.pipeline.windows import day

INCIDENTS = columns(
    ("date", DATE, "day"),
    ("ts", TIME, "time of arrival, by the clock of node"),
    ("node", TEXT, "node that received it"),
    ("seq", LONG, "seq of its record"),
    ("peer", TEXT, "node on the other side of the link"),
    ("offence", TEXT, "verdict that makes it an incident"),
    ("domain", TEXT, "domain label of the message"),
    ("flow_id", TEXT, "flow that it claims to be part of, or null"),
    ("identity", TEXT, "kind of message"),
    ("version", TEXT, "version of the kind"),
    ("partition", TEXT, "partition of the kind"),
    ("message_id", LONG, "message"),
    ("fingerprint", LONG, "hash of its frames"),
    ("signature", BYTES, "signature that it came with"),
)


def incidents(judged: DataFrame, signed_identities: Iterable[str] = ()) -> DataFrame:
    """Return every offence.

    Args:
        judged: Messages with their verdicts, replays included; what did not come from outside does not count.
        signed_identities: The kinds of messages that must be signed.
    """
    verdict = sf.col("verdict")
    lacks_signature = (verdict == "unsigned") & sf.col("identity").isin(list(signed_identities))
    return (
        judged.where(from_outside() & (verdict.isin(*OFFENCES) | lacks_signature))
        .withColumns({"offence": verdict, "date": day(sf.col("ts"))})
        .to(INCIDENTS)
    )


def _incidents_by_offence(seen: Seen) -> Finding:
    counts = seen.counts("offence", "node", "peer")
    rows = tuple((offence, short(node), short(peer), number(count)) for (offence, node, peer), count in counts)
    first = counts[0][0][0] if counts else ""
    title = f"Incidents: {number(sum(count for _, count in counts))}"
    return Finding(
        title, ("offence", "node", "from", "messages"), rows, seen.command(f"offence = '{first}'"), is_trouble=True
    )


TABLE = Table(
    name="incidents",
    meaning="one row per message that was forged, mislabelled, replayed or not signed",
    schema=INCIDENTS,
    shown_first=("ts", "node", "peer", "offence", "identity", "flow_id"),
    function=incidents,
    findings=(_incidents_by_offence,),
)
