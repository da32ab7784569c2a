"""Blocks of a journal to Arrow: where a column is in one piece already, nothing is copied.

Texts are places in a list of words, as Parquet keeps them anyway; whoever reads a segment sees texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.blocks import Block, Opening
from hopline.capture.packing import EVENTS, HOLE, Extra
from hopline.capture.records import SCHEMA, shown

# Where large pieces come from. Arrow's own allocator gives them back at once, and gets them anew in pages of 2 MiB.
MEMORY = pa.system_memory_pool()
WORDS = ("node", "node_uri", "event", "peer", "receiver", "receiver_name", "handler")
_INT8, _INT32, _INT64, _BINARY, _STRING = pa.int8(), pa.int32(), pa.int64(), pa.binary(), pa.string()
_SHORT = ("node", "node_uri", "event")  # the places in their lists of words fit into a byte


def _in_words(field: pa.Field) -> pa.Field:
    if field.name not in WORDS:
        return field
    return field.with_type(pa.dictionary(_INT8 if field.name in _SHORT else _INT32, _STRING))


WRITTEN = pa.schema([_in_words(field) for field in SCHEMA])
_TIME, _FRAMES = SCHEMA.field("ts").type, SCHEMA.field("frames").type
_SEQ, _DROPPED = SCHEMA.get_field_index("seq"), SCHEMA.get_field_index("dropped")
_MICROSECONDS = 1_000_000  # a second
_TIME_BYTES, _WORD_BYTES = 8, 4
_NO_EXTRA = Extra()
_EVENT_WORDS = pa.array(EVENTS, _STRING)


def runs_of(blocks: Iterable[Block], most: int) -> Iterator[list[Block]]:
    """Bring blocks together that follow each other with nothing special about them, as long as they are not too many.

    What is done for each column is then done once for all of them: blocks are small and many.
    """
    run: list[Block] = []
    rows = 0
    for block in blocks:
        if run and (rows + block.count > most or not _follows(run[-1], block)):
            yield run
            run, rows = [], 0
        run.append(block)
        rows += block.count
    if run:
        yield run


def _follows(before: Block, block: Block) -> bool:
    return (
        _is_plain(before)
        and _is_plain(block)
        and block.head.first_seq == before.last_seq + 1
        and block.head.names == before.head.names
    )


def _is_plain(block: Block) -> bool:
    head = block.head
    return not (head.extras or head.gaps or head.lost or head.has_holes)


def rows_of(opening: Opening, run: Sequence[Block]) -> pa.Table:
    """Make the rows of a run of blocks; raises `ValueError` where the columns of one are not of one piece."""
    first, count = run[0], sum(block.count for block in run)
    head = first.head
    extras: Sequence[Extra] = [head.extras.get(place, _NO_EXTRA) for place in range(count)] if head.extras else []
    frames = [_frames(block) for block in run]
    rows = pa.Table.from_arrays(
        [
            _microseconds_of([_times(block) for block in run]),
            pc.add(_counting(count), head.first_seq),
            _always(opening.node, count),
            _always(opening.node_uri, count),
            pa.DictionaryArray.from_arrays(_numbers(_INT8, _joined(run, 1)), _EVENT_WORDS),
            _named(_numbers(_INT32, _joined(run, 2)), head.names),
            _receivers([extra.receiver for extra in extras], count),
            _words([extra.receiver_name for extra in extras], count),
            _words([extra.handler for extra in extras], count),
            _column([extra.cause for extra in extras], _INT64, count),
            _column([_microseconds(extra.duration) for extra in extras], _INT64, count),
            _column([extra.reason for extra in extras], _STRING, count),
            _zeros(_INT32, count),
            pa.chunked_array(frames, _FRAMES),
        ],
        schema=WRITTEN,
    )
    if not head.lost and not head.gaps and not head.has_holes:
        return rows
    places, seqs, dropped = _numbered(first)
    rows = rows.take(pa.array(places, _INT64))
    rows = rows.set_column(_SEQ, WRITTEN.field(_SEQ), pa.array(seqs, _INT64))
    return rows.set_column(_DROPPED, WRITTEN.field(_DROPPED), pa.array(dropped, _INT32))


def _joined(run: Sequence[Block], column: int) -> pa.Buffer:
    if len(run) == 1:
        return run[0].columns[column]
    return pa.py_buffer(b"".join(block.columns[column] for block in run))


def _numbered(block: Block) -> tuple[list[int], list[int], list[int]]:
    """Give the places that have a record, its number, and how many were lost before it."""
    places: list[int] = []
    seqs: list[int] = []
    dropped: list[int] = []
    seq, lost = block.head.first_seq, block.head.lost
    for place, event in enumerate(bytes(block.columns[1])):
        gap = block.head.gaps.get(place, 0)
        seq += gap
        lost += gap
        if event == HOLE:
            lost += 1
        else:
            places.append(place)
            seqs.append(seq)
            dropped.append(lost)
            lost = 0
        seq += 1
    return places, seqs, dropped


def _times(block: Block) -> pa.DoubleArray:
    return pc.add(_numbers(pa.float64(), block.columns[0]), block.head.epoch)


def _frames(block: Block) -> pa.ListArray:
    times, _, peers, counts, lengths, data = block.columns
    if not times.size // _TIME_BYTES == peers.size // _WORD_BYTES == counts.size // _WORD_BYTES == block.count:
        raise ValueError("columns of different lengths")
    lengths = _numbers(_INT32, lengths)
    ends, list_ends = _ends(lengths), _ends(_numbers(_INT32, counts))
    if list_ends[-1].as_py() != len(lengths) or ends[-1].as_py() != data.size:
        raise ValueError("frames that are not all there")
    values = pa.Array.from_buffers(_BINARY, len(lengths), [None, ends.buffers()[1], data])
    return pa.ListArray.from_arrays(list_ends, values, type=_FRAMES)


def _ends(lengths: pa.Int32Array) -> pa.Int32Array:
    """Tell where each of them ends that is behind the others, and first of all 0."""
    behind_zero = pa.concat_arrays([_zeros(_INT32, 1), lengths], memory_pool=MEMORY)
    return pc.cumulative_sum(behind_zero, memory_pool=MEMORY)


def _numbers(kind: pa.DataType, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, data.size * 8 // kind.bit_width, [None, data])


def _named(places: pa.Int32Array, names: list[bytes | None]) -> pa.DictionaryArray:
    """Give the texts of names, each of them once; no name is no text."""
    texts = [None if name is None else shown(name) for name in names]
    words = {text: place for place, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    if len(words) < len(texts):
        places = pa.array([None if text is None else words[text] for text in texts], _INT32).take(places)
    return pa.DictionaryArray.from_arrays(places, pa.array(words, _STRING))


def _receivers(receivers: list[bytes | None], count: int) -> pa.DictionaryArray:
    if receivers.count(None) == len(receivers):  # or there are none at all
        return _nothing(WRITTEN.field("receiver").type, count)
    names = {name: place for place, name in enumerate(dict.fromkeys(receivers))}
    return _named(pa.array([names[receiver] for receiver in receivers], _INT32), list(names))


def _words(texts: list[str | None], count: int) -> pa.DictionaryArray:
    if texts.count(None) == len(texts):
        return _nothing(WRITTEN.field("handler").type, count)
    return pa.array(texts, _STRING).dictionary_encode()


def _column(values: list[Any], kind: pa.DataType, count: int) -> pa.Array:
    if values.count(None) == len(values):
        return _nothing(kind, count)
    return pa.array(values, kind)


def _microseconds_of(times: list[pa.DoubleArray]) -> pa.TimestampArray:
    together = times[0] if len(times) == 1 else pa.concat_arrays(times)
    return pc.multiply(together, float(_MICROSECONDS)).cast(_INT64, safe=False).view(_TIME)


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _MICROSECONDS)


# Arrays never change, and a part of one costs nothing: the same ones serve again and again, for blocks of any length.


def _always(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(_zeros(_INT8, count), pa.array([text], _STRING))


def _zeros(kind: pa.DataType, count: int) -> pa.Array:
    return _many_zeros(kind, _room(count))[:count]


def _nothing(kind: pa.DataType, count: int) -> pa.Array:
    return _nulls(kind, _room(count))[:count]


def _counting(count: int) -> pa.Array:
    return _range(_room(count))[:count]


def _room(count: int) -> int:
    return 1 << count.bit_length()


@lru_cache(maxsize=32)
def _many_zeros(kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, kind), count)


@lru_cache(maxsize=32)
def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


@lru_cache(maxsize=32)
def _range(count: int) -> pa.Array:
    return pa.array(range(count), _INT64)
