"""Spark's filters as conditions that Arrow can test, first against the statistics of a row group, then row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_, eq, ge, gt, le, lt
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
    """Return what holds for every row of a file that passes the filters; None where nothing can be told.

    A filter that is not understood, or whose column the file writes in a type of its own, is left to Spark.
    """
    conditions = [found for one in filters if (found := _condition(one, wanted, physical)) is not None]
    return reduce(and_, conditions) if conditions else None


def _condition(one: Filter, wanted: pa.Schema, physical: pa.Schema) -> pc.Expression | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in wanted.names:
        return None
    name = path[0]
    kind = wanted.field(name).type
    if name not in physical.names:
        # Nothing but null there, which passes none of these.
        return pc.scalar(False) if type(one) in _COMPARISONS or isinstance(one, In | IsNotNull) else None
    if physical.field(name).type != kind or pa.types.is_nested(kind):
        return None
    if isinstance(one, IsNotNull):
        return ~pc.field(name).is_null()
    if isinstance(one, In):
        return pc.field(name).isin(pa.array([value for value in one.value if value is not None], kind))
    compare = _COMPARISONS.get(type(one))
    value = getattr(one, "value", None)
    return None if compare is None or value is None else compare(pc.field(name), pa.scalar(value, kind))
