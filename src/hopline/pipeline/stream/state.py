"""What a batch leaves to the next one: small facts in a document, rows in Parquet, below `_stream/state/<batch>/`.

The document is written last: a state without one is that of a batch that did not come to its end, and does not count.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.pipeline.spark_work import exactly
from hopline.pipeline.stream.hadoop_files import HadoopFiles

STREAM = "_stream"
_STATES = f"{STREAM}/state"
_CLOSED = f"{STREAM}/closed"
_DOCUMENT = "state.json"
_CLOSED_KEYS = "flow_key long, closed_s double"
REMEMBERED_S = 3600.0
"""For so long it is remembered which flows are closed, so that a record of them is known to be late."""
_MOST_BATCHES_OF_CLOSED = 32  # Spark starts a job to list more folders than that


def batch_name(number: int) -> str:
    """Return the name of a batch in paths."""
    return f"{number:09}"


class NodeState(msgspec.Struct, frozen=True):
    """What is known of a node."""

    heard_s: float  # when a segment with records of it came last, or it was first mentioned; seconds since 1970
    first_us: int  # the earliest time at which a record tells of it
    last_us: int | None = None  # the time of its last message; none: others mention it


class Totals(msgspec.Struct, frozen=True):
    """What the stream has done since it was first started."""

    segments: int = 0
    skipped: int = 0  # segments that cannot be read, or were deleted before they were
    records: int = 0
    messages: int = 0
    rejects: int = 0
    late: int = 0
    flows: int = 0

    def plus(self, **more: int) -> Totals:
        """Return totals with some of them increased."""
        raised = {name: getattr(self, name) + number for name, number in more.items()}
        return msgspec.structs.replace(self, **raised)


class State(msgspec.Struct, frozen=True):
    """What a batch leaves to the next one, but for rows."""

    batch: int = -1
    first_batch_s: float | None = None  # when the stream was first started
    written_s: float = 0.0
    horizon_us: int | None = None  # windows that end up to then are final
    pending: int = 0  # rows that wait
    pending_units: int = 0
    nodes: dict[str, NodeState] = {}
    silent: tuple[str, ...] = ()
    days: tuple[str, ...] = ()  # with rows, not settled yet
    settling: tuple[str, ...] = ()  # those of them that are over
    closed: dict[str, float] = {}  # batches that closed units, and when
    totals: Totals = Totals()

    @property
    def last_us(self) -> int | None:
        """Return the time of the last message of all nodes."""
        return max((node.last_us for node in self.nodes.values() if node.last_us is not None), default=None)

    def settled(self, day: str) -> State:
        """Return the state without a day."""
        days, settling = (tuple(one for one in some if one != day) for some in (self.days, self.settling))
        return msgspec.structs.replace(self, days=days, settling=settling)

    @property
    def has_open_windows(self) -> bool:
        """Return whether some windows with rows are not final."""
        if self.last_us is None:
            return False
        return self.horizon_us is None or self.last_us >= self.horizon_us


class States:
    """The states that batches have left."""

    def __init__(self, spark: SparkSession, files: HadoopFiles) -> None:
        self._spark = spark
        self._files = files

    def of(self, batch: int) -> State | None:
        """Return the state that a batch has left; None if it did not come to its end, or was long ago."""
        path = f"{self._folder(batch)}/{_DOCUMENT}"
        return msgspec.json.decode(self._files.read_text(path), type=State) if self._files.exists(path) else None

    def before(self, batch: int | None = None) -> State:
        """Return the state that the last batch before another one has left; that of no batch if there is none.

        Args:
            batch: The number of the other batch; None for the last state of all.
        """
        numbers = [int(name) for name in self._files.names(_STATES) if name.isdecimal()]
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
        remembered = {batch: at for batch, at in before.closed.items() if now - at < REMEMBERED_S}
        closed = keys.select("flow_key", sf.lit(now).alias("closed_s"))
        if len(remembered) >= _MOST_BATCHES_OF_CLOSED:
            closed = closed.union(self.read_closed(before).where(sf.col("closed_s") > now - REMEMBERED_S))
            remembered = {}
        closed.write.mode("overwrite").parquet(self._files.full(self._closed_by(batch)))
        return remembered | {str(batch): now}

    def commit(self, state: State) -> None:
        """Write the document of a state, which makes it count."""
        text = msgspec.json.encode(state).decode()
        self._files.write_text(f"{self._folder(state.batch)}/{_DOCUMENT}", text)

    def keep_only(self, state: State) -> None:
        """Delete all states but one, and what it does not remember."""
        remembered = {batch_name(int(batch)) for batch in state.closed}
        for folder, kept in ((_STATES, {batch_name(state.batch)}), (_CLOSED, remembered)):
            for name in self._files.names(folder):
                if name not in kept:
                    self._files.delete(f"{folder}/{name}")

    def _closed_by(self, batch: int) -> str:
        return f"{_CLOSED}/{batch_name(batch)}"

    def _folder(self, batch: int) -> str:
        return f"{_STATES}/{batch_name(batch)}"
