"""What all tests share: the examples of property-based tests, restored loggers, one Spark session, and groups.

Property-based tests use the same examples in every run, so that a test that passed keeps passing. More and new examples
are tried by ``make test ARGS='--hypothesis-profile=thorough'`` and ``make fuzz``.

With ``--dist loadgroup`` pytest-xdist runs the tests of a group on one worker. The tests that use the fixture `spark`
are one group, so that they share one session. Those that start JVMs of their own are a second one, ``jvm``, which they
declare themselves: the two can run beside each other, and no third JVM competes with them. Every other file is a group
of its own, so that the fixtures of a module are set up once.

Tests marked ``slow`` are left out unless ``-m`` selects them. Each has a short version in the same file that proves
the same on less input.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.spark_settings import FEW_ROWS, spark_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST_GROUPS = ("jvm", "spark")
SPARK_TIMEOUT_S = 900  # on a machine that is busy with other work

settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile(
    "daily", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("daily")

os.environ.pop("COLUMNS", None)  # output must not depend on the width of the terminal that the tests run in


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Assign each test that declares no group of pytest-xdist to one, and give those of Spark more time."""
    for item in items:
        uses_spark = isinstance(item, pytest.Function) and "spark" in item.fixturenames
        if uses_spark and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        if config.pluginmanager.hasplugin("xdist") and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("spark" if uses_spark else str(item.path)))
    items.sort(key=_start_order)


def _start_order(item: pytest.Item) -> int:
    """Return 0 for the tests of the groups that take longest: the last worker to finish must not be one of theirs."""
    group = item.get_closest_marker("xdist_group")
    return 0 if group is not None and group.args[0] in LONGEST_GROUPS else 1


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
    (directory / "spark-defaults.conf").write_text(spark_defaults(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(directory))
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Open one Spark session for the whole run, because starting one takes seconds."""
    from hopline.pipeline.session import spark_session  # the fast tests run without Spark

    with spark_session("local[2]", app_name="hopline tests", memory="1g", config=FEW_ROWS) as session:
        yield session
