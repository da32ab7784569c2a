"""What the keys say of messages from outside, counted and picked out as they are written. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.events import Event
from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import INCIDENTS
from hopline.pipeline.traces.arrays import days_of, in_windows
from hopline.pipeline.traces.columns import OFFENCES

JUDGED = (*(name for name in INCIDENTS.names if name not in ("date", "offence")), "event", "verdict")
"""The columns of messages that are looked at."""

VERDICTS = pa.schema(
    [
        ("window_start", pa.timestamp("us", "UTC")),
        ("domain", pa.string()),
        ("node", pa.string()),
        ("peer", pa.string()),
        ("verdict", pa.string()),
        ("messages", pa.int64()),
    ]
)
_INCIDENTS = arrow_schema(INCIDENTS)


def from_outside(messages: pa.Table) -> pa.Table:
    """Give the messages that arrived: from another node, or seen on the wire by another tool."""
    event = messages["event"]
    return messages.select(list(JUDGED)).filter(pc.or_kleene(pc.is_null(event), pc.equal(event, Event.RECEIVED.value)))


def verdicts_of(arrived: pa.Table, window_s: int) -> pa.Table:
    """Count verdicts by window, domain, node and peer."""
    keys = [name for name in VERDICTS.names if name != "messages"]
    in_window = arrived.append_column("window_start", in_windows(arrived["ts"], window_s))
    counted = in_window.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "messages"}).select(VERDICTS.names).cast(VERDICTS)


def incidents_of(arrived: pa.Table, signed_identities: Sequence[str]) -> pa.Table:
    """Give every offence; a message without a signature is one where its identity is signed."""
    verdict = arrived["verdict"]
    signed = pa.array(signed_identities, pa.string())
    is_naked = pc.and_(pc.equal(verdict, "unsigned"), pc.is_in(arrived["identity"], value_set=signed))
    is_offence = pc.or_(pc.is_in(verdict, value_set=pa.array(OFFENCES)), pc.fill_null(is_naked, False))
    found = arrived.filter(is_offence)
    found = found.append_column("date", days_of(found["ts"]))
    return found.rename_columns({"verdict": "offence"}).select(_INCIDENTS.names).cast(_INCIDENTS)
