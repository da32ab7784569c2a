"""What a person wants to know of the tables first: the findings of each."""

from __future__ import annotations

from pathlib import Path

from hopline.pipeline.days import Days
from hopline.pipeline.findings import Finding, Seen
from hopline.pipeline.query import open_tables
from hopline.pipeline.tables.all import TABLES


def findings(location: str | Path, days: Days | None = None) -> list[Finding]:
    """Look through the tables at a location, of some days or of all, for what is worth knowing."""
    with open_tables(location) as tables:
        seen = [Seen(tables, name, days or Days()) for name in tables.names if tables.files(name)]
        found = [look(one) for one in seen for look in TABLES[one.table].findings]
    return [finding for finding in found if finding.rows]
