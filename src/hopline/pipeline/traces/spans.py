"""The numbers of a node's records, as spans without a gap: few, where records come in the order of writing. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.traces.arrays import codes, longs, order_of, picked, starts_of

NUMBERED = ("node", "seq", "ts", "dropped")
"""The columns of messages, and of rejects, that spans are made of."""

SPANS = pa.schema(
    [
        ("node", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),  # of the first record
        ("dropped", pa.int64()),  # before it, as it says
    ]
)


def spans_of(tables: Iterable[pa.Table]) -> pa.Table:
    """Give the spans of records: what is missing between two of them may be elsewhere, inside nothing is."""
    rows = pa.concat_tables(table.select(list(NUMBERED)) for table in tables)
    rows = rows.filter(pc.is_valid(rows["seq"]))
    if not rows.num_rows:
        return SPANS.empty_table()
    rows = rows.set_column(0, "node", rows["node"].combine_chunks().dictionary_encode())
    (node,), seq = codes(rows, "node"), longs(rows, "seq")
    order = order_of(node, seq, longs(rows, "ts"))
    starts = starts_of(node[order])
    starts[1:] |= np.diff(seq[order]) > 1
    begins = np.flatnonzero(starts)
    first, last = order[begins], order[np.append(begins[1:], len(order)) - 1]
    return pa.table(
        [
            picked(rows, "node", first),
            picked(rows, "seq", first),
            picked(rows, "seq", last),
            picked(rows, "ts", first),
            pc.fill_null(picked(rows, "dropped", first).cast(pa.int64()), 0),
        ],
        schema=SPANS,
    )
