"""Hopline on its way to the executors."""

from __future__ import annotations

from contextlib import ExitStack

from pyspark.sql import SparkSession


def ship(session: SparkSession, stack: ExitStack) -> None:
    """Send this package to every executor."""
