"""Numbers by which frames and messages are known again, as good as random: 64 bits of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hopline.message import RECEIPT
from hopline.pipeline.decoding.frames import Frames, Longs
from hopline.pipeline.decoding.repeats import Repeats

Digests: TypeAlias = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_FACTORS = 1 << 13  # a message may have no more frames; with more, some weigh the same
_AT_ONCE = 1_024  # pieces that are objects of Python's at the same time


def _factors() -> Digests:
    """Return an odd number for each place, as good as random (SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = np.arange(1, _FACTORS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed | np.uint64(1)


_FACTOR = _factors()


def fingerprints(repeats: Repeats) -> Longs:
    """Return the digest of all frames of each record."""
    contents, outlines = repeats.contents, repeats.outlines
    bounds, sizes = repeats.sizes
    of_bytes = _of_bytes(contents.dictionary)[contents.indices.to_numpy()]
    of_sizes = _of_sizes(sizes, bounds[:-1], np.diff(bounds))[outlines.indices.to_numpy()]
    found: Longs = (of_bytes + of_sizes).view(np.int64)
    return found


def body_digests(frames: Frames, first: Longs, count: Longs) -> Longs:
    """Return the digest of some neighbouring frames of each record."""
    start = frames.start(first)
    of_bytes = _of_bytes(frames.cut(start, frames.start(first + count) - start))
    found: Longs = (of_bytes + _of_sizes(frames.sizes, first, count)).view(np.int64)
    return found


def digest_of(frames: Sequence[bytes]) -> int:
    """Return the digest of some frames, the same as `digests` does."""
    sizes = sum((len(frame) + 1) * int(_FACTOR[min(at, _FACTORS - 1)]) for at, frame in enumerate(frames[:-1]))
    unsigned = (xxhash.xxh3_64_intdigest(b"".join(frames)) + sizes) & _MASK
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def _of_bytes(pieces: pa.BinaryArray) -> Digests:
    """Return a digest of each piece: some at a time, so that the memory of the one is used again for the other."""
    some = (pieces.slice(at, _AT_ONCE).to_numpy(zero_copy_only=False) for at in range(0, len(pieces), _AT_ONCE))
    return np.fromiter(map(xxhash.xxh3_64_intdigest, chain.from_iterable(some)), np.uint64, len(pieces))


def _of_sizes(sizes: Longs, first: Longs, count: Longs) -> Digests:
    """Weigh the sizes of all frames but the last, which follows from the others; also of those without any bytes."""
    others = np.maximum(count - 1, 0)
    begins = np.concatenate([[0], np.cumsum(others)])
    nth = np.arange(begins[-1]) - np.repeat(begins[:-1], others)
    weights = (sizes[nth + np.repeat(first, others)] + 1).view(np.uint64) * _FACTOR.take(nth, mode="clip")
    totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights)])
    found: Digests = totals[begins[1:]] - totals[begins[:-1]]
    return found


# What does not change on the way, as text, so that it is the same in any format.
_SAME_TEXTS = ("correlation_id", "identity", "version", "partition", "callback_receiver", "callback_receiver_node")
_SAME_NUMBERS = ("callback_key", "body_digest")
_RECEIPT = {
    "identity": RECEIPT.identity.decode(),
    "version": str(RECEIPT.version),
    "partition": RECEIPT.partition.decode(),
}


def message_ids(columns: Mapping[str, pa.Array]) -> Longs:
    """Return the same number for the same message wherever it was seen; receipts may be asked for on the way."""
    parts = [of_texts(columns[name]) for name in _SAME_TEXTS]
    parts += [columns[name].to_numpy().view(np.uint64) for name in _SAME_NUMBERS]
    parts.append(_of_callbacks(columns["callbacks"]))
    total = sum((part * _FACTOR[at] for at, part in enumerate(parts)), np.zeros(len(parts[0]), np.uint64))
    mixed = (total ^ (total >> np.uint64(32))) * _FACTOR[-1]
    found: Longs = (mixed ^ (mixed >> np.uint64(29))).view(np.int64)
    return found


def of_texts(texts: pa.StringArray | pa.DictionaryArray) -> Digests:
    """Return a digest of each text. Most are there more than once."""
    known = texts.dictionary_encode()
    found: Digests = _of_bytes(known.dictionary.view(pa.binary()))[known.indices.to_numpy()]
    return found


def _of_callbacks(lists: pa.ListArray) -> Digests:
    """Return a digest of each list of kinds, in which receipts do not count."""
    begins = lists.offsets.to_numpy().astype(np.int64)
    entries = lists.values.slice(begins[0], begins[-1] - begins[0]) if len(begins) else lists.values
    fields = {name: entries.field(name).dictionary_encode() for name in _RECEIPT}
    is_receipt = np.logical_and.reduce(
        [
            fields[name].indices.to_numpy() == fields[name].dictionary.index(text).as_py()
            for name, text in _RECEIPT.items()
        ]
    )
    before = np.concatenate([[0], np.cumsum(~is_receipt)])  # how many others
    begins = begins - begins[0]
    record = np.repeat(np.arange(len(lists)), np.diff(begins))
    nth = np.minimum(before[:-1] - before[begins[record]], _FACTORS - 1)
    of_kinds = sum(
        (of_texts(field) * _FACTOR[at + 1] for at, field in enumerate(fields.values())),
        np.zeros(len(entries), np.uint64),
    )
    weights = np.where(is_receipt, np.uint64(0), of_kinds * _FACTOR[nth])
    totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights)])
    found: Digests = totals[begins[1:]] - totals[begins[:-1]]
    return found
