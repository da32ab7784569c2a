"""All tables, in the order of the documentation."""

from __future__ import annotations

from hopline.pipeline.tables import (
    audit,
    callbacks,
    edges,
    flows,
    handlers,
    hops,
    incidents,
    journeys,
    late,
    messages,
    rejects,
    security,
    skew,
)
from hopline.pipeline.tables.table import Table

_MODULES = (
    messages,
    rejects,
    hops,
    callbacks,
    flows,
    journeys,
    handlers,
    edges,
    security,
    incidents,
    skew,
    audit,
    late,
)

TABLES: dict[str, Table] = {module.TABLE.name: module.TABLE for module in _MODULES}
