"""``hopline pipeline submit-path``: the file that spark-submit takes."""

from __future__ import annotations

from pathlib import Path

import typer

import hopline.cli


def submit_path_command() -> None:
    """Print the file to give to spark-submit, which then decides where Spark runs; see docs/how-to/run-on-a-cluster.md.

    **Example**:

        spark-submit --master spark://host:7077 "$(hopline pipeline submit-path)" run captures --out tables
    """
    typer.echo(Path(hopline.cli.__file__).parent / "submit" / "hopline_pipeline.py")
