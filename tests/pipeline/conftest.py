"""One Spark session serves the whole run: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from hopline.pipeline.session import spark_session
from tests.pipeline.elsewhere import QUICK_START

# For a handful of rows: to compile a query takes longer than to interpret it.
CONFIG = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", app_name="hopline tests", memory="1g", config=CONFIG) as session:
        yield session
