"""Which table is made of which. What several tables need is computed once, and kept while the run lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Self

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from hopline.pipeline.tables.audit import audit
from hopline.pipeline.tables.by_flow import by_flow
from hopline.pipeline.tables.callbacks import callbacks
from hopline.pipeline.tables.edges import deliveries, edges
from hopline.pipeline.tables.flows import flows
from hopline.pipeline.tables.handlers import handlers
from hopline.pipeline.tables.hops import hops
from hopline.pipeline.tables.incidents import incidents
from hopline.pipeline.tables.security import security, with_replays
from hopline.pipeline.tables.skew import skew
from hopline.pipeline.tables.transits import transits
from hopline.pipeline.windows import last_seen


class Making:
    """The tables of a run in the making."""

    def __init__(
        self,
        messages: DataFrame,
        rejects: DataFrame,
        *,
        window_s: int,
        signed_identities: Sequence[str] = (),
        is_judged: bool = True,
    ) -> None:
        self._messages = messages
        self._rejects = rejects
        self._window_s = window_s
        self._signed_identities = signed_identities
        self._is_judged = is_judged
        self._made: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for table in self._kept:
            table.unpersist()

    def make(self, name: str) -> DataFrame:
        """Return a table; those that it needs were made before."""
        return _RECIPES[name][1](self)

    def written(self, name: str, table: DataFrame) -> None:
        """Note a table as it was written: the next are made of it."""
        self._made[name] = table

    def keep(self, name: str) -> None:
        """Make a table that is not written, for the next."""
        self._made[name] = self._keep(self.make(name))

    def __getitem__(self, name: str) -> DataFrame:
        return self._made[name]

    @cached_property
    def records(self) -> DataFrame:
        """The records of messages, partitioned by flow."""
        records = by_flow(self._messages)
        return self._keep(with_replays(records, "flow_key") if self._is_judged else records)

    @cached_property
    def transits(self) -> DataFrame:
        """Sendings matched with arrivals."""
        return self._keep(transits(self.records))

    @cached_property
    def arrivals(self) -> DataFrame:
        """Messages with the verdict `replayed` where that is due."""
        return with_replays(self._messages) if self._is_judged else self._messages

    @cached_property
    def last_seen(self) -> DataFrame:
        """The time of each node's last message."""
        return self._keep(last_seen(self._messages))

    def _keep(self, table: DataFrame) -> DataFrame:
        kept = table.persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept

    def _skew(self) -> DataFrame:
        return skew(self.transits)

    def _hops(self) -> DataFrame:
        return hops(self.transits, self["skew"], self.last_seen)

    def _callbacks(self) -> DataFrame:
        return callbacks(self.records, self.last_seen)

    def _flows(self) -> DataFrame:
        return flows(self.records, self["callbacks"], self["hops"], self["skew"])

    def _handlers(self) -> DataFrame:
        return handlers(self.records, self._window_s)

    def _edges(self) -> DataFrame:
        return edges(self["hops"], deliveries(self.records), self._window_s)

    def _security(self) -> DataFrame:
        return security(self.arrivals, self._window_s)

    def _incidents(self) -> DataFrame:
        return incidents(self.arrivals, self._signed_identities)

    def _audit(self) -> DataFrame:
        return audit(self._messages, self._rejects)


# What each table needs, and how it is made; in an order in which everything is there when it is needed.
_RECIPES: dict[str, tuple[tuple[str, ...], Callable[[Making], DataFrame]]] = {
    "skew": ((), Making._skew),
    "hops": (("skew",), Making._hops),
    "callbacks": ((), Making._callbacks),
    "flows": (("skew", "hops", "callbacks"), Making._flows),
    "handlers": ((), Making._handlers),
    "edges": (("hops",), Making._edges),
    "security": ((), Making._security),
    "incidents": ((), Making._incidents),
    "audit": ((), Making._audit),
}


def order_of(tables: Iterable[str]) -> list[str]:
    """Return the tables to make for some that are wanted, those that they need included, in an order that works."""
    wanted: set[str] = set()
    waiting = list(tables)
    while waiting:
        name = waiting.pop()
        if name in _RECIPES and name not in wanted:
            wanted.add(name)
            waiting += _RECIPES[name][0]
    return [name for name in _RECIPES if name in wanted]
