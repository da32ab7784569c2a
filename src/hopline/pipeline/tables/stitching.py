"""What callbacks and flows read off a message alike."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

# A message with such a verdict carries somebody's correlation id, but is not part of that flow.
OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")
EXCEPTION, RECEIPT = "KINO.EXCEPTION", "KINO.RCPTCONFIRM"


def text(name: str) -> Column:
    """Read a name of a field that a format may not have: unset is empty, however it came."""
    return sf.coalesce(sf.col(name), sf.lit(""))


def is_offence() -> Column:
    """Tell forged and replayed messages."""
    return sf.coalesce(sf.col("verdict").isin(*OFFENCES), sf.lit(False))


def trail() -> Column:
    """Count how often the flow was sent on: a result starts with no hops, but keeps the trace of what it answers."""
    return sf.greatest(sf.coalesce(sf.col("hops"), sf.lit(0)), sf.coalesce(sf.size("routing"), sf.lit(0)))


def has_callback() -> Column:
    """Tell messages that somebody waits behind."""
    return (text("callback_receiver") != "") & (sf.coalesce(sf.size("callbacks"), sf.lit(0)) > 0)


def is_reply() -> Column:
    """Tell messages that are what somebody waits for: the protocol then makes the one who waits their receiver."""
    kind = sf.struct("identity", "version", "partition")
    return (
        has_callback()
        & (text("receiver") == text("callback_receiver"))
        & (text("receiver_node") == text("callback_receiver_node"))
        & sf.array_contains("callbacks", kind)
    )


def comes_home() -> Column:
    """Tell the records by which a reply is known to have reached the node of the one who waits."""
    home = text("callback_receiver_node")
    return sf.col("event").isin("received", "delivered", "resolved") & ((home == "") | (sf.col("node") == home))


def asks_for_receipt_only() -> Column:
    """Tell requests that are answered by their receipt."""
    wanted = sf.filter("callbacks", lambda point: ~point["identity"].isin(RECEIPT, EXCEPTION))
    return sf.array_contains(sf.col("callbacks.identity"), RECEIPT) & (sf.size(wanted) == 0)


def may_begin() -> Column:
    """Tell messages that are nobody's answer: routers make receipts and exceptions, and no handler is their cause."""
    return ~sf.col("identity").isin(EXCEPTION, RECEIPT) & ((sf.col("event") == "submitted") | ~is_reply())


def is_from_waiting() -> Column:
    """Tell what the one who waits submitted itself, maybe from inside a handler of another flow."""
    return has_callback() & (text("local_receiver") == text("callback_receiver"))
