"""What is noted of verdicts as messages are written: how many there are of each, and the incidents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.pipeline.arrow_schemas import file_schema
from hopline.pipeline.day_files import DayFiles
from hopline.pipeline.schemas import INCIDENTS
from hopline.pipeline.tables.verdicts import VERDICTS, from_outside, incidents_of, verdicts_of

_FILE_SCHEMA = file_schema(INCIDENTS)


@dataclass(frozen=True, slots=True)
class Judging:
    """How it is done in a run."""

    window_s: int
    signed_identities: Sequence[str]

    def notebook(self, folder: Path, name: str) -> Notebook:
        """Begin files with a name, for `verdicts` and `incidents` in a folder."""
        return Notebook(self, folder, name)


class Notebook:
    """What one task notes."""

    def __init__(self, judging: Judging, folder: Path, name: str) -> None:
        self._judging = judging
        self._path = folder / "verdicts" / f"{name}.parquet"
        self._verdicts = [VERDICTS.empty_table()]
        self._incidents = DayFiles(folder / "incidents", name, _FILE_SCHEMA)

    def add(self, messages: pa.Table) -> None:
        """Note some messages, which have their verdicts."""
        arrived = from_outside(messages)
        self._verdicts.append(verdicts_of(arrived, self._judging.window_s))
        self._incidents.add(incidents_of(arrived, self._judging.signed_identities))

    def close(self) -> None:
        """Write it down."""
        self._incidents.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(self._verdicts), self._path)
