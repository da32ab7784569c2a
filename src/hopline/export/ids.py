"""The ids of traces and spans: every export of the same captures gives the same ids.

A journey whose id is a GUID, as those of Hopline and of the reference are, has the digits of the GUID as its trace id,
so that a correlation id finds its trace. Any other id is hashed, and so is the GUID of zeros only. A span is named by
the record that it begins with: its flow, message, node and number.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

_GUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"  # `$` would let a line feed follow
_NO_TRACE = "0" * 32  # which would mean that there is no trace
_SPAN_ID_DIGITS = 16


def trace_id(journey_id: Column) -> Column:
    """Return the trace of a journey: 32 hexadecimal digits."""
    digits = sf.regexp_replace(journey_id, "-", "")
    is_guid = journey_id.rlike(_GUID)
    is_usable = is_guid & (digits != _NO_TRACE)
    digest = sf.md5(journey_id)
    return sf.when(is_usable, digits).otherwise(digest)


def producer_id(seq: Column) -> Column:
    """Return the span of the message of a row that was submitted or first seen on its node as record `seq`."""
    return _span_id("producer", seq)


def consumer_id(seq: Column) -> Column:
    """Return the span of the message of a row that was delivered on its node as record `seq`."""
    return _span_id("consumer", seq)


def _span_id(kind: str, seq: Column) -> Column:
    number = sf.xxhash64(
        sf.lit(kind),
        "flow_id",
        "message_id",
        "node",
        seq,
    )
    is_zero = number == 0  # which would mean that there is no span
    never_zero = sf.when(is_zero, sf.lit(1)).otherwise(number)
    digits = sf.lower(sf.hex(never_zero))
    return sf.lpad(digits, _SPAN_ID_DIGITS, "0")
