"""Traces in files: each task that reads records fills a file with a drawer for each share of the flows.

All traces of a flow, and so of a message, are in the drawers with one number. What has no flow goes by its message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hopline.pipeline.traces.columns import TRACES, Longs

_GOOD_SIZE = 200_000  # traces in all drawers with one number, which are looked at together
FEWEST, _MOST = 2, 4_096
_SUFFIX = ".traces"
_ROWS = b"rows"


@dataclass(frozen=True, slots=True)
class Drawers:
    """The files of a chest, opened to read some columns."""

    files: Mapping[str, pa.ipc.RecordBatchFileReader]
    columns: tuple[str, ...]

    def rows(self, drawer: int) -> int:
        """Count what is in the drawers with one number."""
        return sum(json.loads(file.schema.metadata[_ROWS])[drawer] for file in self.files.values())

    def read(self, drawer: int) -> Iterator[tuple[str, pa.Table]]:
        """Give what is in the drawers with one number, file by file, with the file's name."""
        for name, file in self.files.items():
            batch = file.get_batch(drawer)
            if batch.num_rows:
                yield name, pa.Table.from_batches([batch]).select(list(self.columns))


@dataclass(frozen=True, slots=True)
class Chest:
    """A folder with such files, all with as many drawers."""

    folder: Path
    drawers: int

    @classmethod
    def for_records(cls, folder: Path, records: int) -> Chest:
        """Give a chest with as many drawers as so many records need."""
        return cls(folder, min(max(-(-records // _GOOD_SIZE), FEWEST), _MOST))

    def write(self, name: str, traces: Sequence[pa.Table]) -> None:
        """Put traces into the drawers of a file of their own."""
        whole = pa.concat_tables([TRACES.empty_table(), *traces]).unify_dictionaries().combine_chunks()
        if not whole.num_rows:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        key = np.where(whole["flow"].to_numpy() != 0, whole["flow"].to_numpy(), whole["message_id"].to_numpy())
        drawer = self.drawers_of(key)
        order = np.argsort(drawer, kind="stable")
        counts = np.bincount(drawer, minlength=self.drawers).tolist()
        schema = TRACES.with_metadata({_ROWS: json.dumps(counts)})
        (batch,) = whole.take(pa.array(order)).combine_chunks().to_batches()
        with pa.ipc.new_file(self._path(name), schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            for begin, count in zip(accumulate([0, *counts]), counts, strict=False):
                file.write_batch(batch.slice(begin, count))

    def drawers_of(self, flows: Longs) -> NDArray[np.uint16]:
        """Tell the drawer of each flow."""
        return (flows.view(np.uint64) % np.uint64(self.drawers)).astype(np.uint16)

    def files(self) -> list[str]:
        """List the files, by their names."""
        return sorted(path.stem for path in self.folder.glob(f"*{_SUFFIX}"))

    @contextmanager
    def opened(self, columns: Sequence[str]) -> Iterator[Drawers]:
        """Open all files, to read some columns of several drawers."""
        options = pa.ipc.IpcReadOptions(included_fields=[TRACES.get_field_index(name) for name in columns])
        with ExitStack() as stack:
            files = {}
            for name in self.files():
                mapped = stack.enter_context(pa.memory_map(str(self._path(name))))
                files[name] = pa.ipc.open_file(mapped, options=options)
            yield Drawers(files, tuple(columns))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"
