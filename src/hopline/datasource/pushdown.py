"""Spark's filters as Arrow conditions, which are tested against the statistics of row groups, then row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import eq, ge, gt, le, lt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], Any]] = {
    EqualTo: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
}


def condition_of(filters: Iterable[Filter], wanted: pa.Schema, physical: pa.Schema) -> pc.Expression | None:
    """Return a condition that every row which passes the filters meets, or None if there is none.

    A filter of an unknown kind, or on a column that the file has in another type, is left to Spark.
    """
    whole: pc.Expression | None = None
    for one in filters:
        condition = _condition(one, wanted, physical)
        if whole is None:
            whole = condition
        elif condition is not None:
            whole = whole & condition
    return whole


def _condition(one: Filter, wanted: pa.Schema, physical: pa.Schema) -> pc.Expression | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else None  # others are of a field within a column
    if name not in wanted.names:
        return None
    is_comparison = type(one) in _COMPARISONS
    if name not in physical.names:
        fails_for_null = is_comparison or isinstance(one, In | IsNotNull)
        return pc.scalar(False) if fails_for_null else None
    kind = wanted.field(name).type
    if physical.field(name).type != kind or pa.types.is_nested(kind):
        return None
    column = pc.field(name)
    if isinstance(one, IsNotNull):
        return ~column.is_null()
    if isinstance(one, In):
        values = [value for value in one.value if value is not None]
        return column.isin(pa.array(values, kind))
    value = getattr(one, "value", None)
    if not is_comparison or value is None:
        return None
    compare = _COMPARISONS[type(one)]
    return compare(column, pa.scalar(value, kind))
