"""Ids shortened to what fits a screen and is still unique.

Flows, nodes, actors and hubs mostly have GUIDs for names: 36 characters each, the first eight of which are nearly
always unique. An id is cut to the shortest prefix that no other value of its column in the whole table begins with, and
such a prefix is accepted back (`find_id`). Names that people chose are never cut.

That a prefix is unique is looked up, not guessed, which is cheap: one column is read, and DuckDB skips the row groups
outside the range of the ids in question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from hopline.query.errors import QueryError
from hopline.query.sql_text import quoted
from hopline.query.tables import Tables

SHORTEST = 8
_LISTED = 5  # of the ids that a beginning may stand for
_LAST = "\U0010ffff"  # sorts behind whatever may follow a beginning
_KINDS = "\0\1"  # the first byte of the identity of a hub or an actor, which a terminal does not show
_KIND_PREFIXES = tuple(_KINDS)
_ANY_KIND = ("", *_KINDS)
_OPAQUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?:0x)?[0-9a-f]{24,}", re.IGNORECASE)
# Every column that names a flow, a node, an actor or a hub.
_NAMES = {
    "flow_id",
    "parent_flow_id",
    "journey_id",
    "correlation_id",
    "node",
    "peer",
    "origin",
    "from_node",
    "to_node",
    "answered_by",
    "node_a",
    "node_b",
    "actor",
    "local_receiver",
    "receiver",
    "receiver_node",
    "callback_receiver",
    "callback_receiver_node",
    "asked_node",
    "asked_receiver",
    "source",
    "source_node",
    "target",
    "target_node",
}


class NoIdError(QueryError):
    """No id begins with the given characters, or several do."""


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
    have_kinds = any(value.startswith(_KIND_PREFIXES) for value in names)
    kinds = _ANY_KIND if have_kinds else ("",)
    alike = _names_alike(
        tables,
        table,
        column,
        names=opaque,
        kinds=kinds,
    )
    lengths = _unique_lengths(opaque | alike)
    shown = {}
    for value, name in names.items():
        shown[value] = value
        if name in opaque:
            length = lengths[name]
            shown[value] = name[:length]
    return shown


def _names_alike(
    tables: Tables,
    table: str,
    column: str,
    names: Collection[str],
    kinds: Collection[str],
) -> set[str]:
    """Return the names in a column that share the shortest beginning with one of some names."""
    beginnings: set[str] = set()
    for kind in kinds:
        beginnings.update((kind + name)[:SHORTEST] for name in names)
    column = quoted(column)
    query = (
        f"select distinct {column} from {quoted(table)} where {column} >= $1 and {column} < $2 "  # noqa: S608 - our names
        f"and list_contains($3, left({column}, {SHORTEST}))"
    )
    ordered = sorted(beginnings)
    first = ordered[0]
    last = ordered[-1] + _LAST
    rows = tables.ask(query, [first, last, ordered]).rows()
    return {row[0].lstrip(_KINDS) for row in rows}


def _unique_lengths(names: Collection[str]) -> dict[str, int]:
    """Return the length of the shortest unique prefix of each name."""
    lengths = dict.fromkeys(names, SHORTEST)
    for name, following in pairwise(sorted(names)):  # no others share more with them
        length = _shared(name, following) + 1
        lengths[name] = max(lengths[name], length)
        lengths[following] = max(lengths[following], length)
    return lengths


def _shared(name: str, other: str) -> int:
    """Return how many characters two texts begin with that are the same."""
    shared = 0
    for mine, theirs in zip(name, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def find_id(tables: Tables, table: str, beginning: str) -> FoundId:
    """Return the one id in a table that begins with some characters.

    Raises:
        NoIdError: no id does, or several do.

    """
    columns = id_columns(tables.columns(table))
    if not columns:
        raise NoIdError(f"{table} has no ids of flows, nodes, actors or hubs")
    columns_by_id: dict[str, list[str]] = {}
    for column in columns:
        for value in _beginning_with(tables, table, column, beginning):
            columns_of_id = columns_by_id.setdefault(value, [])
            columns_of_id.append(column)
    if beginning in columns_by_id:  # a whole id, whatever else begins with it
        exact_columns = columns_by_id[beginning]
        return FoundId(beginning, tuple(exact_columns))
    if not columns_by_id:
        listed_columns = ", ".join(columns)
        raise NoIdError(f"no id in {table} begins with {beginning!r}; it has ids in: {listed_columns}")
    if len(columns_by_id) > 1:
        listed_ids = _listed(columns_by_id)
        raise NoIdError(f"several ids in {table} begin with {beginning!r}: {listed_ids}")
    value, columns_of_id = columns_by_id.popitem()
    return FoundId(value, tuple(columns_of_id))


def _beginning_with(tables: Tables, table: str, column: str, beginning: str) -> list[str]:
    """Return the ids in a column that begin with some characters: all of them, or more than are listed."""
    column = quoted(column)
    ranges = []
    bounds = []
    for kind in _ANY_KIND:
        lowest = kind + beginning
        highest = lowest + _LAST
        ranges.append(f"{column} >= ? and {column} < ?")
        bounds += [lowest, highest]
    condition = " or ".join(ranges)
    limit = _LISTED + 1
    query = f"select distinct {column} from {quoted(table)} where {condition} order by 1 limit {limit}"  # noqa: S608
    rows = tables.ask(query, bounds).rows()
    return [row[0] for row in rows]


def _listed(columns_by_id: Mapping[str, Collection[str]]) -> str:
    """Return the first of some ids with their columns, as text."""
    shown = []
    for value, columns in sorted(columns_by_id.items()):
        name = value.lstrip(_KINDS)
        listed_columns = ", ".join(columns)
        shown.append(f"{name} ({listed_columns})")
    if len(shown) > _LISTED:
        shown[_LISTED:] = ["and more"]
    return ", ".join(shown)
