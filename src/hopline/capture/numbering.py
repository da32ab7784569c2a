"""Where a node's numbers go on: a node that starts again under its old identity must not use one twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.journal import blocks_of
from hopline.capture.naming import JOURNAL, journals_in, name_of, read_name, segments_in


def next_number(directory: Path, node: str) -> int:
    """Give the number after the last one that this node has in a directory; the first is 1."""
    wanted = name_of(node, 0, 0).node
    latest, last = None, 0
    for path in (*segments_in(directory), *journals_in(directory)):
        name = read_name(path)
        if name is not None and name.node == wanted and name.seq > last:
            latest, last = path, name.seq
    if latest is None:
        return 1
    try:
        return max(last, _last_in(latest)) + 1
    except (OSError, pa.ArrowException):  # a file that cannot be read has no say
        return last + 1


def _last_in(path: Path) -> int:
    if path.suffix == JOURNAL:
        return max((block.last_seq for block in blocks_of(path)), default=0)
    table = pq.read_table(path, columns=["seq"])
    return int(pa.compute.max(table["seq"]).as_py() or 0)
