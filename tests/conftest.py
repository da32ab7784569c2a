"""What all tests share: the examples of property-based tests, restored loggers, one Spark session, and their order.

Property-based tests use the same examples in every run, so that a test that passed keeps passing. More and new examples
are tried by ``make test ARGS='--hypothesis-profile=thorough'`` and ``make fuzz``.

With ``--dist loadfile`` pytest-xdist runs the tests of a file on one worker, so that a module's fixtures are set up
once. Files whose tests use the fixture `spark`, or start JVMs of their own (marked ``jvm``), take longest: they start
first, so that no worker is left with one of them at the end.

Tests marked ``slow`` are left out unless ``-m`` selects them. Each has a short version in the same file that proves
the same on less input.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from hopline.demo.few_rows import write_spark_defaults
from tests.spark_settings import FEW_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_TIMEOUT_S = 900  # on a machine that is busy with other work

settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile(
    "daily", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("daily")

os.environ.pop("COLUMNS", None)  # output must not depend on the width of the terminal that the tests run in


@pytest.hookimpl(trylast=True)  # after pytest-randomly has shuffled them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with tests of Spark first, and give such tests more time."""
    files_with_spark: set[Path] = set()
    for item in items:
        uses_session = isinstance(item, pytest.Function) and "spark" in item.fixturenames
        if uses_session and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        if uses_session or item.get_closest_marker("jvm"):
            files_with_spark.add(item.path)
    items.sort(key=lambda item: item.path not in files_with_spark)


@pytest.fixture(autouse=True)
def _restored_loggers() -> Iterator[None]:
    """Restore the loggers, which commands that run inside the test process configure as if it were their own."""
    loggers = [logging.getLogger(), logging.getLogger("hopline")]
    before = [(logger.level, tuple(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="session", autouse=True)
def _quick_spark_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the processes that tests start run Spark with settings for few rows."""
    directory = tmp_path_factory.mktemp("spark")
    write_spark_defaults(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(directory))
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Open one Spark session for the whole run, because starting one takes seconds."""
    from hopline.pipeline.session import spark_session  # the fast tests run without Spark

    with spark_session("local[2]", app_name="hopline tests", memory="1g", config=FEW_ROWS) as session:
        yield session
