"""What the values of a message become in the tables; the same expressions whichever way the message was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as sf

from hopline.message import NO_FLOW, RECEIPT, TICKS_PER_MICROSECOND
from hopline.pipeline.schemas import KIND
from hopline.pipeline.windows import day

NO_FLOWS = ("", "\0" * 16, NO_FLOW.decode())
_OWN = ("KINO.", "HOPLINE.")
SERVICE_PREFIXES = (*_OWN, *(f"0x{prefix.encode().hex().upper()}" for prefix in _OWN))  # where no text follows


def text(raw: Column) -> Column:
    """Take bytes for text, right or not: without a copy."""
    return raw.cast("string")


def is_text(raw: Column) -> Column:
    """Tell whether bytes are UTF-8."""
    return sf.is_valid_utf8(text(raw))


def shown(raw: Column) -> Column:
    """Give a name off the wire as text, as `hopline.capture.records.shown` does."""
    return sf.when(is_text(raw), text(raw)).otherwise(sf.concat(sf.lit("0x"), sf.hex(raw)))


def size_of(frames: Column) -> Column:
    """Count the bytes of some frames; null where one of them is."""
    return sf.aggregate(frames, sf.lit(0).cast("bigint"), lambda size, frame: size + sf.octet_length(frame))


def ttl_us(ticks: Column) -> Column:
    """Give a lifetime in microseconds, rounded away from zero, so that what is nearly over is not unlimited."""
    rest = sf.signum(ticks % TICKS_PER_MICROSECOND).cast("bigint")
    return sf.call_function("div", ticks, sf.lit(TICKS_PER_MICROSECOND)) + rest


def flow_id(correlation_id: Column) -> Column:
    """Give the flow that a correlation id names, or null."""
    return sf.when(~correlation_id.isin(*NO_FLOWS), correlation_id)


def is_service(identity: Column) -> Column:
    """Tell the protocol's own messages, and Hopline's own requests."""
    return any_of(identity.startswith(prefix) for prefix in SERVICE_PREFIXES)


def derived() -> dict[str, Column]:
    """Give the columns that follow from the record, the header's columns and `bodies`."""
    bodies = sf.col("bodies")
    return {
        "date": day(sf.col("ts")),
        "flow_id": flow_id(sf.col("correlation_id")),
        "service": is_service(sf.col("identity")),
        "body_frames": sf.size(bodies),
        "body_bytes": size_of(bodies),
        "fingerprint": sf.xxhash64("frames"),
        "message_id": _message_id(bodies),
        "verdict": sf.lit(None).cast("string"),
    }


def _message_id(bodies: Column) -> Column:
    """Hash what does not change on the way, as text, so that it is the same in any format."""
    receipt = sf.struct(*(sf.lit(_RECEIPT[name]).alias(name) for name in KIND.names))
    return sf.xxhash64(
        *map(sf.col, ("correlation_id", "identity", "version", "partition")),
        bodies,
        sf.array_remove("callbacks", receipt),
        *map(sf.col, ("callback_receiver", "callback_receiver_node", "callback_key")),
    )


_RECEIPT = {
    "identity": RECEIPT.identity.decode(),
    "version": str(RECEIPT.version),
    "partition": RECEIPT.partition.decode(),
}


def let(value: Column, then: Callable[[Column], Column]) -> Column:
    """Compute a value once, for an expression that uses it more often: Spark would paste it into each place."""
    return sf.get(sf.transform(sf.array(value), then), sf.lit(0))


def all_of(conditions: Iterable[Column]) -> Column:
    """Tell whether every condition holds."""
    return reduce(Column.__and__, conditions)


def any_of(conditions: Iterable[Column]) -> Column:
    """Tell whether one of the conditions holds."""
    return reduce(Column.__or__, conditions)
