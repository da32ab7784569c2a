"""Ids that are short enough for a screen, and still name one thing.

Flows, nodes, actors and hubs mostly have GUIDs for names: 36 characters each, of which the first eight tell nearly
always which one is meant. An id is shown by as much of its beginning as no other value of its column in the whole table
begins with, and such a beginning is accepted back (`find_id`). Names that people chose are never cut.

That a beginning is unique is looked up, not guessed, and it is cheap: one column is read, of which DuckDB skips what
lies outside the range of the ids in question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from hopline.pipeline.failures import PipelineError
from hopline.pipeline.query import Tables
from hopline.pipeline.sql_text import quoted

SHORTEST = 8
_LISTED = 5  # of the ids that a beginning may stand for
_LAST = "\U0010ffff"  # sorts behind whatever may follow a beginning
_KINDS = "\0\1"  # the first byte of the identity of a hub or an actor, which a terminal does not show
_OPAQUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?:0x)?[0-9a-f]{24,}", re.IGNORECASE)
# Every column that names a flow, a node, an actor or a hub.
_NAMES = {
    *("flow_id", "parent_flow_id", "journey_id", "correlation_id"),
    *("node", "peer", "origin", "from_node", "to_node", "answered_by", "node_a", "node_b"),
    *("actor", "local_receiver", "receiver", "receiver_node", "callback_receiver", "callback_receiver_node"),
    *("asked_node", "asked_receiver", "source", "source_node", "target", "target_node"),
}


class NoIdError(PipelineError):
    """A beginning stands for no id, or for several."""


@dataclass(frozen=True, slots=True)
class FoundId:
    """An id, and the columns of a table that have it."""

    value: str
    columns: tuple[str, ...]


def id_columns(columns: Iterable[str]) -> list[str]:
    """Return those columns that have ids."""
    return [column for column in columns if column in _NAMES]


def short_ids(tables: Tables, table: str, column: str, values: Iterable[str]) -> dict[str, str]:
    """Return how values of a column are shown: ids cut to what no other value in the table begins with."""
    names = {value: value.lstrip(_KINDS) for value in values}
    opaque = {name for name in names.values() if _OPAQUE.fullmatch(name)}
    if not opaque:
        return {value: value for value in names}
    kinds = ("", *_KINDS) if any(value.startswith(tuple(_KINDS)) for value in names) else ("",)
    beginnings = sorted({(kind + name)[:SHORTEST] for kind in kinds for name in opaque})
    column = quoted(column)
    question = (
        f"select distinct {column} from {quoted(table)} where {column} >= $1 and {column} < $2 "  # noqa: S608 - our names
        f"and list_contains($3, left({column}, {SHORTEST}))"
    )
    rows = tables.ask(question, [beginnings[0], beginnings[-1] + _LAST, beginnings]).rows()
    lengths = _lengths({*opaque, *(row[0].lstrip(_KINDS) for row in rows)})
    return {value: name[: lengths[name]] if name in opaque else value for value, name in names.items()}


def _lengths(names: Collection[str]) -> dict[str, int]:
    """Return how many characters tell each of some names from the others. In their order, neighbours share most."""
    ordered = sorted(names)
    shared = [0, *(_shared(*pair) for pair in pairwise(ordered)), 0]
    return {name: max(SHORTEST, *(size + 1 for size in shared[at : at + 2])) for at, name in enumerate(ordered)}


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with that are the same."""
    differing = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def find_id(tables: Tables, table: str, beginning: str) -> FoundId:
    """Return the one id in a table that begins with some characters.

    Raises:
        NoIdError: no id does, or several do.

    """
    columns = id_columns(tables.columns(table))
    if not columns:
        raise NoIdError(f"{table} has no ids of flows, nodes, actors or hubs")
    found: dict[str, list[str]] = {}
    for column in columns:
        for value in _beginning_with(tables, table, column, beginning):
            found.setdefault(value, []).append(column)
    if beginning in found:
        found = {beginning: found[beginning]}
    if not found:
        raise NoIdError(f"no id in {table} begins with {beginning!r}; it has ids in: {', '.join(columns)}")
    if len(found) > 1:
        raise NoIdError(f"several ids in {table} begin with {beginning!r}: {_listed(found)}")
    ((value, having),) = found.items()
    return FoundId(value, tuple(having))


def _beginning_with(tables: Tables, table: str, column: str, beginning: str) -> list[str]:
    column = quoted(column)
    within = " or ".join(f"{column} >= ${low} and {column} < ${low + 1}" for low in (1, 3, 5))
    bounds = [text for kind in ("", *_KINDS) for text in (kind + beginning, kind + beginning + _LAST)]
    question = f"select distinct {column} from {quoted(table)} where {within} order by 1 limit {_LISTED + 1}"  # noqa: S608
    return [row[0] for row in tables.ask(question, bounds).rows()]


def _listed(found: Mapping[str, Collection[str]]) -> str:
    shown = [f"{value.lstrip(_KINDS)} ({', '.join(columns)})" for value, columns in sorted(found.items())]
    return ", ".join(shown[:_LISTED]) + (", and more" if len(shown) > _LISTED else "")
