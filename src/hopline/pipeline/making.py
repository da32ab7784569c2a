"""Making the tables: each is given what its function names, and what several need is computed once and kept.

The parameters of a table's function are its ingredients. Each is another table, or one of the properties here: the
records of messages, transits, the time of each node's last message, an option of the run. A caller that has some of
them already, as a stream has, gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from hopline.pipeline.tables import audit, by_flow, edges, flows, handlers, nesting, security, transits
from hopline.pipeline.tables.all import TABLES
from hopline.pipeline.tables.table import PROVISIONAL
from hopline.pipeline.windows import last_seen

_NOTHING: Mapping[str, DataFrame] = MappingProxyType({})


class Making:
    """The tables of a run in the making.

    Args:
        messages: The table of messages.
        rejects: The table of rejects.
        window_s: The length of a window in seconds.
        signed_identities: The kinds of messages that must be signed.
        is_judged: Whether there are keys, so that replays can be told.
        is_provisional: Whether a stream makes the tables, and may replace their rows.
        given: Ingredients that are there already, by name.
    """

    def __init__(
        self,
        messages: DataFrame,
        rejects: DataFrame,
        *,
        window_s: int,
        signed_identities: Sequence[str] = (),
        is_judged: bool = True,
        is_provisional: bool = False,
        given: Mapping[str, DataFrame] = _NOTHING,
    ) -> None:
        self.messages = messages
        self.rejects = rejects
        self.window_s = window_s
        self.signed_identities = signed_identities
        self._is_judged = is_judged
        self._is_provisional = is_provisional
        self._made: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []
        for name, ingredient in given.items():
            if name in TABLES:
                self.written(name, ingredient)
            else:
                setattr(self, name, ingredient)  # in place of the property, which is then never computed

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
        made = table.function(**{need: self._ingredient(need) for need in table.needs})
        if PROVISIONAL in table.schema.names:
            made = made.withColumn(PROVISIONAL, sf.lit(self._is_provisional))
        return made

    def written(self, name: str, table: DataFrame) -> None:
        """Note a table as it was written: the next are made of it."""
        self._made[name] = table

    def keep(self, name: str) -> DataFrame:
        """Make a table that is not written, or not all of it, for the next, and return it."""
        self._made[name] = self._keep(self.make(name))
        return self._made[name]

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

    @cached_property
    def runs(self) -> DataFrame:
        """The runs of handlers."""
        return handlers.runs(self.records)

    @cached_property
    def crossings(self) -> DataFrame:
        """What each message adds to the edges that it crossed."""
        return edges.crossings(self._made["hops"], self.records)

    @cached_property
    def counts(self) -> DataFrame:
        """The records of each node and hour."""
        return audit.counts(self.messages, self.rejects)

    @cached_property
    def stretches(self) -> DataFrame:
        """The stretches of each node's numbers that have no gap."""
        return audit.stretches(self.messages, self.rejects)

    @cached_property
    def balances(self) -> DataFrame:
        """The messages of each node and hour whose outcomes are too few or too many."""
        return audit.balances(self.messages)

    def _ingredient(self, name: str) -> object:
        return self._made[name] if name in self._made else getattr(self, name)

    def _keep(self, table: DataFrame) -> DataFrame:
        kept = table.persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept


_TABLES_BEHIND = {"walked": "skew", "crossings": "hops"}
"""Tables that ingredients are made of."""


def order_of(tables: Iterable[str]) -> list[str]:
    """Return the tables to make for some that are wanted, those that they need first."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        name = _TABLES_BEHIND.get(name, name)
        if name not in TABLES or TABLES[name].function is None or name in ordered:
            return
        for need in TABLES[name].needs:
            add(need)
        ordered[name] = None

    for name in tables:
        add(name)
    return list(ordered)
