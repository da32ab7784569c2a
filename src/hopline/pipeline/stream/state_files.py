"""The states that batches leave, below `_stream/state/<batch>/`: a document of small facts, and rows in Parquet.

The document is written last: a state without one is that of a batch that did not come to its end, and does not count.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hopline.pipeline.spark_work import exactly
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.state import DOCUMENT, STATES, STREAM, State, batch_name

_CLOSED = f"{STREAM}/closed"
_KEYS = "flow_key long"


class States:
    """The states that batches have left."""

    def __init__(self, spark: SparkSession, files: HadoopFiles) -> None:
        self._spark = spark
        self._files = files

    def before(self, batch: int | None = None) -> State:
        """Return the state that the last batch before another one has left; that of no batch if there is none.

        Args:
            batch: The number of the other batch; None for the last state of all.
        """
        numbers = [int(name) for name in self._files.names(STATES) if name.isdecimal()]
        for number in sorted(numbers, reverse=True):
            path = f"{self._folder(number)}/{DOCUMENT}"
            if (batch is None or number < batch) and self._files.exists(path):
                return msgspec.json.decode(self._files.read_text(path), type=State)
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
        """Return the keys of the units that were closed before, as far as the state remembers them."""
        paths = [self._closed_by(int(batch)) for batch in state.closed]
        existing = [exactly(self._files.full(path)) for path in paths if self._files.exists(path)]
        if not existing:
            return self._spark.createDataFrame([], _KEYS)
        return self._spark.read.schema(_KEYS).parquet(*existing)

    def write_closed(self, batch: int, keys: DataFrame) -> None:
        """Remember the units that a batch closes."""
        keys.write.mode("overwrite").parquet(self._files.full(self._closed_by(batch)))

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
