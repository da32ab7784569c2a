"""A table's rows, written by a task into a folder for each day."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.folders import DAY, NO_DAY
from hopline.pipeline.row_files import ParquetFile, RowFile

_MOST_WAITING = 524_288  # rows of all days that wait until they are enough for a row group


class DayFiles:
    """A file for each day, all with one name, which nobody else uses."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema, form: type[RowFile] = ParquetFile) -> None:
        self._folder = folder
        self._name = name
        self._schema = schema
        self._form = form
        self._files: dict[date | None, RowFile] = {}
        self._added = 0

    def add(self, rows: pa.Table) -> None:
        """Write some rows, each where its `date` says."""
        dates = rows.column("date")
        for day in pc.unique(dates).to_pylist():
            is_of_day = pc.is_null(dates) if day is None else pc.equal(dates, day)
            self._file(day).add(where(is_of_day, rows))
        self._added += rows.num_rows
        if self._added >= _MOST_WAITING:
            self._added = 0
            for file in self._files.values():
                file.flush()

    def close(self) -> int:
        """Finish all files, and count their rows."""
        return sum(file.close() for file in self._files.values())

    def _file(self, day: date | None) -> RowFile:
        if day not in self._files:
            folder = self._folder / f"{DAY}{day or NO_DAY}"
            folder.mkdir(parents=True, exist_ok=True)
            self._files[day] = self._form(folder / self._name, self._schema)
        return self._files[day]


def where(wanted: pa.Array | pa.ChunkedArray, rows: pa.Table) -> pa.Table:
    """Keep the rows that are wanted: mostly it is all of them, or none."""
    count = pc.sum(wanted).as_py() or 0
    return rows if count == len(rows) else rows.filter(pc.fill_null(wanted, False)) if count else rows.slice(0, 0)
