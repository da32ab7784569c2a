"""Journeys as traces for the tools that people already have: OTLP and Zipkin, made of the tables on Spark.

`run_export(options)` starts Spark and writes or sends the traces; `export(options, spark)` does it in a session that is
there. docs/how-to/export-traces.md has the mapping.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopline.export.job import ExportReport, export, run_export
    from hopline.export.options import ExportOptions

__all__ = ["ExportOptions", "ExportReport", "export", "run_export"]

_HOMES = {
    "ExportOptions": "hopline.export.options",
    "ExportReport": "hopline.export.job",
    "export": "hopline.export.job",
    "run_export": "hopline.export.job",
}


def __getattr__(name: str) -> Any:
    # Executors import `hopline.export.post`, and need nothing of the job.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
