"""The states that batches leave, below `_stream/state/<batch>/`: a document of small facts, and rows in Parquet.

The document is written last: a state without one is that of a batch that did not come to its end, and does not count.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.pipeline.spark_work import exactly
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.state import DOCUMENT, STATES, STREAM, State, batch_name

_CLOSED = f"{STREAM}/closed"
_CLOSED_KEYS = "flow_key long, closed_s double"
_REMEMBERED_S = 3600.0  # for so long it is known which flows are closed, so that a record of them is late
_MOST_BATCHES_OF_CLOSED = 32  # Spark starts a job to list more folders than that


class States:
    """The states that batches have left."""

    def __init__(self, spark: SparkSession, files: HadoopFiles) -> None:
        self._spark = spark
        self._files = files

    def of(self, batch: int) -> State | None:
        """Return the state that a batch has left; None if it did not come to its end, or was long ago."""
        path = f"{self._folder(batch)}/{DOCUMENT}"
        return msgspec.json.decode(self._files.read_text(path), type=State) if self._files.exists(path) else None

    def before(self, batch: int | None = None) -> State:
        """Return the state that the last batch before another one has left; that of no batch if there is none.

        Args:
            batch: The number of the other batch; None for the last state of all.
        """
        numbers = [int(name) for name in self._files.names(STATES) if name.isdecimal()]
        for number in sorted(numbers, reverse=True):
            state = self.of(number) if batch is None or number < batch else None
            if state is not None:
                return state
        return State()

    def read(self, batch: int, name: str, schema: StructType | str) -> DataFrame:
        """Return rows that a batch has left; none of the kind where it has left none."""
        path = f"{self._folder(batch)}/{name}"
        if batch < 0 or not self._files.exists(path):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(exactly(self._files.full(path)))

    def write(self, batch: int, name: str, rows: DataFrame) -> None:
        """Leave rows to the next batch."""
        rows.write.mode("overwrite").parquet(self._files.full(f"{self._folder(batch)}/{name}"))

    def read_closed(self, state: State) -> DataFrame:
        """Return the keys of the units that were closed before, and when, as far as the state remembers them."""
        paths = [self._closed_by(int(batch)) for batch in state.closed]
        existing = [exactly(self._files.full(path)) for path in paths if self._files.exists(path)]
        if not existing:
            return self._spark.createDataFrame([], _CLOSED_KEYS)
        return self._spark.read.schema(_CLOSED_KEYS).parquet(*existing)

    def write_closed(self, before: State, batch: int, keys: DataFrame, now: float) -> dict[str, float]:
        """Remember the units that a batch closes, and return which batches are to be remembered then, with their times.

        Args:
            before: The state of the batch before.
            batch: The number of the batch.
            keys: The keys of the units; what was closed before is written with them when it lies in too many folders.
            now: The time of the batch, in seconds since 1970.
        """
        remembered = {batch: at for batch, at in before.closed.items() if now - at < _REMEMBERED_S}
        closed = keys.select("flow_key", sf.lit(now).alias("closed_s"))
        if len(remembered) >= _MOST_BATCHES_OF_CLOSED:
            closed = closed.union(self.read_closed(before).where(sf.col("closed_s") > now - _REMEMBERED_S))
            remembered = {}
        closed.write.mode("overwrite").parquet(self._files.full(self._closed_by(batch)))
        return remembered | {str(batch): now}

    def commit(self, state: State) -> None:
        """Write the document of a state, which makes it count."""
        text = msgspec.json.encode(state).decode()
        self._files.write_text(f"{self._folder(state.batch)}/{DOCUMENT}", text)

    def keep_only(self, state: State) -> None:
        """Delete all states but one, and what it does not remember."""
        remembered = {batch_name(int(batch)) for batch in state.closed}
        for folder, kept in ((STATES, {batch_name(state.batch)}), (_CLOSED, remembered)):
            for name in self._files.names(folder):
                if name not in kept:
                    self._files.delete(f"{folder}/{name}")

    def _closed_by(self, batch: int) -> str:
        return f"{_CLOSED}/{batch_name(batch)}"

    def _folder(self, batch: int) -> str:
        return f"{STATES}/{batch_name(batch)}"
