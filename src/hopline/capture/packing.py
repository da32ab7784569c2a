"""Records as bytes: what many of them have in common is one piece of memory, and no object for each any more.

An object that is kept takes memory that the next messages want, and a thousand of them wake the garbage collector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack, unpack
from typing import Any, NamedTuple, TypeAlias

import msgspec

from hopline.capture.events import Event
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import DEFAULT_LIMITS, Limits, encode

Frames: TypeAlias = Sequence[bytes]  # the first of them a socket's identity, which is not recorded

HOLE = 0  # instead of an event: a number without a record
EVENTS = ("", *(event.value for event in Event))  # by their codes
CODES = {event: code for code, event in enumerate(EVENTS) if code != HOLE}
DAY = 86_400  # seconds
# A message that its node's format has no words for is written in the one that says most.
_LAST_RESORT = WireFormat.V6
_TIME_BYTES = 8
_WORD_BYTES = 4
# One flat list has all records: event, time, peer and number of frames of each, one after the other. Another one has
# their frames, so that nothing is kept of the lists that these came in.
FIELDS = 4


class Receiver(msgspec.Struct, frozen=True, gc=False):
    """A local actor or hub, as records name it."""

    identity: bytes
    name: str | None = None  # the actor's class; hubs have none
    handler: str | None = None  # the method that handles the message, or made it


class Extra(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What only records of events inside the node have."""

    receiver: bytes | None = None
    cause: int | None = None
    duration: float | None = None  # seconds
    reason: str | None = None
    receiver_name: str | None = None
    handler: str | None = None


class Packed(NamedTuple):
    """Some records, column by column, in the machine's own order of bytes."""

    times: bytes  # seconds of the node's clock, floating-point numbers of 64 bits
    events: bytes  # codes, 8 bits
    peers: bytes  # places in the names of the batch, 32 bits
    counts: bytes  # of frames, 32 bits
    lengths: bytes  # of each frame, 32 bits
    data: bytes  # all frames, one behind the other


class Batch(NamedTuple):
    """Records as they are handed over."""

    first_seq: int  # of the first record, or of what was lost before it
    pieces: list[Packed]
    names: list[bytes | None]  # of peers
    extras: dict[int, Extra]  # by the place of the record
    gaps: dict[int, int]  # how many numbers were lost before the record at a place
    has_holes: bool  # or may have
    size: int
    epoch: float  # what times of day are later than its times, in seconds

    @property
    def places(self) -> int:
        """How many places there are, with the holes."""
        return sum(len(piece.events) for piece in self.pieces)

    @property
    def span(self) -> int:
        """How many numbers there are, whether their records are there or not."""
        return self.places + sum(self.gaps.values())

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.places - (sum(piece.events.count(HOLE) for piece in self.pieces) if self.has_holes else 0)

    @property
    def first_record(self) -> int:
        """The number of the first record."""
        place = next((place for place, event in enumerate(self._events()) if event != HOLE), 0)
        return self.first_seq + place + sum(gap for at, gap in self.gaps.items() if at <= place)

    @property
    def lost_at_end(self) -> int:
        """How many numbers were lost after the last record."""
        if not self.has_holes:
            return 0
        events = self._events()
        end = len(events.rstrip(bytes([HOLE])))
        return len(events) - end + sum(gap for place, gap in self.gaps.items() if place >= end)

    def _events(self) -> bytes:
        return b"".join(piece.events for piece in self.pieces)

    @property
    def first_time(self) -> float:
        """When the first of them was made, in seconds since 1970."""
        return self.epoch + _time(self.pieces[0].times[:_TIME_BYTES])

    @property
    def last_time(self) -> float:
        """When the last of them was made."""
        return self.epoch + _time(self.pieces[-1].times[-_TIME_BYTES:])


def _time(packed: bytes) -> float:
    (time,) = unpack("d", packed)
    return float(time)


class Names(dict["bytes | None", int]):
    """Names of peers, each with its place among them."""

    def __missing__(self, name: bytes | None) -> int:
        place = self[name] = len(self)
        return place


