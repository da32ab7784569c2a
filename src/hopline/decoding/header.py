"""Where the fields of many messages are, whatever their layout: names, numbers, lists and bodies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from hopline.decoding.frames import Flags, Longs
from hopline.decoding.schemas import MESSAGE_KIND, ROUTER

NAMES = (
    "identity",
    "partition",
    "correlation_id",
    "receiver_identity",
    "receiver_node_identity",
    "callback_receiver_identity",
    "callback_receiver_node_identity",
    "domain",
    "signature",
    "version",
    "extension",
)
"""The fields that are taken as they are. A version is text in the first format, and a number in all others."""

NUMBERS = ("version", "ttl_ticks", "callback_key", "trace_options", "distribution", "hops", "body.offset", "body.count")

LISTS = {
    "callback_point": [field.name for field in MESSAGE_KIND],
    "routing": [field.name for field in ROUTER],
}


class Slices:
    """Pieces of the frames, one for each row: where it begins, and how large it is."""

    def __init__(self, start: Longs, size: Longs) -> None:
        self.start = start
        self.size = size

    @classmethod
    def empty_at(cls, place: Longs) -> Slices:
        """Return pieces of no bytes."""
        size = np.zeros(len(place), np.int64)
        return cls(place.copy(), size)

    def put(self, rows: Longs, start: Longs, size: Longs | int) -> None:
        """Set the pieces of some rows."""
        self.start[rows] = start
        self.size[rows] = size

    def of(self, rows: Flags) -> Slices:
        """Return the pieces of some rows."""
        return Slices(self.start[rows], self.size[rows])


class Listed:
    """One list per message, all lists concatenated: the fields of their entries, and versions as numbers."""

    def __init__(self, fields: Iterable[str], counts: Longs) -> None:
        total = int(counts.sum())
        self.counts = counts
        nowhere = np.zeros(total, np.int64)
        self.fields = {name: Slices.empty_at(nowhere) for name in fields}
        self.version = np.zeros(total, np.int64)

    @cached_property
    def begins(self) -> Longs:
        """Where each message's entries begin, and where all of them end."""
        begins: Longs = np.concatenate([[0], np.cumsum(self.counts)])
        return begins

    @cached_property
    def message(self) -> Longs:
        """Of which message each entry is."""
        messages = np.arange(len(self.counts))
        return np.repeat(messages, self.counts)

    @cached_property
    def nth(self) -> Longs:
        """Which of its message's entries each one is, from 0."""
        entry = np.arange(len(self.message))
        nth: Longs = entry - self.begins[self.message]
        return nth

    def put(self, messages: Longs, part: Listed) -> None:
        """Take over the lists of some messages."""
        message = messages[part.message]
        entries = self.begins[message] + part.nth
        for name, slices in part.fields.items():
            self.fields[name].put(entries, slices.start, slices.size)
        self.version[entries] = part.version

    def of(self, messages: Flags) -> Listed:
        """Return the lists of some messages."""
        kept = Listed((), self.counts[messages])
        entries = messages[self.message]
        kept.fields = {name: slices.of(entries) for name, slices in self.fields.items()}
        kept.version = self.version[entries]
        return kept


class Headers:
    """The fields of each record, by their places. Where `plain` is false, all other values are meaningless."""

    def __init__(self, shape: Longs, place: Longs) -> None:
        count = len(shape)
        self.shape = shape
        self.plain: Flags = shape != 0
        self.names = {name: Slices.empty_at(place) for name in NAMES}
        self.numbers = {name: np.zeros(count, np.int64) for name in NUMBERS}
        self.lists: dict[str, Listed] = {}
        self.body = np.zeros(count, np.int64)  # its first frame
        self.body_frames = np.ones(count, np.int64)

    def refuse(self, rows: Longs, is_unusual: Flags) -> None:
        """Leave the unusual ones of some rows to the careful reader."""
        self.plain[rows[is_unusual]] = False

    def of(self, rows: Flags) -> Headers:
        """Return the headers of some records."""
        nowhere = np.zeros(int(rows.sum()), np.int64)
        kept = Headers(self.shape[rows], nowhere)
        kept.plain = self.plain[rows]
        kept.names = {name: slices.of(rows) for name, slices in self.names.items()}
        kept.numbers = {name: numbers[rows] for name, numbers in self.numbers.items()}
        kept.lists = {name: listed.of(rows) for name, listed in self.lists.items()}
        kept.body = self.body[rows]
        kept.body_frames = self.body_frames[rows]
        return kept
