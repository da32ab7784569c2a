"""Traces in files: each task that reads records fills a file with a drawer for each share of the flows.

All traces of a flow, and so of a message, are in the drawers with one number. What has no flow goes by its message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hopline.pipeline.traces.columns import TRACES

_GOOD_SIZE = 100_000  # traces in all drawers with one number: what is done to them at once stays near the processor
_FEWEST, _MOST = 4, 4_096
_SUFFIX = ".traces"


@dataclass(frozen=True, slots=True)
class Chest:
    """A folder with such files, all with as many drawers."""

    folder: Path
    drawers: int

    @classmethod
    def for_records(cls, folder: Path, records: int) -> Chest:
        """Give a chest with as many drawers as so many records need."""
        return cls(folder, min(max(-(-records // _GOOD_SIZE), _FEWEST), _MOST))

    def write(self, name: str, traces: Sequence[pa.Table]) -> None:
        """Put traces into the drawers of a file of their own."""
        whole = pa.concat_tables([TRACES.empty_table(), *traces]).unify_dictionaries().combine_chunks()
        if not whole.num_rows:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        key = np.where(whole["flow"].to_numpy() != 0, whole["flow"].to_numpy(), whole["message_id"].to_numpy())
        drawer = (key.view(np.uint64) % np.uint64(self.drawers)).astype(np.uint16)
        order = np.argsort(drawer, kind="stable")
        ends = np.cumsum(np.bincount(drawer, minlength=self.drawers))
        (batch,) = whole.take(pa.array(order)).combine_chunks().to_batches()
        with pa.ipc.new_file(self._path(name), TRACES, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
                file.write_batch(batch.slice(begin, end - begin))

    def files(self) -> list[str]:
        """List the files, by their names."""
        return sorted(path.stem for path in self.folder.glob(f"*{_SUFFIX}"))

    def read(self, drawer: int, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
        """Give what is in the drawers with one number, file by file, with the file's name."""
        options = pa.ipc.IpcReadOptions(included_fields=[TRACES.get_field_index(name) for name in columns])
        for name in self.files():
            with pa.memory_map(str(self._path(name))) as mapped:
                batch = pa.ipc.open_file(mapped, options=options).get_batch(drawer)
                if batch.num_rows:
                    yield name, pa.Table.from_batches([batch.select(list(columns))])

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"
