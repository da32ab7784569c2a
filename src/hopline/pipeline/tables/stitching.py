"""What callbacks and flows read off a message alike."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from hopline.capture.records import Event

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
    # Nearly all messages have no receiver: that is asked first, and the list of kinds last.
    return (
        (text("receiver") != "")
        & (text("receiver") == text("callback_receiver"))
        & (text("receiver_node") == text("callback_receiver_node"))
        & sf.array_contains("callbacks", sf.struct("identity", "version", "partition"))
    )


def is_home() -> Column:
    """Tell records of the node where somebody waits; of any node where the format does not say which."""
    home = text("callback_receiver_node")
    return (home == "") | (sf.col("node") == home)


def comes_home() -> Column:
    """Tell the records by which a reply is known to have reached the one who waits."""
    return sf.col("event").isin(Event.RECEIVED, Event.DELIVERED, Event.RESOLVED) & is_home() & is_reply()


def asks_for_receipt_only() -> Column:
    """Tell requests that are answered by their receipt."""
    wanted = sf.col("callbacks.identity")
    others = sf.array_except(wanted, sf.array(sf.lit(RECEIPT), sf.lit(EXCEPTION)))
    return sf.array_contains(wanted, RECEIPT) & (sf.size(others) == 0)


def may_begin() -> Column:
    """Tell messages that are nobody's answer: routers make receipts and exceptions, and no handler is their cause."""
    return ~sf.col("identity").isin(EXCEPTION, RECEIPT) & ((sf.col("event") == Event.SUBMITTED) | ~is_reply())


def is_from_waiting() -> Column:
    """Tell what the one who waits submitted itself, maybe from inside a handler of another flow."""
    return has_callback() & (text("local_receiver") == text("callback_receiver"))
