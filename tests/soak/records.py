"""The captured records of a run in a database, and what is asked of them.

The records are decoded by `hopline.decoding`, without Spark, so that they can be held against the counters of the nodes
and against the tables. Each belongs to one life of a node: a segment is written by one process, and its name has the
time of its first record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopline.capture.events import ENDINGS, Event
from hopline.capture.naming import read_name
from hopline.capture.segment_files import segments_in
from hopline.cluster.messages.service import PING
from hopline.decoding.keys import Keyring
from hopline.decoding.segments import read_segment
from hopline.node.network.outbound import CONTROL_IDENTITIES
from tests.soak.processes import Life

MEMORY = "4GB"
_COLUMNS = ("node", "seq", "ts", "event", "peer", "receiver_name", "dropped", "identity", "message_id", "fingerprint")
_CAME_IN = (Event.SUBMITTED, Event.RECEIVED)
_WENT_OUT = (Event.DELIVERED, Event.SENT, *ENDINGS)
_MICROSECONDS = 1_000_000

# Messages about routes, which nodes exchange without routing them, and therefore without counting them.
CONTROL = sorted(identity.decode() for identity in CONTROL_IDENTITIES | {PING.identity})


class LifeRecords(msgspec.Struct, frozen=True):
    """What one life of a node recorded."""

    role: str
    number: int
    records: int
    last: float  # time of the last record
    waiting: int  # messages that came in and did not go out
    from_nowhere: int  # messages that went out more often than they came in
    events: dict[str, int]  # of routed messages, by event


class Numbers(msgspec.Struct, frozen=True):
    """The numbers of a node's records."""

    node: str
    records: int
    repeated: int  # records with the number of another one
    missing: int  # numbers without a record
    dropped: int  # records that were dropped, by the node's own count


class Lost(msgspec.Struct, frozen=True):
    """A message that was recorded as sent, and not as received. Times are seconds since 1970."""

    sender: str
    life: int
    receiver: str
    identity: str
    sent: float
    received_before: float | None  # when the receiver recorded the message before it, of the same life of the sender
    received_after: float | None  # and the message after it


class Unrecorded(msgspec.Struct, frozen=True):
    """A message that was recorded as received, and not as sent."""

    sender: str | None
    receiver: str
    identity: str
    received: float


class Crossings(msgspec.Struct, frozen=True):
    """The messages that crossed from one node to another."""

    sent: int
    received: int
    matched: int
    lost: list[Lost]
    unrecorded: list[Unrecorded]


def records_in(captures: Path) -> int:
    """Return the number of records in the closed segments, by their metadata alone."""
    return sum(pq.read_metadata(segment).num_rows for segment in segments_in(captures))


@contextmanager
def read_records(captures: Path, lives: Sequence[Life], database: Path) -> Iterator[Records]:
    """Read all segments into a database, which is a file beside the captures."""
    connection = duckdb.connect(str(database))
    try:
        connection.execute(f"set memory_limit = '{MEMORY}'")
        connection.execute("set preserve_insertion_order = false")
        yield Records(connection, captures, lives)
    finally:
        connection.close()


