"""Which table is made of which, and by which function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from hopline.pipeline.tables.audit import audit
from hopline.pipeline.tables.callbacks import callbacks
from hopline.pipeline.tables.edges import deliveries, edges
from hopline.pipeline.tables.flows import flows, paths
from hopline.pipeline.tables.handlers import handlers
from hopline.pipeline.tables.hops import hops, transits
from hopline.pipeline.tables.security import incidents, security
from hopline.pipeline.tables.skew import skew
from hopline.pipeline.traces import Traces


class Making(Protocol):
    """The tables that are there already, and what the run was told."""

    def __getitem__(self, name: str) -> DataFrame:
        """Read one of them."""

    @property
    def traces(self) -> Traces:
        """Give the traces of all messages."""

    @property
    def window_s(self) -> int:
        """Tell the length of a window in seconds."""

    @property
    def signed_identities(self) -> list[str]:
        """Tell which messages must be signed, by the keys that the run was given."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a table is made."""

    needs: tuple[str, ...]
    make: Callable[[Making], DataFrame]


# In an order in which everything is there when it is needed. Messages, rejects and spans come by decoding. What several
# tables are made of, but nobody reads, is written as well rather than computed again.
RECIPES = {
    "transits": Recipe(("messages",), lambda made: transits(made["messages"], made.traces)),
    "skew": Recipe(("transits",), lambda made: skew(made["transits"])),
    "hops": Recipe(("transits", "skew"), lambda made: hops(made["transits"], made["skew"])),
    "callbacks": Recipe(("messages",), lambda made: callbacks(made["messages"], made.traces)),
    "paths": Recipe(("messages", "skew"), lambda made: paths(made["messages"], made["skew"], made.traces)),
    "flows": Recipe(
        ("messages", "callbacks", "hops", "paths"),
        lambda made: flows(made["messages"], made["callbacks"], made["hops"], made["paths"]),
    ),
    "handlers": Recipe(("messages",), lambda made: handlers(made["messages"], made.window_s, made.traces)),
    "deliveries": Recipe(("messages",), lambda made: deliveries(made["messages"], made.traces)),
    "edges": Recipe(
        ("messages", "transits", "deliveries"),
        lambda made: edges(made["messages"], made["transits"], made["deliveries"], made.window_s),
    ),
    "security": Recipe(("messages",), lambda made: security(made["messages"], made.window_s)),
    "incidents": Recipe(("messages",), lambda made: incidents(made["messages"], made.signed_identities)),
    "audit": Recipe(
        ("messages", "rejects", "spans"),
        lambda made: audit(made["messages"], made["rejects"], made.traces, made["spans"]),
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
