"""From captured frames to answers, on Spark: functions that take and return DataFrames, and a job that writes them.

>>> from pathlib import Path
>>> from hopline.pipeline import PipelineOptions
>>> options = PipelineOptions(captures=("captures",), out=Path("tables"))
>>> options.window_s
60

`run_pipeline(options)` starts Spark and writes the tables; `run(options, spark)` does it in a session that is there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopline.pipeline.job import RunReport, run, run_pipeline
    from hopline.pipeline.options import PipelineOptions

__all__ = ["PipelineOptions", "RunReport", "run", "run_pipeline"]

_HOMES = {
    "PipelineOptions": "hopline.pipeline.options",
    "RunReport": "hopline.pipeline.job",
    "run": "hopline.pipeline.job",
    "run_pipeline": "hopline.pipeline.job",
}


def __getattr__(name: str) -> Any:
    # The definitions of the tables are imported where no job is run: to read the tables, and on executors.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
