"""What all tests share: examples of property-based tests, logs as they were before each test, one Spark session.

Every day the same examples, so that a test that was green stays so; new ones, and more of them, are tried by
``make test ARGS='--hypothesis-profile=thorough'`` and ``make fuzz``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile(
    "daily", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("daily")

os.environ.pop("COLUMNS", None)  # how wide the terminal is that the tests were started from concerns none of them


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Undo what commands that run inside the test process do to the logs: theirs is a whole process."""
    loggers = [logging.getLogger(), logging.getLogger("hopline")]
    before = [(logger.level, tuple(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Open the one Spark session that serves the whole run: it takes seconds to start."""
    from hopline.pipeline.session import spark_session  # there are Pythons to test without Spark
    from tests.pipeline.elsewhere import FEW_ROWS

    with spark_session("local[2]", app_name="hopline tests", memory="1g", config=FEW_ROWS) as session:
        yield session
