"""What a trace is, and how it is read off a message. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hopline.capture.events import ENDINGS, Event
from hopline.message import EXCEPTION, RECEIPT
from hopline.pipeline.decoding.digests import of_texts

Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

# Events by their place in `Event`, from 1; 0 is none. From the first ending on, all are endings.
EVENTS = {event: number for number, event in enumerate(Event, 1)}
SUBMITTED, SENT, RECEIVED, DELIVERED, HANDLED, RESOLVED, EXPIRED, REJECTED = (
    EVENTS[event]
    for event in (
        *(Event.SUBMITTED, Event.SENT, Event.RECEIVED, Event.DELIVERED, Event.HANDLED, Event.RESOLVED),
        *(Event.EXPIRED, Event.REJECTED),
    )
)
ENDED = EVENTS[ENDINGS[0]]

# A message with such a verdict carries somebody's correlation id, but is not part of that flow.
OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")

# What may be said of a record with yes or no, a bit each.
MAY_BEGIN, FROM_WAITING, ANSWER, IS_RECEIPT, RECEIPT_ENOUGH, OFFENCE, VERIFIED, FAILED = (1 << bit for bit in range(8))

KIND = ("identity", "version", "partition")
_TEXT = pa.dictionary(pa.int32(), pa.string())
TRACES = pa.schema(
    [
        ("flow", pa.int64()),  # a digest of flow_id, 0 where there is none
        ("flow_id", pa.string()),
        ("message_id", pa.int64()),
        ("fingerprint", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("node", _TEXT),
        ("event", pa.int8()),
        ("peer", _TEXT),
        ("local_receiver", _TEXT),
        ("receiver_name", _TEXT),
        ("handler", _TEXT),
        ("cause", pa.int64()),
        ("duration_us", pa.int64()),
        ("service", pa.bool_()),
        ("wire_format", _TEXT),
        ("identity", _TEXT),
        ("version", _TEXT),
        ("partition", _TEXT),
        ("hops", pa.int32()),
        ("distribution", pa.int32()),
        ("bytes", pa.int64()),
        ("flags", pa.int32()),
        ("trail", pa.int32()),
        ("ask", pa.int64()),  # a digest of the flow and of who waits in it for what; 0 where nobody does
        ("rank", pa.int8()),  # of a record that may be the request's own: see `_ranks`; null for the others
        ("callback_receiver_node", _TEXT),
        ("callback_receiver", _TEXT),  # null where nobody waits
        ("callback_key", pa.int64()),
        ("callbacks", pa.list_(pa.struct([(name, pa.string()) for name in KIND]))),  # of requests
        ("ttl_us", pa.int64()),
        ("sender", _TEXT),  # of answers, where neither peer nor node is
    ]
)

NEEDED = (
    *("flow_id", "message_id", "fingerprint", "ts", "seq", "node", "event", "peer", "local_receiver", "cause"),
    *(
        "receiver_name",
        "handler",
        "duration_us",
        "reason",
        "service",
        "wire_format",
        "identity",
        "version",
        "partition",
        "receiver",
    ),
    *("receiver_node", "callback_receiver", "callback_receiver_node", "callback_key", "callbacks", "routing"),
    *("hops", "distribution", "ttl_us", "bytes", "verdict"),
)
"""The columns of messages that traces are made of."""


def plain_field(field: pa.Field) -> pa.Field:
    """Give a field a type that Spark knows."""
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field


Columns: TypeAlias = Mapping[str, pa.Array]


def traces_of(messages: pa.Table | pa.RecordBatch) -> pa.Table:
    """Make the traces of some messages."""
    said = {name: _whole(messages.column(name)) for name in NEEDED}
    event: Longs = pc.index_in(said["event"], value_set=_EVENT_NAMES).fill_null(-1).to_numpy().astype(np.int64) + 1
    traits = _Traits(said, event)
    is_request = traits.rank > 0
    flow = _flows(said["flow_id"])
    columns = dict(said) | {
        "flow": pa.array(flow),
        "event": pa.array(event, pa.int8()),
        "flags": pa.array(traits.flags(), pa.int32()),
        "trail": pa.array(traits.trail, pa.int32()),
        "ask": pa.array(np.where(traits.has_callback & (flow != 0), _asks(said, flow), 0)),
        "rank": pa.array(traits.rank, pa.int8(), mask=~is_request),
        "callback_receiver_node": _text(said["callback_receiver_node"]),
        "callback_receiver": pc.if_else(pa.array(traits.has_callback), said["callback_receiver"], None),
        "callback_key": pc.fill_null(said["callback_key"], 0),
        "callbacks": said["callbacks"].take(pa.array(np.arange(len(event)), mask=~is_request)),
        "ttl_us": pc.fill_null(said["ttl_us"], 0),
        "sender": traits.senders(),
    }
    return pa.table([_as(columns[field.name], field.type) for field in TRACES], schema=TRACES)


_MIX = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: neighbours end up far from each other
_EVENT_NAMES = pa.array([event.value for event in EVENTS])
_RECEIPT, _EXCEPTION = RECEIPT.identity.decode(), EXCEPTION.identity.decode()


class _Traits:
    """What messages and their records are to those who wait, worked out for all of them at once."""

    def __init__(self, said: Columns, event: Longs) -> None:
        self._said = said
        self._event = event
        self._waits = _text(said["callback_receiver"])
        self._kinds = _Lists(said["callbacks"])
        self.has_callback = _flags(pc.not_equal(self._waits, "")) & (self._kinds.sizes > 0)
        self._routing = _Lists(said["routing"])
        self.trail: Longs = np.maximum(_numbers(said["hops"]), self._routing.sizes)
        self._is_receipt = _flags(pc.equal(said["identity"], _RECEIPT))
        self._is_reply = self._replies()
        self._may_begin = ~self._is_receipt & ~_flags(pc.equal(said["identity"], _EXCEPTION))
        self._may_begin &= (event == SUBMITTED) | ~self._is_reply
        self._is_from_waiting = self.has_callback & _flags(pc.equal(_text(said["local_receiver"]), self._waits))
        home = _text(said["callback_receiver_node"])
        # Where the format does not say which node waits, any may.
        self._is_home = _flags(pc.or_(pc.equal(home, ""), pc.fill_null(pc.equal(said["node"], home), False)))
        comes = (event == RECEIVED) | (event == DELIVERED) | (event == RESOLVED)
        self._comes_home: Flags = comes & self._is_home & self._is_reply
        self.rank = self._ranks()

    def flags(self) -> Longs:
        """Give all that is said with yes or no."""
        verdict = self._said["verdict"]
        bits = {
            MAY_BEGIN: self._may_begin,
            FROM_WAITING: self._is_from_waiting,
            ANSWER: self._comes_home,
            IS_RECEIPT: self._is_receipt,
            RECEIPT_ENOUGH: self._asks_for_receipt_only(),
            OFFENCE: _flags(pc.is_in(verdict, value_set=pa.array(OFFENCES))),
            VERIFIED: _flags(pc.equal(verdict, "verified")),
            FAILED: self._said["reason"].is_valid().to_numpy(zero_copy_only=False),
        }
        total: Longs = sum((flags * np.int64(bit) for bit, flags in bits.items()), np.zeros(len(self._event), np.int64))
        return total

    def senders(self) -> pa.Array:
        """Give the last router of answers where the record does not say who sent them."""
        routing, has_peer = self._said["routing"], self._said["peer"].is_valid().to_numpy(zero_copy_only=False)
        wanted = self._comes_home & ~((self._event == RECEIVED) & has_peer) & (self._routing.sizes > 0)
        wanted &= _numbers(self._said["hops"]) > 0
        last = np.maximum(self._routing.begins[1:] - 1, 0)
        return routing.values.field("identity").take(pa.array(last, mask=~wanted))

    def _replies(self) -> Flags:
        """Tell what somebody waits for: the protocol then makes the one who waits its receiver."""
        said = self._said
        receiver = _text(said["receiver"])
        is_reply = _flags(pc.and_(pc.not_equal(receiver, ""), pc.equal(receiver, self._waits)))
        is_reply &= _flags(pc.equal(_text(said["receiver_node"]), _text(said["callback_receiver_node"])))
        if is_reply.any():
            rows = np.flatnonzero(is_reply & (self._kinds.sizes > 0))
            at, row = self._kinds.entries_of(rows)
            is_same = np.ones(len(at), np.bool_)
            for name in KIND:
                wanted = said["callbacks"].values.field(name).take(pa.array(at))
                is_same &= _flags(pc.equal(wanted, said[name].take(pa.array(row))))
            is_reply = np.zeros(len(is_reply), np.bool_)
            is_reply[row[is_same]] = True
        return is_reply

    def _asks_for_receipt_only(self) -> Flags:
        """Tell requests that are answered by their receipt."""
        identities = self._said["callbacks"].values.field("identity")
        is_receipt, is_exception = (_flags(pc.equal(identities, name)) for name in (_RECEIPT, _EXCEPTION))
        found: Flags = self._kinds.has(is_receipt) & ~self._kinds.has(~is_receipt & ~is_exception)
        return found

    def _ranks(self) -> Longs:
        """Rank records that may be the request's own: 1 as whoever waits submitted it, 2 as it left, 3 as it came."""
        event, has_cause = self._event, self._said["cause"].is_valid().to_numpy(zero_copy_only=False)
        is_first = np.where(event == SUBMITTED, ~has_cause | self._is_from_waiting, self.trail <= 1)
        is_first &= self.has_callback & self._may_begin
        leaves = self._is_home & is_first
        ranks = np.select(
            [leaves & (event == SUBMITTED), leaves & (event == SENT), is_first & (event == RECEIVED)], [1, 2, 3], 0
        )
        return ranks.astype(np.int64)


