"""Making the tables: each is given what its function names, and what several need is computed once and kept.

The parameters of a table's function are its ingredients. Each is another table, or one of the properties here: the
records of messages, transits, the time of each node's last message, an option of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Self

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from hopline.pipeline.tables import by_flow, flows, nesting, security, transits
from hopline.pipeline.tables.all import TABLES
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
        self.messages = messages
        self.rejects = rejects
        self.window_s = window_s
        self.signed_identities = signed_identities
        self._is_judged = is_judged
        self._made: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for table in self._kept:
            with suppress(Exception):  # Spark may be gone already: what matters is the error that says so
                table.unpersist()

    def make(self, name: str) -> DataFrame:
        """Return a table; those that it needs were made before."""
        table = TABLES[name]
        if table.function is None:
            raise LookupError(name)
        return table.function(**{need: self._ingredient(need) for need in table.needs})

    def written(self, name: str, table: DataFrame) -> None:
        """Note a table as it was written: the next are made of it."""
        self._made[name] = table

    def keep(self, name: str) -> None:
        """Make a table that is not written, for the next."""
        self._made[name] = self._keep(self.make(name))

    @cached_property
    def judged(self) -> DataFrame:
        """Messages with the verdict `replayed` where that is due."""
        if not self._is_judged:
            return self.messages
        repeats = self._keep(security.repeats(self.messages))
        repeats.count()  # Spark then knows how few there are, and looks them up instead of shuffling all messages
        return security.with_replays(self.messages, repeats)

    @cached_property
    def records(self) -> DataFrame:
        """The records of messages, partitioned by flow."""
        return self._keep(by_flow.by_flow(self.judged))

    @cached_property
    def transits(self) -> DataFrame:
        """Sendings matched with arrivals."""
        return self._keep(transits.transits(self.records))

    @cached_property
    def last_seen(self) -> DataFrame:
        """The time of each node's last message."""
        return self._keep(last_seen(self.messages))

    @cached_property
    def walked(self) -> DataFrame:
        """The critical path of each flow."""
        return self._keep(flows.walked(self.records, self._made["skew"]))

    @cached_property
    def nesting(self) -> DataFrame:
        """The parents and journeys of flows that handlers of other flows began."""
        return nesting.nesting(self.walked, self.records)

    def _ingredient(self, name: str) -> object:
        return self._made[name] if name in self._made else getattr(self, name)

    def _keep(self, table: DataFrame) -> DataFrame:
        kept = table.persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept


def order_of(tables: Iterable[str]) -> list[str]:
    """Return the tables to make for some that are wanted, those that they need first."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in TABLES or TABLES[name].function is None or name in ordered:
            return
        for need in TABLES[name].needs:
            add(need)
        ordered[name] = None

    for name in tables:
        add(name)
    return list(ordered)
