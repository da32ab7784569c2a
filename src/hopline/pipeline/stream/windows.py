"""Windows in the making: what closed units have added to them so far, and what of them is final.

Percentiles of two halves give no percentile of the whole, so what units add to `handlers` and `edges` is kept row by
row until the window is final. What they add to `security` and `audit` are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.pipeline.spark_work import at_once
from hopline.pipeline.stream.closing import is_behind
from hopline.pipeline.stream.state import State
from hopline.pipeline.stream.state_files import States
from hopline.pipeline.tables import audit, edges, handlers, security
from hopline.pipeline.tables.table import PROVISIONAL

_SECOND_US = 1_000_000
_HOUR_US = audit.HOUR_S * _SECOND_US
_COUNTS = ", ".join(f"{name} long" for name in audit.COUNTED)


def _same(parts: DataFrame) -> DataFrame:
    return parts


@dataclass(frozen=True, slots=True)
class Part:
    """What is added to windows by closed units, or by records."""

    schema: StructType | str
    time: str  # the column by which rows belong to windows
    is_hourly: bool = False
    together: Callable[[DataFrame], DataFrame] = _same  # one out of several


PARTS = {
    "runs": Part(
        "ts timestamp, node string, actor string, actor_name string, handler string, identity string, version string, "
        "partition string, reason string, wait_us long, run_us long",
        "ts",
    ),
    "crossings": Part(
        "ts timestamp, kind string, source_node string, source string, source_name string, target_node string, "
        "target string, target_name string, identity string, count long, bytes long, errors long, lost long, "
        "transit_us long",
        "ts",
    ),
    "verdicts": Part(security.SECURITY, "window_start", together=security.summed),
    "counts": Part(f"node string, hour timestamp, {_COUNTS}", "hour", is_hourly=True, together=audit.summed_counts),
    "stretches": Part(
        "node string, first long, last long, ts timestamp, hour timestamp, dropped long",
        "hour",
        is_hourly=True,
        together=audit.joined_stretches,
    ),
    "balances": Part(
        "node string, hour timestamp, copies long, balance long",
        "hour",
        is_hourly=True,
        together=audit.summed_balances,
    ),
}


@dataclass(frozen=True, slots=True)
class WindowTable:
    """A table by window, and what it is made of."""

    parts: tuple[str, ...]
    make: Callable[..., DataFrame]  # of the parts, in this order, and the length of a window in seconds
    time: str  # the column with the beginning of the window
    is_hourly: bool = False


TABLES = {
    "handlers": WindowTable(("runs",), handlers.handlers, "window_start"),
    "edges": WindowTable(("crossings",), edges.edges, "window_start"),
    "security": WindowTable(("verdicts",), lambda verdicts, _: verdicts, "window_start"),
    "audit": WindowTable(("counts", "stretches", "balances"), lambda *parts: audit.audit(*parts[:-1]), "hour", True),
}


class Windows:
    """The windows of a batch.

    Args:
        states: The states of the stream.
        before: The state of the batch before.
        batch: The number of the batch.
        window_s: The length of a window in seconds.
        horizon_us: Up to when windows are final.
    """

    def __init__(self, states: States, before: State, batch: int, window_s: int, horizon_us: int | None) -> None:
        self._states = states
        self._before = before
        self._batch = batch
        self._window_s = window_s
        self._horizon_us = horizon_us

    def table(self, name: str, added: Mapping[str, DataFrame]) -> DataFrame:
        """Return a table by window, with those windows that no batch before has written as final.

        What it is made of is left to the next batch.

        Args:
            name: The name of the table.
            added: What the batch adds to its parts.
        """
        definition = TABLES[name]
        parts = at_once(partial(self._gathered, part, added.get(part)) for part in definition.parts)
        table = definition.make(*parts, self._window_s)
        before_us = _limit(self._before.horizon_us, is_hourly=definition.is_hourly)
        horizon_us = _limit(self._horizon_us, is_hourly=definition.is_hourly)
        begin_us = sf.unix_micros(definition.time)
        return table.where(is_behind(begin_us, before_us)).withColumn(PROVISIONAL, is_behind(begin_us, horizon_us))

    def _gathered(self, name: str, added: DataFrame | None) -> DataFrame:
        """Add to the windows that are not final what a batch has for them, and return all of it as it was written."""
        part = PARTS[name]
        kept = _not_final(self._states.read(self._before.batch, name, part.schema), name, self._before.horizon_us)
        if added is not None:
            kept = kept.unionByName(added.select(*kept.columns))
        self._states.write(self._batch, name, part.together(kept).select(*kept.columns))
        return self._states.read(self._batch, name, part.schema)


def _not_final(rows: DataFrame, name: str, horizon_us: int | None) -> DataFrame:
    part = PARTS[name]
    is_open = is_behind(sf.unix_micros(part.time), _limit(horizon_us, is_hourly=part.is_hourly))
    if name == "stretches":  # the last one tells where the next must begin
        rows = rows.withColumn("greatest", sf.max("last").over(Window.partitionBy("node")))
        return rows.where(is_open | (sf.col("last") == sf.col("greatest"))).drop("greatest")
    return rows.where(is_open)


def _limit(horizon_us: int | None, *, is_hourly: bool) -> int | None:
    return horizon_us - horizon_us % _HOUR_US if is_hourly and horizon_us is not None else horizon_us