class _Lists:
    """Where the entries of lists are."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.begins: Longs = lists.offsets.to_numpy().astype(np.int64)
        self.sizes: Longs = np.diff(self.begins)

    def has(self, wanted: Flags) -> Flags:
        """Tell which lists have an entry that is wanted."""
        before = np.concatenate(([0], np.cumsum(wanted)))
        found: Flags = before[self.begins[1:]] > before[self.begins[:-1]]
        return found

    def entries_of(self, rows: Longs) -> tuple[Longs, Longs]:
        """Give the places of all entries of some rows, and the row of each."""
        sizes = self.sizes[rows]
        row = np.repeat(rows, sizes)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.begins[row] + nth, row


def _flows(flow_ids: pa.StringArray) -> Longs:
    """Give each flow a number that is not 0."""
    digests: Longs = of_texts(pc.fill_null(flow_ids, "")).view(np.int64)
    is_flow = flow_ids.is_valid().to_numpy(zero_copy_only=False)
    found: Longs = np.where(is_flow, np.where(digests == 0, 1, digests), 0)
    return found


def _asks(said: Columns, flow: Longs) -> Longs:
    """Give each flow with one who waits, and for what, a number that is not 0."""
    parts = [of_texts(_text(said[name])) for name in ("callback_receiver_node", "callback_receiver")]
    parts += [_numbers(said["callback_key"]).view(np.uint64), flow.view(np.uint64)]
    return mixed(parts).view(np.int64) | 1


def mixed(parts: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Make one number of several, which tells nothing of their order."""
    whole = np.zeros(len(parts[0]), np.uint64)
    for part in parts:
        whole = (whole ^ part) * _MIX
        whole ^= whole >> np.uint64(32)
    return whole


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return column.dictionary_encode()
    return column.cast(type_)


def _text(texts: pa.StringArray) -> pa.StringArray:
    """Read a name of a field that a format may not have: unset is empty, however it came."""
    return pc.fill_null(texts, "")


def _flags(flags: pa.BooleanArray) -> Flags:
    found: Flags = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return found


def _numbers(numbers: pa.Array) -> Longs:
    found: Longs = pc.fill_null(numbers, 0).to_numpy().astype(np.int64)
    return found
