"""Numbers by which frames and messages are known again, as good as random: 64 bits of each.

Three digests are made. Only bytes are hashed one by one; all else is sums of products modulo 2**64, which numpy
computes for all records at once:

* The **fingerprint** of a record is the same for the same frames. It is the xxh3 of all bytes together, plus a weighted
  sum of the frames' sizes, each with the factor of its place: else ``[b"ab", b"c"]`` and ``[b"a", b"bc"]`` would have
  the same. The last size follows from the others.
* The **body digest** of a message is made in the same way of its body frames alone.
* The **message id** is the same wherever a message was seen, in whatever format and after however many hops. So it is a
  weighted sum of digests of what does not change on the way. Receipts do not count among the kinds of answers, since
  they may be asked for on the way.

The factors are odd, so that no bit of what is multiplied gets lost. A sum over the entries of each record is the
difference of two running totals, which is exact since all is modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hopline.decoding.frames import Flags, Frames, Longs
from hopline.decoding.repeats import Repeats
from hopline.message import RECEIPT

Digests: TypeAlias = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_FACTORS = 1 << 13  # a message may have no more frames; with more, some weigh the same
_AT_ONCE = 1_024  # pieces that are objects of Python's at the same time


def _factors() -> Digests:
    """Return an odd number for each place, as good as random (SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = np.arange(1, _FACTORS + 1, dtype=np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
    return mixed | np.uint64(1)


_FACTOR = _factors()


def fingerprints(repeats: Repeats) -> Longs:
    """Return the digest of all frames of each record."""
    contents = repeats.contents
    outlines = repeats.outlines
    begins, sizes = repeats.sizes
    of_contents = _of_bytes(contents.dictionary)
    of_outlines = _of_sizes(
        sizes,
        first=begins[:-1],
        count=np.diff(begins),
    )
    content = contents.indices.to_numpy()
    outline = outlines.indices.to_numpy()
    of_bytes = of_contents[content]
    of_sizes = of_outlines[outline]
    return _signed(of_bytes + of_sizes)


def body_digests(frames: Frames, first: Longs, count: Longs) -> Longs:
    """Return the digest of some neighbouring frames of each record."""
    start = frames.start(first)
    end = frames.start(first + count)
    bodies = frames.cut(start, end - start)
    of_bytes = _of_bytes(bodies)
    of_sizes = _of_sizes(frames.sizes, first, count)
    return _signed(of_bytes + of_sizes)


def digest_of(frames: Sequence[bytes]) -> int:
    """Return the digest of some frames, the same as `body_digests` does."""
    content = b"".join(frames)
    digest = xxhash.xxh3_64_intdigest(content)
    for place, frame in enumerate(frames[:-1]):
        limited_place = min(place, _FACTORS - 1)
        factor = int(_FACTOR[limited_place])
        plus_one = len(frame) + 1
        digest += plus_one * factor
    unsigned = digest & _MASK
    is_negative = unsigned >> 63
    if is_negative:
        return unsigned - (1 << 64)
    return unsigned


def _signed(digests: Digests) -> Longs:
    """Return the same bits as the signed numbers that tables have."""
    signed: Longs = digests.view(np.int64)
    return signed


def _of_bytes(pieces: pa.BinaryArray) -> Digests:
    """Return the xxh3 of each piece."""
    digests = map(xxhash.xxh3_64_intdigest, _as_objects(pieces))
    return np.fromiter(digests, np.uint64, len(pieces))


def _as_objects(pieces: pa.BinaryArray) -> Iterator[bytes]:
    """Yield each piece: made some at a time, so that the memory of the one is used again for the other."""
    for begin in range(0, len(pieces), _AT_ONCE):
        some = pieces.slice(begin, _AT_ONCE)
        yield from some.to_numpy(zero_copy_only=False)


def _of_sizes(sizes: Longs, first: Longs, count: Longs) -> Digests:
    """Return the weighted sum of the sizes of some neighbouring frames, but for the last; sizes of 0 count as well."""
    weighed = np.maximum(count - 1, 0)
    begins = _begins(weighed)
    total = begins[-1]
    begin_of_each = np.repeat(begins[:-1], weighed)
    place = np.arange(total) - begin_of_each
    first_of_each = np.repeat(first, weighed)
    frame = first_of_each + place
    plus_one = sizes[frame] + 1
    weights = plus_one.view(np.uint64)
    weights *= _FACTOR.take(place, mode="clip")
    return _sums(weights, begins)


def _begins(counts: Longs | Flags) -> Longs:
    """Return where the entries of each record begin, and where the last ones end."""
    ends = np.cumsum(counts)
    begins: Longs = np.concatenate([[0], ends])
    return begins


def _sums(weights: Digests, begins: Longs) -> Digests:
    """Return the sum of the entries of each record."""
    zero = np.zeros(1, np.uint64)
    running_totals = np.cumsum(weights)
    totals = np.concatenate([zero, running_totals])
    at_bounds = totals[begins]
    sums: Digests = np.diff(at_bounds)
    return sums


# What does not change on the way, as text, so that it is the same in any format.
_SAME_TEXTS = (
    "correlation_id",
    "identity",
    "version",
    "partition",
    "callback_receiver",
    "callback_receiver_node",
)
_SAME_NUMBERS = ("callback_key", "body_digest")
_RECEIPT = {
    "identity": RECEIPT.identity.decode(),
    "version": str(RECEIPT.version),
    "partition": RECEIPT.partition.decode(),
}


def message_ids(columns: Mapping[str, pa.Array]) -> Longs:
    """Return the same number for the same message wherever it was seen."""
    parts = [of_texts(columns[name]) for name in _SAME_TEXTS]
    for name in _SAME_NUMBERS:
        numbers = columns[name].to_numpy()
        parts.append(numbers.view(np.uint64))
    callbacks = columns["callbacks"]
    parts.append(_of_callbacks(callbacks))
    total = np.zeros_like(parts[0])
    for part, factor in zip(parts, _FACTOR, strict=False):
        total += part * factor
    # Mixed, so that the low bits depend on the high ones as well.
    total ^= total >> np.uint64(32)
    total *= _FACTOR[-1]
    total ^= total >> np.uint64(29)
    return _signed(total)


def of_texts(texts: pa.StringArray | pa.DictionaryArray) -> Digests:
    """Return the digest of each text. Most are there more than once, and are looked at once."""
    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary.view(pa.binary())
    of_distinct = _of_bytes(distinct)
    indices = encoded.indices.to_numpy()
    digests: Digests = of_distinct[indices]
    return digests


def _of_callbacks(lists: pa.ListArray) -> Digests:
    """Return a digest of each list of kinds, in which receipts do not count."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    first_offset = offsets[0]
    begins = offsets - first_offset
    total = begins[-1]
    entries = lists.values.slice(first_offset, total)  # a slice of lists still has all values
    fields: dict[str, pa.DictionaryArray] = {}
    for name in _RECEIPT:
        field = entries.field(name)
        fields[name] = field.dictionary_encode()
    is_receipt = _are_receipts(fields)
    others_before = _begins(~is_receipt)
    counts = np.diff(begins)
    records = np.arange(len(lists))
    record = np.repeat(records, counts)
    first = begins[record]
    place = others_before[:-1] - others_before[first]  # among those entries of its list that are no receipts
    of_kinds = np.zeros(len(entries), np.uint64)
    for encoded, factor in zip(fields.values(), _FACTOR[1:], strict=False):
        of_kinds += of_texts(encoded) * factor
    weights = _FACTOR.take(place, mode="clip")
    of_kinds *= weights
    of_kinds[is_receipt] = 0
    return _sums(of_kinds, begins)


def _are_receipts(fields: Mapping[str, pa.DictionaryArray]) -> Flags:
    """Return which kinds are receipts."""
    are_equal = []
    for name, text in _RECEIPT.items():
        field = fields[name]
        index_of_text = field.dictionary.index(text).as_py()
        indices = field.indices.to_numpy()
        are_equal.append(indices == index_of_text)
    are_receipts: Flags = np.logical_and.reduce(are_equal)
    return are_receipts
