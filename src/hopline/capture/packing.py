"""Pack records into columns of bytes on the event loop, and describe what is handed to the writer's thread.

A record that stays a Python object costs memory that the next messages could use, and thousands of such objects trigger
the garbage collector. So the event buffer keeps a record's fields only until some hundred records have come, and packs
them then: one `bytes` per column. This module needs no pyarrow, so that a node can be imported without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any, NamedTuple, TypeAlias

import msgspec

from hopline.capture.events import Event
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import DEFAULT_LIMITS, Limits, encode

Frames: TypeAlias = Sequence[bytes]  # the first one is a socket's identity, which is not recorded

EVENTS = tuple(event.value for event in Event)  # by their codes
CODES = {event: code for code, event in enumerate(EVENTS)}
# The event buffer keeps all records in one flat list, these fields of each one after the other, and their frames in
# another list. Nothing is kept of the lists that the frames came in.
SEQ, EVENT, TIME, PEER, FRAME_COUNT = range(5)
FIELDS = 5
_FALLBACK_FORMAT = WireFormat.V6  # for a message that the node's own format cannot express


class Receiver(msgspec.Struct, frozen=True, gc=False):
    """A local actor or hub, as records name it."""

    identity: bytes
    name: str | None = None  # the actor's class; hubs have none
    handler: str | None = None  # the method that handles the message, or made it


class Details(msgspec.Struct, frozen=True, gc=False):
    """The columns that only events inside the node have."""

    receiver: Receiver | None = None
    cause: int | None = None
    duration: float | None = None  # seconds
    reason: str | None = None


class PackedRecords(NamedTuple):
    """Some hundred records, column by column, in the machine's byte order."""

    seqs: bytes  # 64-bit integers
    times: bytes  # seconds on the node's clock, 64-bit floating point
    events: bytes  # codes, 8 bits
    peers: bytes  # indexes into the batch's peers, 32 bits
    frame_counts: bytes  # 32 bits
    frame_lengths: bytes  # of every frame, 32 bits
    data: bytes  # all frames, one after the other


class EventBatch(NamedTuple):
    """The records that are handed to the writer's thread at once."""

    pieces: list[PackedRecords]
    peers: list[bytes | None]
    details: dict[int, Details]  # by the record's number
    is_ordered: bool  # by number
    size: int  # bytes, as they count against the buffer
    epoch: float  # seconds to add to a record's time to get seconds since 1970

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(len(piece.events) for piece in self.pieces)


class _PeerIndexes(dict["bytes | None", int]):
    """Assigns each peer an index when it is first looked up."""

    def __missing__(self, peer: bytes | None) -> int:
        index = self[peer] = len(self)
        return index


class Packer:
    """Packs the records of one node, batch by batch."""

    def __init__(self, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS) -> None:
        self._wire_format = wire_format
        self._limits = limits
        self._peer_indexes = _PeerIndexes()

    def pack(self, records: list[Any], frames: list[bytes], messages: Mapping[int, Message]) -> PackedRecords:
        """Pack records and their frames.

        Args:
            records: The fields of all records, flat.
            frames: The frames of all records. The list may be changed.
            messages: By number, the message of each record that has a placeholder instead of its frames.
        """
        seqs: list[int] = records[SEQ::FIELDS]
        frame_counts: list[int] = records[FRAME_COUNT::FIELDS]
        if messages:
            frames = self._insert_messages(seqs, frames, frame_counts, messages)
        total = len(seqs)
        first_count = frame_counts[0]
        if frame_counts.count(first_count) == total:  # all alike: no work per record
            del frames[::first_count]  # the identities
            packed_counts = pack("i", first_count - 1) * total
        else:
            frames = _without_identities(frames, frame_counts)
            packed_counts = pack(f"{total}i", *[count - 1 for count in frame_counts])
        return PackedRecords(
            pack(f"{total}q", *seqs),
            pack(f"{total}d", *records[TIME::FIELDS]),
            bytes(records[EVENT::FIELDS]),
            self._packed_peers(records[PEER::FIELDS]),
            packed_counts,
            pack(f"{len(frames)}i", *map(len, frames)),
            b"".join(frames),
        )

    def take_peers(self) -> list[bytes | None]:
        """Return the peers of the batch in the order of their indexes, and start the next batch."""
        peers = list(self._peer_indexes)
        self._peer_indexes = _PeerIndexes()
        return peers

    def _packed_peers(self, peers: list[bytes | None]) -> bytes:
        total = len(peers)
        first_peer = peers[0]
        if peers.count(first_peer) == total:  # the common case: one peer
            return pack("i", self._peer_indexes[first_peer]) * total
        return pack(f"{total}i", *map(self._peer_indexes.__getitem__, peers))

    def _insert_messages(
        self, seqs: list[int], frames: list[bytes], frame_counts: list[int], messages: Mapping[int, Message]
    ) -> list[bytes]:
        """Return the frames with each placeholder replaced by its message's frames, and correct their counts."""
        encoded: dict[int, Frames] = {}  # one message is often submitted, delivered and handled in the same piece
        complete: list[bytes] = []
        begin = 0
        for index, seq in enumerate(seqs):
            end = begin + frame_counts[index]
            message = messages.get(seq)
            if message is None:
                complete += frames[begin:end]
            else:
                if id(message) not in encoded:
                    encoded[id(message)] = self._encode(message)
                message_frames = encoded[id(message)]
                complete += message_frames
                frame_counts[index] = len(message_frames)
            begin = end
        return complete

    def _encode(self, message: Message) -> Frames:
        for wire_format in (self._wire_format, _FALLBACK_FORMAT):
            try:
                return encode(message, wire_format, limits=self._limits)
            except LocalError:
                continue
        return (b"",)


def _without_identities(frames: list[bytes], frame_counts: list[int]) -> list[bytes]:
    """Return the frames without the first one of each record."""
    remaining: list[bytes] = []
    begin = 0
    for count in frame_counts:
        end = begin + count
        remaining += frames[begin + 1 : end]
        begin = end
    return remaining