class Records:
    """All decoded records of a run."""

    def __init__(self, connection: Any, captures: Path, lives: Sequence[Life]) -> None:
        self.rejects = 0
        self._connection = connection
        self._lives = list(lives)
        self._fill(captures)

    def _fill(self, captures: Path) -> None:
        self._connection.execute(
            "create or replace table records (life int, node text, seq bigint, ts bigint, event text, peer text,"
            " receiver_name text, dropped int, identity text, message_id bigint, fingerprint bigint)"
        )
        for segment in segments_in(captures):
            life = self._life_of(segment)
            for messages, rejects in read_segment(str(segment), pa.py_buffer(segment.read_bytes()), Keyring()):
                self.rejects += rejects.num_rows
                columns = [messages[name] for name in _COLUMNS]
                columns[_COLUMNS.index("ts")] = pc.cast(messages["ts"], pa.int64())
                batch = pa.table(
                    [pa.array([life] * messages.num_rows, pa.int32()), *columns], names=["life", *_COLUMNS]
                )
                self._connection.register("batch", batch)
                self._connection.execute("insert into records select * from batch")
                self._connection.unregister("batch")

    def _life_of(self, segment: Path) -> int | None:
        """Return the index of the life that wrote a segment: the last one of its role that began before."""
        name = read_name(segment)
        assert name is not None
        indices = [index for index, life in enumerate(self._lives) if life.role == name.node]
        begins = [self._lives[index].began for index in indices]
        position = bisect_right(begins, name.start.timestamp())
        return indices[position - 1] if position else None

    def _rows(self, sql: str, *parameters: Sequence[str]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.execute(sql, [list(names) for names in parameters]).fetchall()
        return rows

    def count(self) -> int:
        """Return the number of records that could be decoded."""
        ((count,),) = self._rows("select count(*) from records")
        return int(count)

    def by_life(self) -> list[LifeRecords]:
        """Return what each life of a node recorded."""
        events: dict[int, dict[str, int]] = {}
        for life, event, count in self._rows(
            "select life, event, count(*) from records where not list_contains($1, identity) group by all", CONTROL
        ):
            events.setdefault(life, {})[event] = count
        rows = self._rows(
            """
            with balances as (
                select life, message_id,
                    count(*) filter (list_contains($1, event)) - count(*) filter (list_contains($2, event))
                        as difference
                from records group by life, message_id
            ), by_life as (
                select life,
                    coalesce(sum(difference) filter (difference > 0), 0) as waiting,
                    coalesce(-sum(difference) filter (difference < 0), 0) as from_nowhere
                from balances group by life
            ), totals as (
                select life, count(*) as records, max(ts) as last from records group by life
            )
            select life, records, last, waiting, from_nowhere from totals join by_life using (life)
            where life is not null order by life
            """,
            _CAME_IN,
            _WENT_OUT,
        )
        return [
            LifeRecords(
                role=self._lives[life].role,
                number=self._lives[life].number,
                records=records,
                last=last / _MICROSECONDS,
                waiting=int(waiting),
                from_nowhere=int(from_nowhere),
                events=events.get(life, {}),
            )
            for life, records, last, waiting, from_nowhere in rows
        ]

    def numbers(self) -> list[Numbers]:
        """Return whether each node's records have numbers of their own, and how many are missing."""
        rows = self._rows("""
            select node, count(*), count(*) - count(distinct seq),
                max(seq) - min(seq) + 1 - count(distinct seq), sum(dropped)
            from records group by node order by node
        """)
        return [
            Numbers(node, records, repeated, missing, int(dropped))
            for node, records, repeated, missing, dropped in rows
        ]

    def delivered_twice(self, identities: Sequence[str]) -> int:
        """Return how many messages of some kinds were delivered more than once, on whichever nodes."""
        ((count,),) = self._rows(
            """
            select count(*) from (
                select message_id from records where event = 'delivered' and list_contains($1, identity)
                group by message_id having count(*) > 1
            )
            """,
            identities,
        )
        return int(count)

    def crossings(self) -> Crossings:
        """Match what was sent with what was received, by the hash of the frames.

        Messages with the same frames, which only the protocol's own messages have, are matched in the order of time.
        """
        self._connection.execute("""
            create or replace temp table crossings as
            with sent as (
                select life, seq, ts, peer as receiver, identity, fingerprint,
                    row_number() over (partition by fingerprint, peer order by ts, seq) as number
                from records where event = 'sent'
            ), received as (
                select ts, node as receiver, peer as sender, identity, fingerprint,
                    row_number() over (partition by fingerprint, node order by ts, seq) as number
                from records where event = 'received'
            )
            select sent.life, sent.seq, sent.ts as sent_ts, received.ts as received_ts, received.sender,
                coalesce(sent.receiver, received.receiver) as receiver,
                coalesce(sent.identity, received.identity) as identity
            from sent full join received using (fingerprint, receiver, number)
        """)
        ((sent, received, matched),) = self._rows(
            """
            select count(sent_ts), count(received_ts), count(*) filter (sent_ts is not null and received_ts is not null)
            from crossings
            """
        )
        return Crossings(sent, received, matched, self._lost(), self._unrecorded())

    def _lost(self) -> list[Lost]:
        rows = self._rows("""
            with lost as (
                select life, seq, sent_ts, receiver, identity from crossings where received_ts is null
            ), arrived as (
                select life, seq, received_ts, receiver from crossings
                where received_ts is not null and sent_ts is not null
                    and (life, receiver) in (select (life, receiver) from lost)
            )
            select lost.life, lost.receiver, lost.identity, lost.sent_ts, before.received_ts, behind.received_ts
            from lost
            asof left join arrived as before
                on lost.life = before.life and lost.receiver = before.receiver and lost.seq >= before.seq
            asof left join arrived as behind
                on lost.life = behind.life and lost.receiver = behind.receiver and lost.seq <= behind.seq
            order by lost.sent_ts
        """)
        return [
            Lost(
                sender=self._lives[life].role,
                life=self._lives[life].number,
                receiver=receiver,
                identity=identity,
                sent=sent / _MICROSECONDS,
                received_before=None if before is None else before / _MICROSECONDS,
                received_after=None if behind is None else behind / _MICROSECONDS,
            )
            for life, receiver, identity, sent, before, behind in rows
        ]

    def _unrecorded(self) -> list[Unrecorded]:
        rows = self._rows(
            "select sender, receiver, identity, received_ts from crossings where sent_ts is null order by received_ts"
        )
        return [
            Unrecorded(sender, receiver, identity, received / _MICROSECONDS)
            for sender, receiver, identity, received in rows
        ]