class Packer:
    """Packs the records of one node, batch by batch."""

    def __init__(self, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS) -> None:
        self._wire_format = wire_format
        self._limits = limits
        self._names = Names()

    def pack(self, log: list[Any], frames: list[bytes], messages: Mapping[int, Message]) -> Packed:
        """Copy records and their frames; some have a message in their place instead. The list of frames is used up."""
        counts: list[int] = log[3::FIELDS]
        if messages:
            frames = self._with_messages(frames, counts, messages)
        total, count = len(counts), counts[0]
        if counts.count(count) == total:  # then there is nothing to do for each of them
            del frames[::count]
            packed_counts = pack("i", count - 1) * total
        else:
            frames = _without_identities(frames, counts)
            packed_counts = pack(f"{total}i", *[one - 1 for one in counts])
        return Packed(
            pack(f"{total}d", *log[1::FIELDS]),
            bytes(log[0::FIELDS]),
            self._places(log[2::FIELDS]),
            packed_counts,
            pack(f"{len(frames)}i", *map(len, frames)),
            b"".join(frames),
        )

    def _places(self, peers: list[bytes | None]) -> bytes:
        """Pack the places of names, which often are the same name again and again."""
        names, first, total = self._names, peers[0], len(peers)
        if peers.count(first) == total:
            return pack("i", names[first]) * total
        return pack(f"{total}i", *map(names.__getitem__, peers))

    def names(self) -> list[bytes | None]:
        """Give the names of the batch, and begin with those of the next."""
        names, self._names = list(self._names), Names()
        return names

    def _with_messages(self, frames: list[bytes], counts: list[int], messages: Mapping[int, Message]) -> list[bytes]:
        """Put the frames of messages where they belong, and their numbers too."""
        written: dict[int, Frames] = {}  # one message is often submitted, delivered and handled at once
        everything: list[bytes] = []
        at = 0
        for place, count in enumerate(counts):
            message = messages.get(place)
            if message is None:
                everything += frames[at : at + count]
            else:
                if id(message) not in written:
                    written[id(message)] = self._written(message)
                everything += written[id(message)]
                counts[place] = len(written[id(message)])
            at += count
        return everything

    def _written(self, message: Message) -> Frames:
        for wire_format in (self._wire_format, _LAST_RESORT):
            try:
                return encode(message, wire_format, limits=self._limits)
            except LocalError:
                continue
        return (b"",)


def _without_identities(frames: list[bytes], counts: list[int]) -> list[bytes]:
    """Leave out the first frame of each record."""
    left: list[bytes] = []
    at = 0
    for count in counts:
        left += frames[at + 1 : at + count]
        at += count
    return left


def holes(count: int, time: float) -> Packed:
    """Give what stands for records that could not be packed."""
    nothing = bytes(_WORD_BYTES * count)
    return Packed(pack("d", time) * count, bytes([HOLE]) * count, nothing, nothing, b"", b"")


def by_day(batch: Batch) -> list[Batch]:
    """Cut a batch at midnight, if it has records of two days."""
    midnight = batch.last_time // DAY * DAY
    if batch.first_time >= midnight:
        return [batch]
    whole = Packed(*map(b"".join, zip(*batch.pieces, strict=True)))
    times = memoryview(whole.times).cast("d")
    at = next(place for place, time in enumerate(times) if batch.epoch + time >= midnight)
    frames = sum(memoryview(whole.counts).cast("i")[:at])
    size = sum(memoryview(whole.lengths).cast("i")[:frames])
    ends = (at * _TIME_BYTES, at, at * _WORD_BYTES, at * _WORD_BYTES, frames * _WORD_BYTES, size)
    before = Packed(*[column[:end] for column, end in zip(whole, ends, strict=True)])
    after = Packed(*[column[end:] for column, end in zip(whole, ends, strict=True)])
    gaps_before = {place: gap for place, gap in batch.gaps.items() if place < at}
    return [
        batch._replace(
            pieces=[before],
            extras={place: extra for place, extra in batch.extras.items() if place < at},
            gaps=gaps_before,
            size=0,
        ),
        batch._replace(
            first_seq=batch.first_seq + at + sum(gaps_before.values()),
            pieces=[after],
            extras={place - at: extra for place, extra in batch.extras.items() if place >= at},
            gaps={place - at: gap for place, gap in batch.gaps.items() if place >= at},
        ),
    ]
