"""Which table is made of which, and by which function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from hopline.pipeline.tables.audit import audit
from hopline.pipeline.tables.callbacks import asking
from hopline.pipeline.tables.edges import edges
from hopline.pipeline.tables.flows import walking
from hopline.pipeline.tables.handlers import handlers
from hopline.pipeline.tables.hops import matching
from hopline.pipeline.tables.large_flows import totals_of_large_flows
from hopline.pipeline.tables.security import security
from hopline.pipeline.tables.skew import skew
from hopline.pipeline.tables.talks import talking
from hopline.pipeline.traces import Kernel, Traces


class Making(Protocol):
    """The tables that are there already, and what the run was told."""

    def __getitem__(self, name: str) -> DataFrame:
        """Read one of them."""

    @property
    def traces(self) -> Traces:
        """Give the traces of all messages."""

    @property
    def skew(self) -> pa.Table:
        """Give the table of skew, which is small."""

    @property
    def ends(self) -> pa.Table:
        """Give the time of each node's last message."""

    @property
    def window_s(self) -> int:
        """Tell the length of a window in seconds."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a table is made: by Spark, or of the traces by a kernel."""

    needs: tuple[str, ...]
    make: Callable[[Making], DataFrame | Kernel]
    has_few_rows: bool = False  # however many messages there are


# In an order in which everything is there when it is needed. Messages, rejects, incidents and what is noted of them
# come by decoding. What several tables are made of, but nobody reads, is written as well rather than computed again.
RECIPES = {
    "skew": Recipe(("messages",), lambda made: skew(made["messages"], made.traces), has_few_rows=True),
    "hops": Recipe(("messages", "skew"), lambda made: matching(made.skew, made.ends)),
    "callbacks": Recipe(("messages",), lambda made: asking(made.ends)),
    "flows": Recipe(
        ("messages", "skew"),
        lambda made: walking(made.skew, made.ends, totals_of_large_flows(made.traces)),
    ),
    "handlers": Recipe(("messages",), lambda made: handlers(made["messages"], made.window_s, made.traces)),
    "talks": Recipe(("messages", "skew"), lambda made: talking(made.window_s, made.skew, made.ends)),
    "edges": Recipe(
        ("messages", "skew", "talks"),
        lambda made: edges(made["messages"], made["skew"], made.window_s, made["talks"]),
    ),
    "security": Recipe(
        ("messages", "verdicts"),
        lambda made: security(made["messages"], made.window_s, made["verdicts"]),
        has_few_rows=True,
    ),
    "audit": Recipe(
        ("messages", "rejects", "spans", "hours"),
        lambda made: audit(made["messages"], made["rejects"], made.traces, made["spans"], made["hours"]),
        has_few_rows=True,
    ),
}


def to_make(tables: Iterable[str]) -> list[str]:
    """Give the recipes that some tables take, those that they need included, in an order that works."""
    wanted: set[str] = set()
    waiting = list(tables)
    while waiting:
        if (name := waiting.pop()) in RECIPES and name not in wanted:
            wanted.add(name)
            waiting += RECIPES[name].needs
    return [name for name in RECIPES if name in wanted]
