"""Windows in the making: what closed units have added to them so far, and what of them is final.

Percentiles of two halves give no percentile of the whole, so what units add to `handlers` and `edges` is kept row by
row until the window is final. What they add to `security` and `audit` are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


def gather(states: States, before: State, batch: int, added: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Add to the windows that are not final what a batch has for them, and return all of it as it was written.

    Args:
        states: The states of the stream.
        before: The state of the batch before.
        batch: The number of the batch.
        added: What is added, by the names of `PARTS`.
    """

    def add(name: str, part: Part) -> DataFrame:
        kept = _not_final(states.read(before.batch, name, part.schema), name, before.horizon_us)
        if name in added:
            kept = kept.unionByName(added[name].select(*kept.columns))
        states.write(batch, name, part.together(kept).select(*kept.columns))
        return states.read(batch, name, part.schema)

    gathered = at_once(partial(add, name, part) for name, part in PARTS.items())
    return dict(zip(PARTS, gathered, strict=True))


def _not_final(rows: DataFrame, name: str, horizon_us: int | None) -> DataFrame:
    part = PARTS[name]
    is_open = is_behind(sf.unix_micros(part.time), _hour_of(horizon_us) if part.is_hourly else horizon_us)
    if name == "stretches":  # the last one tells where the next must begin
        rows = rows.withColumn("greatest", sf.max("last").over(Window.partitionBy("node")))
        return rows.where(is_open | (sf.col("last") == sf.col("greatest"))).drop("greatest")
    return rows.where(is_open)


def tables(
    gathered: Mapping[str, DataFrame], window_s: int, before_us: int | None, horizon_us: int | None
) -> Iterator[tuple[str, DataFrame]]:
    """Yield the tables by window, with those windows that no batch before has written as final.

    Args:
        gathered: The result of `gather`.
        window_s: The length of a window in seconds.
        before_us: The horizon of the batch before.
        horizon_us: The horizon of this batch. Windows that end later are provisional.
    """
    yield "handlers", _marked(handlers.handlers(gathered["runs"], window_s), "window_start", horizon_us)
    yield "edges", _marked(edges.edges(gathered["crossings"], window_s), "window_start", horizon_us)
    yield "security", _marked(gathered["verdicts"], "window_start", horizon_us)
    books = audit.audit(gathered["counts"], gathered["stretches"], gathered["balances"])
    is_new = is_behind(sf.unix_micros("hour"), _hour_of(before_us))
    yield "audit", _marked(books.where(is_new), "hour", _hour_of(horizon_us))


def _marked(table: DataFrame, time: str, horizon_us: int | None) -> DataFrame:
    return table.withColumn(PROVISIONAL, is_behind(sf.unix_micros(time), horizon_us))


def _hour_of(horizon_us: int | None) -> int | None:
    return None if horizon_us is None else horizon_us - horizon_us % _HOUR_US
