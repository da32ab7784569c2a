"""The findings of all tables: what is worth knowing first."""

from __future__ import annotations

from pathlib import Path

from hopline.pipeline.days import Days
from hopline.pipeline.tables.all import TABLES
from hopline.pipeline.tables.findings import Finding, Seen
from hopline.query.tables import open_tables


def findings(location: str | Path, days: Days | None = None) -> list[Finding]:
    """Return what is worth knowing in the tables at a location, of some days or of all."""
    found: list[Finding] = []
    with open_tables(location) as tables:
        for name in tables.names:
            if not tables.files(name):
                continue
            seen = Seen(tables, name, days or Days())
            for look in TABLES[name].findings:
                finding = look(seen)
                if finding.rows:
                    found.append(finding)
    return found
