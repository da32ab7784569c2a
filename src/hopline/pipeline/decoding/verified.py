"""What was verified, judged once more when all of it is there: who sends the same bytes again replays them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from hopline.pipeline.decoding.arrow import FILE_SCHEMAS
from hopline.pipeline.decoding.judging import Judging, Notebook
from hopline.pipeline.row_files import ARROW, ParquetFile
from hopline.pipeline.traces import Chest
from hopline.pipeline.traces.drawers import Drawers
from hopline.pipeline.traces.kernels import TASKS
from hopline.pipeline.traces.replays import JUDGED_BY, is_replayed, is_verified

_KNOWN_BY = ("node", "fingerprint", "seq", "ts")
_REPLAYS = ".replays"
_JUDGED = "judged-"


def judge_verified(spark: SparkSession, chest: Chest, decoded: Path, messages: Path, judging: Judging) -> None:
    """Move what was verified among the messages; what is a replay is called one there, and noted as one."""
    verified = decoded / "verified"
    files = sorted(verified.rglob(f"*{ARROW}"))
    if not files:
        return

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with chest.opened(JUDGED_BY) as drawers:
            for batch in batches:
                for drawer in batch.column("id").to_pylist():
                    _find_replays(chest, drawers, drawer)
                    yield pa.record_batch({"file": [str(drawer)]})

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                file = files[number]
                target = messages / file.parent.relative_to(verified) / f"verified-{file.stem}.parquet"
                name = f"{_JUDGED}{uuid.uuid4()}"
                _judge(file, _replays_in(chest, file.stem), target, judging.notebook(decoded, name))
                yield pa.record_batch({"file": [name]})

    def run(count: int, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> set[str]:
        places = spark.range(0, count, 1, min(count, TASKS))
        return {row.file for row in places.mapInArrow(work, "file string").collect()}

    run(chest.drawers, find)
    noted = run(len(files), judge)
    # A task may have been tried more often than once: what the others noted does not count.
    for file in decoded.rglob(f"{_JUDGED}*"):
        if file.stem not in noted:
            file.unlink()


def _find_replays(chest: Chest, drawers: Drawers, drawer: int) -> None:
    """Write down the replays among the traces in a drawer, with the name of the file that each is in."""
    verified = [
        rows.append_column("file", pa.repeat(name, len(rows)))
        for name, rows in ((name, rows.filter(pa.array(is_verified(rows)))) for name, rows in drawers.read(drawer))
        if len(rows)
    ]
    if not verified:
        return
    found = pa.concat_tables(verified).unify_dictionaries().combine_chunks()
    if (again := is_replayed(found)).any():
        replays = found.filter(pa.array(again)).select(["file", *_KNOWN_BY]).combine_chunks()
        _write(replays, chest.folder / f"{drawer}{_REPLAYS}")


def _replays_in(chest: Chest, file: str) -> Counter[tuple[object, ...]]:
    """Count the replays in a file by what they are known by: records may be the same in all of it."""
    found: Counter[tuple[object, ...]] = Counter()
    for path in chest.folder.glob(f"*{_REPLAYS}"):
        with pa.memory_map(str(path)) as mapped:
            replays = pa.ipc.open_file(mapped).read_all()
            found.update(_known_by(replays.filter(pc.equal(replays["file"], file))))
    return found


def _known_by(rows: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(rows[name].to_pylist() for name in _KNOWN_BY), strict=True)


def _judge(file: Path, replays: Counter[tuple[object, ...]], target: Path, notebook: Notebook) -> None:
    """Write a file of messages, in which replays are called so, and note their verdicts."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f"_{uuid.uuid4()}.parquet")
    written = ParquetFile(aside, FILE_SCHEMAS["messages"])
    fingerprints = pa.array([fingerprint for _, fingerprint, *_ in replays], pa.int64())
    with pa.memory_map(str(file)) as mapped:
        batches = pa.ipc.open_file(mapped)
        for number in range(batches.num_record_batches):
            rows = pa.Table.from_batches([batches.get_batch(number)])
            suspects = np.flatnonzero(pc.is_in(rows["fingerprint"], value_set=fingerprints).to_numpy())
            guilty = []
            for row, known in zip(suspects, _known_by(rows.take(pa.array(suspects))), strict=True):
                if replays[known]:
                    replays[known] -= 1
                    guilty.append(row)
            if guilty:
                verdict = rows["verdict"].to_numpy(zero_copy_only=False).copy()
                verdict[guilty] = "replayed"
                rows = rows.set_column(rows.column_names.index("verdict"), "verdict", pa.array(verdict, pa.string()))
            written.add(rows)
            notebook.add(rows)
    written.close()
    notebook.close()
    aside.rename(target)


def _write(rows: pa.Table, path: Path) -> None:
    aside = path.with_suffix(f".{uuid.uuid4()}")
    with pa.ipc.new_file(aside, rows.schema) as file:
        file.write_table(rows)
    aside.rename(path)
